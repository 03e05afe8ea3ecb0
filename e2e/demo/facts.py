"""What the story is told from: a frozen picture of the job and of all that belongs to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taugrid_ray import quantity
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.node import parse_node
from taugrid_ray.kinds.pod import parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.rayjob import parse_rayjob
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.workload import ADMITTED, parse_workload
from taugrid_ray.names import RAY_NODE_TYPE
from taugrid_ray.verdict import Verdict, answer_of

SUBMITTER = "submitter"


@dataclass(frozen=True, slots=True)
class Gang:
    """Kueue's Workload of the job."""

    name: str
    pod_sets: tuple[tuple[str, int], ...]
    cpus: float
    """Of its quota, once reserved."""
    reserved: bool
    admitted: bool
    check_says: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One ProvisioningRequest."""

    name: str
    pods: int
    booked: bool


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of the job."""

    name: str
    role: str
    """`head`, `worker` or `submitter`."""
    node: str
    phase: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Facts:
    gang: Gang | None = None
    requests: tuple[Asked, ...] = ()
    templates: int = 0
    """PodTemplates of the requests."""
    nodes: tuple[Machine, ...] = ()
    pods: tuple[Member, ...] = ()
    created: bool = False
    job_status: str = ""
    """Ray's word for the program."""
    finished: bool = False
    failure: str = ""

    def running(self, role: str) -> tuple[Member, ...]:
        return tuple(p for p in self.pods if p.role == role and p.phase == "Running")

    def ready(self, role: str) -> tuple[Member, ...]:
        return tuple(p for p in self.pods if p.role == role and p.ready)


def gather(
    *,
    ray_job: Obj | None,
    workloads: Iterable[Obj],
    requests: Iterable[Obj],
    templates: Iterable[Obj],
    nodes: Iterable[Obj],
    pods: Iterable[Obj],
    check: str,
) -> Facts:
    """Read the objects of one namespace that holds one job. check: our AdmissionCheck's name."""
    job = parse_rayjob(ray_job) if ray_job is not None else None
    return Facts(
        gang=next((_gang(each, check) for each in workloads), None),
        requests=tuple(sorted(map(_asked, requests), key=lambda each: each.name)),
        templates=sum(1 for _ in templates),
        nodes=tuple(sorted(map(_machine, nodes), key=lambda each: each.name)),
        pods=tuple(sorted(map(_member, pods), key=lambda each: each.name)),
        created=job is not None,
        job_status=job.job_status if job is not None else "",
        finished=job is not None and job.is_finished,
        failure=f"{job.reason}: {job.message}" if job is not None and job.has_failed else "",
    )


def _gang(obj: Obj, check: str) -> Gang:
    workload = parse_workload(obj)
    ours = workload.check(check)
    return Gang(
        name=workload.meta.name,
        pod_sets=tuple((each.name, each.count) for each in workload.pod_sets),
        cpus=_cpus(obj),
        reserved=workload.reservation is not None,
        admitted=workload.is_true(ADMITTED),
        check_says=ours.message if ours is not None else "",
    )


def _cpus(workload: Obj) -> float:
    assignments = fields.objects(workload, "status", "admission", "podSetAssignments")
    used = (fields.string_map(each, "resourceUsage").get("cpu", "0") for each in assignments)
    return float(sum(map(quantity.parse, used)))


def _asked(obj: Obj) -> Asked:
    request = parse_provisioning_request(obj)
    booked = answer_of(request).verdict in (Verdict.BOOKED, Verdict.CONSUMED)
    return Asked(request.meta.name, request.pods, booked)


def _machine(obj: Obj) -> Machine:
    node = parse_node(obj)
    return Machine(node.name, node.is_ready)


def _member(obj: Obj) -> Member:
    pod = parse_pod(obj)
    role = parse_meta(obj).labels.get(RAY_NODE_TYPE, SUBMITTER)
    return Member(pod.meta.name, role, pod.node, pod.phase, pod.is_ready)
