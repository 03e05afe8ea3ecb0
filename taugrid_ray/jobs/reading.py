"""Read one job, or all of a namespace, from the API server: calls in, `Observed` out.

Needs no more than a user has: get jobs and rayjobs, list workloads, pods, events and requests. The
job itself must be readable; any other part that is refused or away is named as unavailable. A job
that waits for quota costs two calls a look: its pods, events and requests are read when they can
say something, or when `full` asks for all.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from taugrid_ray import names
from taugrid_ray.errors import ApiError, Forbidden, NotFound, Unreachable, UsageError
from taugrid_ray.jobs.observed import (
    EventView,
    JobRef,
    Observed,
    Part,
    PodView,
    parse_any_job,
    parse_event,
    parse_pod_view,
    pod_selectors,
)
from taugrid_ray.jobs.slices import current_workload
from taugrid_ray.jobs.target import Target
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.meta import controller_owner, parse_meta
from taugrid_ray.kinds.provisioning_request import (
    ProvisioningRequest,
    parse_provisioning_request,
)
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.resource import (
    EVENT,
    JOB,
    POD,
    PROVISIONING_REQUEST,
    RAY_CLUSTER,
    RAY_JOB,
    WORKLOAD,
    Obj,
    Resource,
)
from taugrid_ray.kinds.workload import Workload, parse_workload
from taugrid_ray.kube.api import KubeApi, list_all

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen, and the versions from which a watch can go on."""

    seen: Observed
    versions: dict[Resource, str] = field(default_factory=dict)


# Which job


def find_job(api: KubeApi, target: Target, namespace: str) -> JobRef:
    """Raises NotFound for a job that is not there, UsageError where the name means two jobs."""
    kinds = (target.kind,) if target.kind is not None else (RAY_JOB, JOB)
    found: dict[Resource, Obj] = {}
    refused: ApiError | None = None
    for kind in kinds:
        try:
            found[kind] = api.get(kind, target.name, namespace)
        except NotFound:
            continue
        except Forbidden as error:
            refused = error
    if len(found) == 2 and _is_submitter(found[JOB], found[RAY_JOB]):
        del found[JOB]
    if len(found) == 2:
        raise UsageError(
            f'"{target.name}" is a job and a rayjob in namespace "{namespace}": '
            f"write job/{target.name} or rayjob/{target.name}"
        )
    if not found:
        if refused is not None:
            raise refused
        raise not_there(api, target, namespace)
    kind, obj = next(iter(found.items()))
    return JobRef(kind, namespace, target.name, parse_meta(obj).uid)


def _is_submitter(job: Obj, ray_job: Obj) -> bool:
    """KubeRay's submitter is a Job of the RayJob's name."""
    owner = controller_owner(job)
    return owner is not None and owner.uid == parse_meta(ray_job).uid


def not_there(api: KubeApi, target: Target, namespace: str) -> NotFound:
    """The error for a job that does not exist, with the nearest name that does."""
    kinds = (target.kind,) if target.kind is not None else (JOB, RAY_JOB)
    known: dict[str, str] = {}
    for kind in kinds:
        try:
            page = api.list_page(kind, namespace)
        except (ApiError, Unreachable):
            continue
        known |= {
            parse_meta(o).name: f"{kind.kind.lower()}/{parse_meta(o).name}" for o in page.items
        }
    near = difflib.get_close_matches(target.name, known, n=1)
    what = target.kind.kind.lower() if target.kind is not None else "job or rayjob"
    return NotFound(
        f'no {what} "{target.name}" in namespace "{namespace}"',
        reason="NotFound",
        hint=f"did you mean {known[near[0]]}?" if near else f"taugrid list -n {namespace}",
    )


# One job


def look_at(api: KubeApi, ref: JobRef, *, full: bool = True) -> Look:
    """The job and what belongs to it. A job of another uid is not this one: it counts as gone.

    full: read every part, and name what could not be read. Otherwise only what can change the
    sentence, and a server that does not answer raises: a wait asks again rather than guess.
    """
    unavailable: dict[Part, str] = {}
    versions: dict[Resource, str] = {}
    job = _job(api, ref, versions)
    if job is None:
        return Look(Observed(ref, None), versions)
    ref = replace(ref, uid=job.meta.uid)

    def read(part: Part, ask: Callable[[], T]) -> T | None:
        return _read(part, unavailable, ask, patient=full)

    workloads = read(Part.WORKLOADS, lambda: _workloads(api, ref, versions))
    seen = Observed(ref, job, workloads, unavailable=unavailable)
    wanted = set(Part) if full else _telling(seen)
    if Part.PODS in wanted:
        pods = read(Part.PODS, lambda: _pods(api, ref, job))
        seen = replace(seen, pods=pods)
    if Part.REQUESTS in wanted:
        requests = read(Part.REQUESTS, lambda: _requests(api, seen))
        seen = replace(seen, requests=requests)
    if Part.EVENTS in wanted:
        events = read(Part.EVENTS, lambda: _events(api, ref))
        seen = replace(seen, events=events)
    return Look(seen, versions)


