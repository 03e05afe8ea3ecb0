"""What a container writes, asked for as a user would."""

from __future__ import annotations

import subprocess

from e2e.cluster import Cluster
from e2e.cluster.settings import ClusterError


def follow_logs(
    cluster: Cluster, namespace: str, pod: str, container: str = "", *, timeout_s: float
) -> str:
    """`kubectl logs --follow` until the container has ended; all that it wrote.

    Of the pod's only or default container unless one is named. Raises ClusterError with kubectl's
    words, or where it goes on for longer than `timeout_s`.
    """
    argv = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "logs", "--follow"]
    argv += ["--namespace", namespace, pod, *(["--container", container] if container else [])]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, errors="replace", timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"pod {pod} still writes its log after {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise ClusterError(f"kubectl logs {pod} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
