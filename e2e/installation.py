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
from e2e.cluster.extras import CONTROLLER, NODE_AGENT, POOLS
from e2e.cluster.settings import ClusterError
from taugrid_ray.kinds.resource import CONFIG_MAP, Obj
from taugrid_ray.kube.api import Patch


def install(cluster: Cluster, *, controller: bool = True) -> None:
    """Apply deploy/ and start what runs beside the control plane."""
    apply(cluster, *CONTROLLER.manifests)
    await_crds(cluster)
    set_pools(cluster, [])
    cluster.start_extra(POOLS)
    if cluster.nodes is Nodes.PROCESS:
        cluster.start_extra(NODE_AGENT)
    if controller:
        start_controller(cluster)


def start_controller(cluster: Cluster, *, kubeconfig: Path | None = None) -> None:
    """kubeconfig: another way to the API server, such as through a relay; by default its own."""
    cluster.start_part(
        CONTROLLER.name,
        CONTROLLER.argv,
        kubeconfig=kubeconfig or controllers_kubeconfig(cluster),
        ready_url=CONTROLLER.ready_url,
    )


def controllers_kubeconfig(cluster: Cluster) -> Path:
    """With the rights of deploy/rbac.yaml and no others."""
    return cluster.kubeconfig_for(CONTROLLER.user, CONTROLLER.groups)


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
