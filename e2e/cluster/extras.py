"""Our own programs beside the control plane: the node agent, the pools, the controller.

The node agent and the pools stand in for a kubelet and for Cluster Autoscaler, and may do anything.
The controller gets exactly the rights of its manifests, as a pod of its service account would.
"""

from __future__ import annotations

from e2e.cluster.settings import REPOSITORY, ExtraPart, Nodes

_ANYTHING = ("system:masters",)

NODE_AGENT = ExtraPart(
    name="nodes",
    argv=(
        *("{python}", "-m", "e2e.nodes"),
        *("--kubeconfig", "{kubeconfig}"),
        *("--folder", "{folder}/nodes"),
        *("--bridge", "{bridge}"),
        *("--bridge-address", "{address}"),
        *("--subnet", "{subnet}"),
        *("--api-address", "{pod_api}"),
        *("--prefix", "{prefix}"),
        *("--client-ca", "{ca}"),
    ),
    user="e2e-nodes",
    groups=_ANYTHING,
)

POOLS = ExtraPart(
    name="pools",
    argv=("{python}", "-m", "e2e.pools", "--kubeconfig", "{kubeconfig}"),
    user="e2e-pools",
    groups=_ANYTHING,
)

CONTROLLER_NAMESPACE = "taugrid-ray"
CONTROLLER = ExtraPart(
    name="controller",
    argv=(
        *("{python}", "-m", "controllers"),
        *("--kubeconfig", "{kubeconfig}"),
        *("--health-address", "127.0.0.1"),
        *("--health-port", "{port}"),
        # As a container that crashed comes back in the same pod: it holds the lease still.
        *("--identity", "controller"),
    ),
    user=f"system:serviceaccount:{CONTROLLER_NAMESPACE}:taugrid-ray-controller",
    groups=(
        "system:serviceaccounts",
        f"system:serviceaccounts:{CONTROLLER_NAMESPACE}",
        "system:authenticated",
    ),
    ready_url="http://127.0.0.1:{port}/readyz",
    manifests=(
        REPOSITORY / "deploy" / "crds" / "capacitypolicies.yaml",
        REPOSITORY / "deploy" / "rbac.yaml",
    ),
)


def default_extras(nodes: Nodes) -> tuple[ExtraPart, ...]:
    """What `python -m e2e up` starts after the control plane."""
    agents = (NODE_AGENT,) if nodes is Nodes.PROCESS else ()
    return (*agents, POOLS, CONTROLLER)
