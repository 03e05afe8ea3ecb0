"""Process nodes: pods as local processes, so that Ray is real.

One process, `python -m e2e.nodes`, plays the kubelet of every Node that carries the annotation
`e2e.taugrid.io/node: process`. It does not make nodes: the stand-in cloud or a scenario does.

    agent         the whole of it: watches in, workers per pod, heartbeats
    node          Node objects: Ready, heartbeats, leases
    worker        one pod: observe, decide, perform
    lifecycle     pure: which container starts, restarts or stops now
    status        pure: phase, conditions and container statuses out of what happened
    environment   pure: env, envFrom, $(VAR), field and resource references
    addresses     pure: which pod gets which address
    hosts         pure: the text of a pod's /etc/hosts
    limits        pure: the files in which a container finds its limits
    volumes       what is mounted into a container, and the files behind it
    sandbox       a pod's network: a namespace on the cluster's bridge
    container     one attempt of one container, as a process
    launch        the program that becomes that process: namespaces, mounts, exec
    probes        pure: when to probe and what the answers mean; and the asking
    logs          reading a container's log file
    kubelet       the part of the kubelet's HTTPS API that `kubectl logs` needs
    host          what this machine must be able to do, and what a dead agent left behind

Why nothing outlives the agent. A pod's namespaces have no names: they live as long as the processes
in them. Each of those processes asked the kernel to be killed when its parent dies, up to the agent
itself, and each container is a PID namespace, which dies with its first process. So after kill -9
of the agent the kernel ends every pod, and with the network namespaces go the links.
"""
