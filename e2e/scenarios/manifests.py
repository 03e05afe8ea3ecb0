"""The jobs that scenarios run. What they ask for is small: nodes have 4 CPUs here."""

from __future__ import annotations

from typing import Any

from taugrid_ray import names
from taugrid_ray.kinds.resource import Obj

RAY_VERSION = "2.56.0"


def job(
    name: str,
    *,
    pods: int = 3,
    cpu: str = "1",
    seconds: int = 3,
    annotations: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
    **resources: str,
) -> Obj:
    """A batch Job of `pods` pods side by side; on fake nodes each runs for `seconds`."""
    delay = {
        "pod-complete.stage.kwok.x-k8s.io/delay": f"{seconds}s",
        "pod-complete.stage.kwok.x-k8s.io/jitter-delay": f"{seconds}s",
    }
    return {
        "metadata": {
            "name": name,
            "labels": {names.QUEUE: "queue"},
            "annotations": annotations or {},
        },
        "spec": {
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 3,
            "template": {
                "metadata": {"annotations": delay},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox",
                            "command": ["sleep", str(seconds)],
                            "resources": {"requests": {"cpu": cpu, "memory": "64Mi", **resources}},
                        }
                    ],
                    **(pod or {}),
                },
            },
        },
    }


def ray_pod(container: str, cpu: str, memory: str, **extra: Any) -> Obj:
    amounts = {"cpu": cpu, "memory": memory, **extra}
    return {
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": container,
                    "image": f"rayproject/ray:{RAY_VERSION}",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        }
    }


def worker_group(name: str, replicas: int, *, cpu: str = "1", **extra: Any) -> Obj:
    return {
        "groupName": name,
        "replicas": replicas,
        "minReplicas": replicas,
        "maxReplicas": replicas,
        "rayStartParams": {},
        "template": ray_pod("ray-worker", cpu, "1Gi", **extra),
    }


def ray_job(
    name: str,
    *,
    entrypoint: str,
    groups: list[Obj] | None = None,
    mode: str = "K8sJobMode",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """A RayJob with a head (1 CPU, none of it for tasks) and two 1-CPU workers by default."""
    submitter = {
        "submitterPodTemplate": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "ray-job-submitter",
                        "image": f"rayproject/ray:{RAY_VERSION}",
                        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
                    }
                ],
            }
        }
    }
    return {
        "metadata": {
            "name": name,
            "labels": {names.QUEUE: "queue"},
            "annotations": annotations or {},
        },
        "spec": {
            "suspend": True,
            "entrypoint": entrypoint,
            "submissionMode": mode,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 0,
            **(submitter if mode == "K8sJobMode" else {}),
            "rayClusterSpec": {
                "rayVersion": RAY_VERSION,
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},
                    "template": ray_pod("ray-head", "1", "2Gi"),
                },
                "workerGroupSpecs": groups if groups is not None else [worker_group("workers", 2)],
            },
            **spec,
        },
    }


def elastic_group(
    name: str, replicas: int, *, most: int = 10, least: int = 0, hosts: int = 1, cpu: str = "1"
) -> Obj:
    """A worker group that may grow: its pods wait for our gate as well as for Kueue's."""
    group = worker_group(name, replicas, cpu=cpu)
    group |= {"minReplicas": least, "maxReplicas": most}
    if hosts != 1:
        group["numOfHosts"] = hosts
    group["template"]["spec"]["schedulingGates"] = [{"name": names.GATE}]
    return group


def elastic_spec(groups: list[Obj]) -> Obj:
    """A rayClusterSpec with the in-tree autoscaler."""
    return {
        "rayVersion": RAY_VERSION,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": 60,
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        },
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},
            "template": ray_pod("ray-head", "1", "2Gi"),
        },
        "workerGroupSpecs": groups,
    }


def ray_cluster(name: str, groups: list[Obj]) -> Obj:
    """An elastic RayCluster that Kueue admits by itself."""
    return {
        "metadata": {
            "name": name,
            "labels": {names.QUEUE: "queue"},
            "annotations": {names.ELASTIC: "true"},
        },
        "spec": elastic_spec(groups),
    }


def elastic_ray_job(
    name: str, groups: list[Obj], *, entrypoint: str = "python -c 1", **spec: Any
) -> Obj:
    """A RayJob whose cluster may grow while it runs."""
    return ray_job(
        name,
        entrypoint=entrypoint,
        annotations={names.ELASTIC: "true"},
        rayClusterSpec=elastic_spec(groups),
        **spec,
    )


def on(group: Obj, selector: dict[str, str]) -> Obj:
    group["template"]["spec"]["nodeSelector"] = selector
    return group
