"""Manifests to read, as short as the tests that need them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from taugrid_ray import quantity

Obj = dict[str, Any]

GPU = "nvidia.com/gpu"
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def container(
    name: str = "main",
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **more: Any,
) -> Obj:
    resources: Obj = {}
    if requests is not None:
        resources["requests"] = dict(requests)
    if limits is not None:
        resources["limits"] = dict(limits)
    return {"name": name, "image": "busybox", "resources": resources, **more}


def pod(*containers: Obj, **spec: Any) -> Obj:
    """A pod template."""
    return {"spec": {"containers": list(containers), **spec}}


def small(cpu: Any = "1", memory: Any = "1Gi", **others: Any) -> Obj:
    """A pod template whose one container asks for this and is limited to it."""
    both = {"cpu": cpu, "memory": memory, **others}
    return pod(container("ray", both, both))


def job(
    template: Obj | None = None,
    *,
    name: str = "train",
    labels: Mapping[str, str] = QUEUE,
    annotations: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Obj:
    template = template or pod(container(requests={"cpu": "1", "memory": "1Gi"}))
    template["spec"].setdefault("restartPolicy", "Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name, labels, annotations),
        "spec": {"template": template, **spec},
    }


def group(
    name: str = "workers", replicas: int | None = 1, template: Obj | None = None, **more: Any
) -> Obj:
    made: Obj = {
        "groupName": name,
        "rayStartParams": {},
        "template": template or small("4", "16Gi"),
        **more,
    }
    if replicas is not None:
        made["replicas"] = replicas
    return made


def cluster_spec(*groups: Obj, head: Obj | None = None, **more: Any) -> Obj:
    """head 2 CPU, 4Gi unless another template is given."""
    return {
        "rayVersion": "2.56.0",
        "headGroupSpec": {"rayStartParams": {}, "template": head or small("2", "4Gi")},
        "workerGroupSpecs": list(groups),
        **more,
    }


def raycluster(
    *groups: Obj,
    name: str = "ray",
    labels: Mapping[str, str] = QUEUE,
    annotations: Mapping[str, Any] | None = None,
    **more: Any,
) -> Obj:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta(name, labels, annotations),
        "spec": cluster_spec(*groups, **more),
    }


def rayjob(
    *groups: Obj,
    name: str = "train",
    labels: Mapping[str, str] = QUEUE,
    annotations: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Obj:
    """cluster: more fields of the cluster's spec."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": meta(name, labels, annotations),
        "spec": {
            "entrypoint": "python train.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster_spec(*groups, **(cluster or {})),
            **spec,
        },
    }


def meta(name: str, labels: Mapping[str, str], annotations: Mapping[str, Any] | None) -> Obj:
    made: Obj = {"name": name, "namespace": "team-a", "labels": dict(labels)}
    if annotations is not None:
        made["annotations"] = dict(annotations)
    return made


def amounts(**written: str) -> dict[str, Fraction]:
    """`amounts(cpu="1.5", memory="2Gi", gpu="1")`."""
    names = {"gpu": GPU, "disk": "ephemeral-storage"}
    return {names.get(name, name): quantity.parse(text) for name, text in written.items()}
