"""Values of one moment, to be decided about: short to write, complete, and as the API has them.

`Gang` is a cold gang that holds quota and has asked for nothing yet; each `with_*` changes one
thing and answers a new one. Everything goes through the parsers, so a table also says what the
parsers must read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from controllers.actions import (
    Action,
    Announce,
    Create,
    Decision,
    Delete,
    Forget,
    Park,
    SetCheck,
    SetCondition,
    Unpark,
    Unstamp,
)
from controllers.gang.decide import decide
from controllers.gang.jobs import parse_job, parse_ray_job
from controllers.gang.seen import SeenGang
from taugrid_ray import names
from taugrid_ray.capacity_policy import CapacityPolicySpec, parse_spec
from taugrid_ray.kinds import provisioning_request as pr
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.meta import format_time, parse_meta
from taugrid_ray.kinds.node import parse_node
from taugrid_ray.kinds.pod import parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.queues import parse_resource_flavor
from taugrid_ray.kinds.resource import (
    JOB,
    NODE,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    RAY_JOB,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Obj,
)
from taugrid_ray.kinds.workload import parse_workload
from taugrid_ray.memory import Memory, format_memory

NOW_S = 1_800_000_000.0
RESERVED_S = NOW_S - 5
CHECK = "capacity"
JOB_UID, UID = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
"""Of job and Workload: the uids that the pretend API server gives to the first two objects."""
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def condition(type_: str, at_s: float, status: str = "True", **more: str) -> Obj:
    return {"type": type_, "status": status, "lastTransitionTime": format_time(at_s), **more}


def policy(**spec: Any) -> CapacityPolicySpec:
    """deadlines of 900, 600, 300 and 600 s, three attempts, pauses from 60 s: the defaults."""
    return parse_spec(spec, where="CapacityPolicy")


def pod_template(cpu: str = "1", gpus: int = 0, **annotations: str) -> Obj:
    asked = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "train", "resources": {"requests": asked}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


@dataclass(frozen=True)
class Set:
    """One pod set with what Kueue gave it."""

    name: str = "main"
    count: int = 3
    flavor: str = "pool"
    template: Obj = field(default_factory=pod_template)


@dataclass(frozen=True)
class Gang:
    sets: tuple[Set, ...] = (Set(),)
    job_kind: str = "Job"
    job: Obj = field(default_factory=lambda: {"spec": {"suspend": True}})
    job_annotations: dict[str, str] = field(default_factory=dict)
    workload_annotations: dict[str, str] = field(default_factory=dict)
    active: bool = True
    reserved_s: float | None = RESERVED_S
    conditions: tuple[Obj, ...] = ()
    check: Obj | None = field(default_factory=lambda: {"state": "Pending", "message": ""})
    other_checks: tuple[Obj, ...] = ()
    requests: tuple[Obj, ...] = ()
    templates: tuple[Obj, ...] = ()
    seen: dict[str, Any] = field(default_factory=dict)
    """More fields of SeenGang, as they are."""

    def but(self, **changes: Any) -> Gang:
        return replace(self, **changes)

    def remembers(self, memory: Memory, *, active: bool = True) -> Gang:
        notes = {**self.workload_annotations, names.MEMORY: format_memory(memory)}
        return replace(self, workload_annotations=notes, active=active)

    def looks(self, **seen: Any) -> Gang:
        return replace(self, seen={**self.seen, **seen})

    def workload(self) -> Obj:
        conditions = list(self.conditions)
        status: Obj = {"conditions": conditions}
        if self.reserved_s is not None:
            conditions.insert(0, condition(wl.QUOTA_RESERVED, self.reserved_s))
            status["admission"] = {
                "clusterQueue": "queue",
                "podSetAssignments": [
                    {"name": s.name, "count": s.count, "flavors": {"cpu": s.flavor}}
                    for s in self.sets
                ],
            }
        checks = list(self.other_checks)
        if self.check is not None:
            checks.append({"name": CHECK, "lastTransitionTime": format_time(NOW_S), **self.check})
        status["admissionChecks"] = checks
        kind = {"Job": JOB, "RayJob": RAY_JOB}[self.job_kind]
        owner = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": "train",
            "uid": JOB_UID,
            "controller": True,
        }
        pod_sets = [{"name": s.name, "count": s.count, "template": s.template} for s in self.sets]
        return {
            "apiVersion": WORKLOAD.api_version,
            "kind": "Workload",
            "metadata": {
                "name": "job-train-1234",
                "namespace": "team",
                "uid": UID,
                "resourceVersion": "7",
                "annotations": self.workload_annotations,
                "ownerReferences": [owner],
            },
            "spec": {"queueName": "queue", "active": self.active, "podSets": pod_sets},
            "status": status,
        }

    def seen_now(self) -> SeenGang:
        meta = {
            "name": "train",
            "namespace": "team",
            "uid": JOB_UID,
            "annotations": self.job_annotations,
        }
        parse = {"Job": parse_job, "RayJob": parse_ray_job}[self.job_kind]
        flavors = {
            s.flavor: parse_resource_flavor(flavor(s.flavor, {"pool": s.flavor})) for s in self.sets
        }
        found = SeenGang(
            workload=parse_workload(self.workload()),
            check=CHECK if self.check is not None else "",
            policy=policy(),
            flavors=flavors,
            job=parse({"metadata": meta, **self.job}),
            requests=tuple(map(parse_provisioning_request, self.requests)),
            templates=tuple(map(parse_meta, self.templates)),
        )
        return replace(found, **self.seen)

    def decides(self, now_s: float = NOW_S) -> Decision:
        return decide(self.seen_now(), now_s)

    def asked(self, at_s: float = NOW_S, *answers: Obj) -> Gang:
        """This gang after its creates were carried out; `answers`: conditions on every request."""
        created = [a for a in self.decides(at_s).actions if isinstance(a, Create)]
        requests = [a.obj for a in created if a.kind == PROVISIONING_REQUEST]
        templates = [a.obj for a in created if a.kind == POD_TEMPLATE]
        return replace(
            self,
            requests=self.requests + tuple(answered(r, at_s, *answers) for r in requests),
            templates=self.templates + tuple(with_uid(t, at_s) for t in templates),
        )

    def answered(self, *answers: Obj, only: int | None = None) -> Gang:
        """The live requests get these conditions (only: the one at this place)."""
        requests = tuple(
            {**r, "status": {"conditions": list(answers)}} if only in (None, place) else r
            for place, r in enumerate(self.requests)
        )
        return replace(self, requests=requests)

    def ready(self, *, admitted_s: float | None = NOW_S) -> Gang:
        """Our check as `decide` would set it, and Kueue's admission on top."""
        found = [a for a in self.decides().actions if isinstance(a, SetCheck)]
        assert found
        assert found[-1].state.value == "Ready"
        check = {
            "state": "Ready",
            "message": found[-1].message,
            "podSetUpdates": list(found[-1].updates),
        }
        more = () if admitted_s is None else (condition(wl.ADMITTED, admitted_s),)
        job = {"spec": {"suspend": admitted_s is None}}
        return replace(self, check=check, conditions=(*self.conditions, *more), job=job)


