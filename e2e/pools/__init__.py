"""Node pools and their autoscaler: a stand-in for Cluster Autoscaler and its cloud.

One process plays both against a real API server. It watches nodes, pods, PodTemplates and
ProvisioningRequests, and once a loop it decides what the autoscaler and the cloud would do:

    observe (parse.py) -> decide (decide.py, pure) -> perform (shell.py)

What it knows of the real autoscaler was recorded: `tests/data/recordings/cluster-autoscaler/` holds
requests and the conditions that they got, and `tests/pools` replays each of them through `decide`.

    settings.py   what can be set, as pydantic models: pools and the autoscaler's habits
    state.py      what a loop sees and what it remembers, as frozen values
    parse.py      JSON of the API server -> those values
    fit.py        which pods fit on which nodes
    decide.py     one loop; cloud.py, requests.py and scaledown.py are its chapters
    nodes.py      the Node objects of a pool
    status.py     what the status ConfigMap says
    shell.py      the loop against the API server
"""
