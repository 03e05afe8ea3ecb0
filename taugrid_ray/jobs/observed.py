"""What was read of one job, as values: the job, its Workloads, requests, pods and events.

A user may lack a right, and a part of the API may be away. Such a part is `None`, with the reason
in `unavailable`; an empty tuple means "read, and there is none". The two are never mixed up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.job import Job, parse_job
from taugrid_ray.kinds.meta import time_at
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.rayjob import RayJob, parse_rayjob
from taugrid_ray.kinds.resource import JOB, RAY_JOB, Obj, Resource
from taugrid_ray.kinds.workload import Workload

KINDS = (JOB, RAY_JOB)
"""The kinds of job that the commands know."""


@dataclass(frozen=True, slots=True)
class JobRef:
    """Which job is meant. `uid` is empty until it was read."""

    kind: Resource
    namespace: str
    name: str
    uid: str = ""

    @property
    def shown(self) -> str:
        """`rayjob default/train`, for sentences."""
        return f"{self.kind.kind.lower()} {self.namespace}/{self.name}"

    @property
    def target(self) -> str:
        """`rayjob/train`, as commands take it."""
        return f"{self.kind.kind.lower()}/{self.name}"


class Part(str, Enum):
    JOB = "job"
    WORKLOADS = "workloads"
    REQUESTS = "requests"
    PODS = "pods"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class ContainerView:
    name: str
    waiting: str
    """Why it does not run, in the kubelet's word; "" where it runs or ran."""
    message: str
    started: bool
    """Runs now, or ran and ended."""
    running: bool
    exit_code: int | None
    ended_because: str
    restarts: int


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod, as far as a person who waits for it wants to know."""

    name: str
    uid: str
    created_at_s: float
    terminating: bool
    node: str
    phase: str
    ready: bool
    gates: tuple[str, ...]
    unscheduled: str
    """The scheduler's words for why it found no node."""
    pod_set: str
    """Kueue's pod set: main, head, a worker group, submitter."""
    ray_type: str
    """KubeRay's word: head, worker; "" for others."""
    job_name: str
    """Of the Job that made it: the submitter's bears the RayJob's name."""
    claims: int
    """Resource claims (DRA) it waits for."""
    init: tuple[ContainerView, ...]
    containers: tuple[ContainerView, ...]
    declared: tuple[str, ...]
    """Names of the containers in the spec; the first is the main one."""

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def runs_or_ran(self) -> bool:
        return any(c.started for c in self.containers)

    @property
    def trouble(self) -> ContainerView | None:
        """The first container that cannot start, or keeps ending."""
        waiting = (c for c in (*self.init, *self.containers) if c.waiting not in _PATIENT)
        return next(waiting, None)


_PATIENT = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class EventView:
    reason: str
    note: str
    warning: bool
    controller: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Observed:
    ref: JobRef
    job: Job | RayJob | None
    """None: it is gone."""
    workloads: tuple[Workload, ...] | None = ()
    requests: tuple[ProvisioningRequest, ...] | None = ()
    """Our ProvisioningRequests for the Workload that speaks for the job."""
    pods: tuple[PodView, ...] | None = ()
    events: tuple[EventView, ...] | None = ()
    unavailable: Mapping[Part, str] = field(default_factory=dict)
    """Part -> why it could not be read, such as the right that is missing."""


def parse_any_job(kind: Resource, obj: Obj) -> Job | RayJob:
    return parse_job(obj) if kind == JOB else parse_rayjob(obj)


def pod_selectors(ref: JobRef, job: Job | RayJob | None) -> tuple[str, ...]:
    """Label selectors for the pods of a job. A RayJob's are those of its RayCluster of this try,
    and the submitter's, which come from a Job of the RayJob's name."""
    if ref.kind == JOB:
        return (f"{names.JOB_CONTROLLER_UID}={ref.uid}",)
    found = [f"{names.JOB_NAME}={ref.name}"]
    if isinstance(job, RayJob) and job.cluster_name:
        found.append(f"{names.RAY_CLUSTER_LABEL}={job.cluster_name}")
    return tuple(found)


def parse_pod_view(obj: Obj) -> PodView:
    labels = fields.string_map(obj, "metadata", "labels")
    return PodView(
        name=fields.text(obj, "metadata", "name"),
        uid=fields.text(obj, "metadata", "uid"),
        created_at_s=time_at(obj, "metadata", "creationTimestamp") or 0.0,
        terminating=fields.text(obj, "metadata", "deletionTimestamp") != "",
        node=fields.text(obj, "spec", "nodeName"),
        phase=fields.text(obj, "status", "phase") or "Pending",
        ready=_condition(obj, "Ready").get("status") == "True",
        gates=tuple(fields.text(g, "name") for g in fields.objects(obj, "spec", "schedulingGates")),
        unscheduled=_unscheduled(obj),
        pod_set=labels.get(names.POD_SET, ""),
        ray_type=labels.get(names.RAY_NODE_TYPE, ""),
        job_name=labels.get(names.JOB_NAME, ""),
        claims=len(fields.objects(obj, "spec", "resourceClaims")),
        init=_containers(obj, "initContainerStatuses"),
        containers=_containers(obj, "containerStatuses"),
        declared=tuple(fields.text(c, "name") for c in fields.objects(obj, "spec", "containers")),
    )


def _condition(obj: Obj, type_: str) -> Obj:
    found = fields.objects(obj, "status", "conditions")
    return next((c for c in found if c.get("type") == type_), {})


def _unscheduled(obj: Obj) -> str:
    condition = _condition(obj, "PodScheduled")
    if condition.get("status") == "True":
        return ""
    return fields.text(condition, "message")


def _containers(obj: Obj, which: str) -> tuple[ContainerView, ...]:
    return tuple(_container(raw) for raw in fields.objects(obj, "status", which))


def _container(raw: Obj) -> ContainerView:
    state, last = fields.mapping(raw, "state"), fields.mapping(raw, "lastState")
    ended = fields.mapping(state, "terminated") or fields.mapping(last, "terminated")
    running = "running" in state
    return ContainerView(
        name=fields.text(raw, "name"),
        waiting=fields.text(state, "waiting", "reason"),
        message=fields.text(state, "waiting", "message"),
        started=running or bool(ended),
        running=running,
        exit_code=fields.integer(ended, "exitCode"),
        ended_because=fields.text(ended, "reason"),
        restarts=fields.integer(raw, "restartCount") or 0,
    )


def parse_event(obj: Obj) -> EventView:
    """An event in either spelling: those of older clients keep their times in other fields."""
    at_s = next(
        (
            found
            for path in (
                ("series", "lastObservedTime"),
                ("deprecatedLastTimestamp",),
                ("eventTime",),
                ("metadata", "creationTimestamp"),
            )
            if (found := time_at(obj, *path)) is not None
        ),
        0.0,
    )
    source = fields.text(obj, "deprecatedSource", "component")
    return EventView(
        reason=fields.text(obj, "reason"),
        note=fields.text(obj, "note"),
        warning=fields.text(obj, "type") == "Warning",
        controller=fields.text(obj, "reportingController") or source,
        at_s=at_s,
    )
