"""taugrid-ray installed on a local cluster, as an admin would install it: CRDs, RBAC, controller.

The controller runs under its own service account's rights, never as admin. The pools (cloud and
autoscaler) and, where nodes are real, the node agent run beside it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.cluster import Cluster, Nodes
from e2e.cluster.extras import NODE_AGENT
from e2e.cluster.settings import REPOSITORY, ClusterError
from taugrid_ray.kinds.resource import CONFIG_MAP, Obj
from taugrid_ray.kube.api import Patch

CONTROLLER_USER = "system:serviceaccount:taugrid-ray:taugrid-ray-controller"
CONTROLLER_GROUPS = (
    "system:serviceaccounts",
    "system:serviceaccounts:taugrid-ray",
    "system:authenticated",
)
CONTROLLER = "controller"


def install(cluster: Cluster, *, controller: bool = True) -> None:
    """Apply deploy/ and start what runs beside the control plane."""
    apply(cluster, REPOSITORY / "deploy" / "crds", REPOSITORY / "deploy" / "rbac.yaml")
    await_crds(cluster)
    set_pools(cluster, [])
    cluster.start_part("pools", ("{python}", "-m", "e2e.pools", "--kubeconfig", "{kubeconfig}"))
    if cluster.nodes is Nodes.PROCESS:
        cluster.start_extra(NODE_AGENT)
    if controller:
        start_controller(cluster)


def start_controller(cluster: Cluster, *, kubeconfig: Path | None = None) -> None:
    """kubeconfig: another way to the API server, such as through a relay; by default its own."""
    argv = (
        *("{python}", "-m", "controllers", "--kubeconfig", "{kubeconfig}"),
        *("--health-address", "127.0.0.1", "--health-port", "{port}"),
        # As a container that crashed comes back in the same pod: it holds the lease still.
        *("--identity", CONTROLLER),
    )
    ready = "http://127.0.0.1:{port}/readyz"
    cluster.start_part(
        CONTROLLER,
        argv,
        kubeconfig=kubeconfig or cluster.kubeconfig_for(CONTROLLER_USER, CONTROLLER_GROUPS),
        ready_url=ready,
    )


def apply(cluster: Cluster, *paths: Path) -> None:
    """`kubectl apply --server-side`; raises ClusterError with kubectl's words."""
    argv = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "apply"]
    argv += ["--server-side", "--force-conflicts", "--field-manager", "e2e"]
    for path in paths:
        argv += ["-f", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"kubectl apply failed: {done.stderr.strip()[-500:]}")


def await_crds(cluster: Cluster) -> None:
    argv = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "wait", "crd"]
    argv += ["capacitypolicies.taugrid.io", "--for", "condition=Established", "--timeout", "30s"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"the CRD did not become usable: {done.stderr.strip()[-500:]}")


def set_pools(
    cluster: Cluster, pools: list[Obj], autoscaler: Mapping[str, object] | None = None
) -> None:
    """Write the stand-in cloud's settings; it takes them up within a loop."""
    text = yaml.safe_dump({"pools": pools, "autoscaler": dict(autoscaler or {})})
    cluster.api.patch(
        CONFIG_MAP,
        "e2e-pools",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "e2e-pools", "namespace": "kube-system"},
            "data": {"pools": text},
        },
        "kube-system",
        how=Patch.APPLY,
        manager="e2e",
        force=True,
    )
