"""Jobs, Workloads, pods and requests as the API server shows them, for tests of jobs and cli."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from taugrid_ray import names
from taugrid_ray.jobs.observed import JobRef, Observed, parse_any_job, parse_event, parse_pod_view
from taugrid_ray.kinds.meta import format_time
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.resource import JOB, RAY_JOB, Obj, Resource
from taugrid_ray.kinds.workload import parse_workload
from taugrid_ray.memory import Memory, format_memory
from tests.fake_kube.clock import START_S

T0 = START_S
"""When everything began."""


def at(seconds: float) -> str:
    return format_time(T0 + seconds)


def conditions(given: Mapping[str, Any]) -> list[Obj]:
    """type -> status, or (status, reason, message, seconds)."""
    found = []
    for type_, told in given.items():
        status, reason, message, seconds = (
            told if isinstance(told, tuple) else (told, "Because", "", 10.0)
        )
        found.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": at(seconds),
            }
        )
    return found


def _meta(name: str, uid: str, **extra: Any) -> Obj:
    return {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": at(0),
        **extra,
    }


def job(
    name: str = "train",
    *,
    suspend: bool = True,
    pods: int = 3,
    queue: str = "team-a",
    status: Obj | None = None,
    ended: Mapping[str, Any] | None = None,
    **meta: Any,
) -> Obj:
    labels = {names.QUEUE: queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(name, "job-uid", labels=labels, **meta),
        "spec": {
            "suspend": suspend,
            "parallelism": pods,
            "completions": pods,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }
            },
        },
        "status": {**(status or {}), "conditions": conditions(ended or {})},
    }


def ray_job(
    name: str = "train",
    *,
    suspend: bool = True,
    mode: str = "K8sJobMode",
    deployment: str = "Suspended",
    program: str = "",
    cluster: str = "",
    queue: str = "team-a",
    **status: Any,
) -> Obj:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _meta(name, "ray-uid", labels={names.QUEUE: queue} if queue else {}),
        "spec": {"suspend": suspend, "submissionMode": mode, "entrypoint": "python train.py"},
        "status": {
            "jobDeploymentStatus": deployment,
            "jobStatus": program,
            "rayClusterName": cluster,
            **status,
        },
    }


def check(
    state: str = "Pending", message: str = "", name: str = "capacity", seconds: float = 20.0
) -> Obj:
    return {
        "name": name,
        "state": state,
        "message": message,
        "lastTransitionTime": at(seconds),
    }


def workload(
    owner: Obj,
    *,
    active: bool = True,
    told: Mapping[str, Any] | None = None,
    checks: Iterable[Obj] = (),
    counts: Mapping[str, int] | None = None,
    memory: Memory | None = None,
    name: str = "",
    created_s: float = 1.0,
    finalizers: Iterable[str] = (),
    replaces: str = "",
) -> Obj:
    """told: its conditions. counts: what was assigned, by pod set; default: the Job's pods once
    quota is reserved. replaces: namespace/name of the slice it takes the place of."""
    meta = owner["metadata"]
    reserved = (told or {}).get("QuotaReserved")
    reserved = reserved[0] if isinstance(reserved, tuple) else reserved
    assigned = dict(counts or ({"main": 3} if owner["kind"] == "Job" else {"head": 1, "w": 2}))
    status: Obj = {"conditions": conditions(told or {}), "admissionChecks": list(checks)}
    if reserved == "True":
        status["admission"] = {
            "clusterQueue": "gpus",
            "podSetAssignments": [
                {"name": n, "count": c, "flavors": {"cpu": "pool"}} for n, c in assigned.items()
            ],
        }
    uid = name or f"{owner['kind'].lower()}-{meta['name']}-wl"
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            **_meta(uid, f"{uid}-uid"),
            "creationTimestamp": at(created_s),
            "labels": {names.JOB_UID: meta["uid"]},
            "annotations": {
                **({names.MEMORY: format_memory(memory)} if memory else {}),
                **({names.SLICE_FOR: replaces} if replaces else {}),
            },
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
            "finalizers": list(finalizers),
        },
        "spec": {
            "active": active,
            "queueName": meta["labels"].get(names.QUEUE, ""),
            "podSets": [{"name": n, "count": c} for n, c in assigned.items()],
        },
        "status": status,
    }


def request(of: Obj, *, pool: str = "gpu", pods: int = 3, serial: int = 1, **told: Any) -> Obj:
    """of: the Workload it books for. told: its conditions."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            **_meta(f"train-{pool}-{serial}", f"pr-{pool}-{serial}"),
            "labels": {
                names.WORKLOAD_UID: of["metadata"]["uid"],
                names.ATTEMPT: "1",
                names.SERIAL: str(serial),
            },
            "annotations": {names.POOL: pool},
        },
        "spec": {
            "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "podSets": [{"count": pods, "podTemplateRef": {"name": "some"}}],
        },
        "status": {"conditions": conditions(told)},
    }