def _telling(seen: Observed) -> set[Part]:
    """The parts that can change the sentence."""
    job, workload = seen.job, current_workload(seen.workloads or ())
    found: set[Part] = set()
    if job is None or job.is_finished:
        return found
    if seen.workloads is None or (workload is not None and not workload.active):
        found.add(Part.EVENTS)
    if not job.suspend:
        found |= {Part.PODS, Part.EVENTS}
    if workload is not None and workload.reservation and not workload.is_true(wl.ADMITTED):
        found.add(Part.REQUESTS)
    return found


def _read(
    part: Part, unavailable: dict[Part, str], ask: Callable[[], T], *, patient: bool
) -> T | None:
    try:
        return ask()
    except (ApiError, Unreachable) as error:
        if error.retryable and not patient:
            raise
        unavailable[part] = error.message
        return None


def _job(api: KubeApi, ref: JobRef, versions: dict[Resource, str]) -> Job | RayJob | None:
    try:
        obj = api.get(ref.kind, ref.name, ref.namespace)
    except NotFound:
        return None
    meta = parse_meta(obj)
    versions[ref.kind] = meta.resource_version
    if ref.uid and meta.uid != ref.uid:
        return None
    return parse_any_job(ref.kind, obj)


def _workloads(api: KubeApi, ref: JobRef, versions: dict[Resource, str]) -> tuple[Workload, ...]:
    selector = f"{names.JOB_UID}={ref.uid}"
    found: list[Obj] = []
    page = ""
    while True:
        got = api.list_page(WORKLOAD, ref.namespace, labels=selector, page=page)
        found += got.items
        versions[WORKLOAD] = got.resource_version
        page = got.next_page
        if not page:
            return tuple(parse_workload(o) for o in found)


def _pods(api: KubeApi, ref: JobRef, job: Job | RayJob) -> tuple[PodView, ...]:
    found: dict[str, PodView] = {}
    for selector in pod_selectors(ref, job):
        for obj in list_all(api, POD, ref.namespace, labels=selector):
            pod = parse_pod_view(obj)
            found[pod.uid] = pod
    return tuple(sorted(found.values(), key=lambda p: p.name))


def _requests(api: KubeApi, seen: Observed) -> tuple[ProvisioningRequest, ...]:
    workload = current_workload(seen.workloads or ())
    if workload is None:
        return ()
    labels = f"{names.WORKLOAD_UID}={workload.uid}"
    found = list_all(api, PROVISIONING_REQUEST, seen.ref.namespace, labels=labels)
    return tuple(parse_provisioning_request(o) for o in found)


def _events(api: KubeApi, ref: JobRef) -> tuple[EventView, ...]:
    found = list_all(api, EVENT, ref.namespace, fields=f"regarding.uid={ref.uid}")
    return tuple(parse_event(o) for o in found)


# What is left of one


@dataclass(frozen=True, slots=True)
class Remains:
    """left: the words for what still exists, such as `workload job-train-1b2c`; none: it is gone.
    job: as last seen; it knows the RayCluster's name."""

    left: tuple[str, ...]
    job: Job | RayJob | None


def remains_of(api: KubeApi, ref: JobRef, job: Job | RayJob | None) -> Remains:
    """What still exists of a job that is being deleted.

    job: as last seen before. A part that may not be read cannot be waited for and is left out.
    Raises Unreachable or a retryable ApiError where the server is away: that is no sign of being
    gone.
    """
    left: list[str] = []
    there = _job(api, ref, {})
    if there is not None:
        left.append(f"{ref.kind.kind.lower()} {ref.name}")
        job = there
    left += [f"workload {w.meta.name}" for w in _if_allowed(lambda: _workloads(api, ref, {}))]
    if isinstance(job, RayJob) and job.cluster_name and not job.uses_existing_cluster:
        cluster = job.cluster_name
        found = _if_allowed(lambda: (api.get(RAY_CLUSTER, cluster, ref.namespace),))
        left += [f"raycluster {parse_meta(o).name}" for o in found]
    if job is not None:
        left += [f"pod {p.name}" for p in _if_allowed(lambda: _own_pods(api, ref, job))]
    return Remains(tuple(left), job)