def with_uid(obj: Obj, at_s: float) -> Obj:
    meta = obj["metadata"]
    more = {"uid": f"uid-{meta['name']}", "creationTimestamp": format_time(at_s)}
    return {**obj, "metadata": {**meta, **more}}


def answered(request: Obj, at_s: float, *answers: Obj) -> Obj:
    return {**with_uid(request, at_s), "status": {"conditions": list(answers)}}


def booked(at_s: float = NOW_S) -> Obj:
    return condition(pr.PROVISIONED, at_s, reason="CapacityIsFound")


def no_room(at_s: float = NOW_S) -> Obj:
    return condition(pr.PROVISIONED, at_s, "False", message="Capacity is not found.")


def failed(at_s: float = NOW_S) -> Obj:
    return condition(pr.FAILED, at_s, message="missing pod templates")


def expired(at_s: float = NOW_S) -> Obj:
    return condition(pr.BOOKING_EXPIRED, at_s, reason="CapacityReservationTimeExpired")


def consumed(at_s: float = NOW_S) -> Obj:
    return condition(pr.BOOKING_EXPIRED, at_s, reason=pr.BOOKING_CONSUMED)


def revoked(at_s: float = NOW_S) -> Obj:
    return condition(pr.CAPACITY_REVOKED, at_s, message="the zone is gone")


def flavor(name: str, labels: dict[str, str], *tolerations: Obj) -> Obj:
    return {
        "apiVersion": RESOURCE_FLAVOR.api_version,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels, "tolerations": list(tolerations)},
    }


def pod(name: str, booking: str = "", **more: Any) -> Any:
    """A pod of the gang, parsed."""
    return parse_pod(pod_object(name, booking, **more))


def pod_object(
    name: str, booking: str = "", *, node: str = "", phase: str = "Pending", **more: Any
) -> Obj:
    notes = {names.CONSUME: booking, names.CONSUME_CLASS: CLASS} if booking else {}
    ready = [condition("Ready", NOW_S)] if more.pop("ready", False) else []
    meta = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {names.WORKLOAD_UID: UID, names.POD_SET: "main"},
        "annotations": notes,
        **more,
    }
    return {
        "apiVersion": POD.api_version,
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": ready},
    }


def node(name: str, pool: str = "pool", *, ready_s: float | None = NOW_S, **offers: str) -> Any:
    """A node, parsed; ready_s None: not Ready."""
    ready = condition("Ready", NOW_S if ready_s is None else ready_s, "False")
    if ready_s is not None:
        ready["status"] = "True"
    return parse_node(
        {
            "apiVersion": NODE.api_version,
            "kind": "Node",
            "metadata": {"name": name, "labels": {"pool": pool}},
            "status": {
                "conditions": [ready],
                "allocatable": {"cpu": "4", **offers},
            },
        }
    )


def shown(actions: Iterable[Action]) -> list[str]:
    """Actions as short words, so that a table reads like a protocol."""
    return [_word(action) for action in actions]


def _word(action: Action) -> str:
    match action:
        case Create(kind):
            return f"create {kind.kind}"
        case Delete(kind):
            return f"delete {kind.kind}"
        case SetCheck():
            return f"check {action.state.value} {action.reason.value}"
        case Park(_, memory):
            pause = memory.pause.value if memory.pause else ""
            return f"park {pause} step {memory.step} attempt {memory.attempt} {memory.reason}"
        case Unpark(_, memory):
            return f"unpark step {memory.step} attempt {memory.attempt}"
        case Forget():
            return "forget"
        case Unstamp(at):
            return f"unstamp {at.name}"
        case SetCondition():
            return f"condition {action.type}={action.is_true} {action.reason}"
        case Announce():
            return f"tell {action.reason.value}"


def requests_of(gang: Gang, now_s: float = NOW_S) -> list[Any]:
    """The ProvisioningRequests that the gang asks for."""
    return [
        a.obj
        for a in gang.decides(now_s).actions
        if isinstance(a, Create) and a.kind == PROVISIONING_REQUEST
    ]