def pod(
    name: str = "train-0",
    *,
    node: str = "",
    phase: str = "Pending",
    ready: bool = False,
    labels: Mapping[str, str] | None = None,
    waiting: tuple[str, str] | None = None,
    unscheduled: str = "",
    created_s: float = 30.0,
    containers: tuple[str, ...] = ("main",),
    exit_code: int | None = None,
) -> Obj:
    """waiting: (reason, message) of a container that cannot start."""
    told: dict[str, Any] = {"Ready": "True" if ready else "False"}
    if unscheduled:
        told["PodScheduled"] = ("False", "Unschedulable", unscheduled, 31.0)
    state: Obj = {}
    if waiting:
        state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
    elif exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Done"}}
    elif phase == "Running":
        state = {"running": {}}
    statuses = [{"name": c, "state": state, "restartCount": 0} for c in containers]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_meta(name, f"{name}-uid"),
            "creationTimestamp": at(created_s),
            "labels": dict(labels if labels is not None else JOB_POD),
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": c, "image": "busybox"} for c in containers],
        },
        "status": {
            "phase": phase,
            "conditions": conditions(told),
            "containerStatuses": statuses if state else [],
        },
    }


JOB_POD = {names.JOB_CONTROLLER_UID: "job-uid", names.JOB_NAME: "train"}
HEAD = {names.RAY_CLUSTER_LABEL: "train-abc", names.RAY_NODE_TYPE: "head"}
WORKER = {names.RAY_CLUSTER_LABEL: "train-abc", names.RAY_NODE_TYPE: "worker"}
SUBMITTER = {names.JOB_NAME: "train", names.JOB_CONTROLLER_UID: "submitter-uid"}


def event(
    reason: str, note: str, *, seconds: float, warning: bool = False, ours: bool = True
) -> Obj:
    return {
        "metadata": {
            **_meta(f"e-{reason.lower()}", f"e-{reason}"),
            "creationTimestamp": at(seconds),
        },
        "reason": reason,
        "note": note,
        "type": "Warning" if warning else "Normal",
        "eventTime": at(seconds),
        "reportingController": names.CONTROLLER if ours else "job-controller",
        "regarding": {"uid": "job-uid"},
    }


def seen(
    owner: Obj | None,
    *workloads: Obj,
    pods: Iterable[Obj] | None = (),
    requests: Iterable[Obj] = (),
    events: Iterable[Obj] = (),
    **changed: Any,
) -> Observed:
    """What a look would have read. changed: other fields of Observed, such as `workloads=None`."""
    kind: Resource = RAY_JOB if owner is not None and owner["kind"] == "RayJob" else JOB
    name = owner["metadata"]["name"] if owner is not None else "train"
    uid = owner["metadata"]["uid"] if owner is not None else "job-uid"
    parts: dict[str, Any] = {
        "workloads": tuple(parse_workload(w) for w in workloads),
        "pods": None if pods is None else tuple(parse_pod_view(p) for p in pods),
        "requests": tuple(parse_provisioning_request(r) for r in requests),
        "events": tuple(parse_event(e) for e in events),
    }
    return Observed(
        JobRef(kind, "default", name, uid),
        parse_any_job(kind, owner) if owner is not None else None,
        **{**parts, **changed},
    )
