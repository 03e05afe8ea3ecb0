"""What a container has written so far, asked for as a user would."""

from __future__ import annotations

import subprocess

from e2e.cluster import Cluster
from e2e.cluster.settings import ClusterError


def logs_of(cluster: Cluster, namespace: str, pod: str, container: str = "") -> str:
    """`kubectl logs`, of the pod's only or default container unless one is named.

    Raises ClusterError with kubectl's words.
    """
    argv = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "logs"]
    argv += ["--namespace", namespace, pod, *(["--container", container] if container else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode != 0:
        raise ClusterError(f"kubectl logs {pod} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