def _if_allowed(ask: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    """Empty where it is not there or may not be read; a server that is away raises."""
    try:
        return ask()
    except ApiError as error:
        if error.retryable:
            raise
        return ()


def _own_pods(api: KubeApi, ref: JobRef, job: Job | RayJob) -> tuple[PodView, ...]:
    """Without those of a cluster that the job only used: they stay."""
    if isinstance(job, RayJob) and job.uses_existing_cluster:
        job = replace(job, cluster_name="")
    return _pods(api, ref, job)


# All of a namespace


def look_at_all(api: KubeApi, namespace: str | None) -> tuple[tuple[Observed, ...], dict[str, str]]:
    """Every Job and RayJob that has a queue or a Workload; `namespace=None`: of all namespaces.

    The second value says what could not be read: kind -> why. Submitter Jobs are parts of their
    RayJobs and left out. Raises ApiError or Unreachable where neither Jobs nor RayJobs can be read.
    """
    missing: dict[str, str] = {}

    def all_of(kind: Resource, labels: str = "") -> list[Obj] | None:
        try:
            return list_all(api, kind, namespace, labels=labels)
        except (ApiError, Unreachable) as error:
            missing[kind.plural] = error.message
            return None

    jobs: dict[Resource, list[Obj]] = {}
    refused: list[ApiError] = []
    for kind in (JOB, RAY_JOB):
        try:
            jobs[kind] = list_all(api, kind, namespace)
        except NotFound:
            continue  # KubeRay is not installed: there are none
        except ApiError as error:
            refused.append(error)
            missing[kind.plural] = error.message
    if not jobs and refused:
        raise refused[0]
    workloads = all_of(WORKLOAD)
    by_owner = _by_job(workloads or ())
    job_pods = all_of(POD, names.JOB_NAME)
    ray_pods = all_of(POD, names.RAY_CLUSTER_LABEL)
    pods = [] if job_pods is None or ray_pods is None else [*job_pods, *ray_pods]
    by_label = _by_label(pods)
    found = []
    for kind, objects in jobs.items():
        for obj in objects:
            job = parse_any_job(kind, obj)
            if job.meta.controller_owner is not None:
                continue
            own = by_owner.get(job.meta.uid, ())
            if not own and not job.meta.labels.get(names.QUEUE):
                continue
            ref = JobRef(kind, job.meta.namespace, job.meta.name, job.meta.uid)
            seen = Observed(
                ref,
                job,
                own if workloads is not None else None,
                pods=_pods_of(ref, job, by_label) if POD.plural not in missing else None,
                unavailable=_unavailable(missing),
            )
            found.append(seen)
    return tuple(sorted(found, key=lambda s: (s.ref.namespace, s.ref.name, s.ref.kind.kind))), (
        missing
    )


def _unavailable(missing: dict[str, str]) -> dict[Part, str]:
    parts = {WORKLOAD.plural: Part.WORKLOADS, POD.plural: Part.PODS}
    return {part: missing[plural] for plural, part in parts.items() if plural in missing}


def _by_job(workloads: Iterable[Obj]) -> dict[str, tuple[Workload, ...]]:
    found: defaultdict[str, tuple[Workload, ...]] = defaultdict(tuple)
    for obj in workloads:
        workload = parse_workload(obj)
        found[workload.meta.labels.get(names.JOB_UID, "")] += (workload,)
    return found


def _by_label(pods: Sequence[Obj]) -> dict[tuple[str, str, str], dict[str, PodView]]:
    """(namespace, label, value) -> the pods, by uid."""
    found: defaultdict[tuple[str, str, str], dict[str, PodView]] = defaultdict(dict)
    for obj in pods:
        meta = parse_meta(obj)
        for key in (names.JOB_CONTROLLER_UID, names.JOB_NAME, names.RAY_CLUSTER_LABEL):
            if key in meta.labels:
                pod = parse_pod_view(obj)
                found[meta.namespace, key, meta.labels[key]][meta.uid] = pod
    return found


def _pods_of(
    ref: JobRef, job: Job | RayJob, by_label: dict[tuple[str, str, str], dict[str, PodView]]
) -> tuple[PodView, ...]:
    found: dict[str, PodView] = {}
    for selector in pod_selectors(ref, job):
        key, _, value = selector.partition("=")
        found |= by_label.get((ref.namespace, key, value), {})
    return tuple(found.values())
