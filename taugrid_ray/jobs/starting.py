"""A job that Kueue has let start: from no pod at all to all of them ready.

Booked is not ready, so StartingNodes lasts while a pod has no node and capacity was booked for
it; StartingPods until all run. A gang that has once been ready does not start again when one pod
is replaced: a pod that ended, or a program that runs, is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taugrid_ray.jobs.model import JobState
from taugrid_ray.jobs.observed import Observed, PodView
from taugrid_ray.jobs.told import reason_of
from taugrid_ray.kinds import rayjob as rj
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.workload import CheckState, Workload
from taugrid_ray.reasons import Reason, Stage
from taugrid_ray.sentences import Told, plural, printable

_BOOKED = (
    Reason.CAPACITY_PROVISIONED,
    Reason.WAITING_FOR_NODES,
    Reason.WAITING_FOR_ACCELERATORS,
    Reason.NODES_TIMED_OUT,
    Reason.ACCELERATORS_TIMED_OUT,
)


def state(base: JobState, seen: Observed, job: Job | RayJob, workload: Workload | None) -> JobState:
    pods = tuple(p for p in seen.pods or () if not p.terminating)
    started_s = _admitted_at(workload) or job.started_at_s or base.since_s
    if _runs(job, workload, pods, _expected(job, workload)):
        return _running(base, seen, job, workload, pods)
    told = _told(workload)
    waiting = [p for p in pods if not p.node and not p.has_ended]
    unbound = seen.pods is not None and (waiting or not pods)
    if told is not None and told.reason in _BOOKED and unbound:
        return _nodes(base, told, waiting, started_s)
    return _pods(base, seen, job, told, pods, _expected(job, workload), started_s)


def _admitted_at(workload: Workload | None) -> float | None:
    admitted = find(workload.conditions, wl.ADMITTED) if workload is not None else None
    return admitted.changed_at_s if admitted is not None and admitted.is_true else None


def _told(workload: Workload | None) -> Told | None:
    """What our check says since it is Ready."""
    for check in workload.checks if workload is not None else ():
        reason = reason_of(check.message)
        if check.state is CheckState.READY and reason is not None:
            return Told(reason, check.message)
    return None


def _expected(job: Job | RayJob, workload: Workload | None) -> int:
    """Pods of the first start: a RayJob's submitter comes only once its Ray cluster runs."""
    assigned = workload.assignments if workload is not None else ()
    if isinstance(job, RayJob):
        return sum(a.count for a in assigned if a.name != rj.SUBMITTER_POD_SET)
    return sum(a.count for a in assigned) or job.pods_at_once


def _runs(
    job: Job | RayJob, workload: Workload | None, pods: Sequence[PodView], expected: int
) -> bool:
    if isinstance(job, RayJob):
        return job.entrypoint_started or job.deployment_status in (rj.RUNNING, rj.WAITING)
    if workload is not None and workload.is_true(wl.PODS_READY):
        return True
    if job.succeeded or job.failed:
        return True
    ready = max(job.ready, sum(1 for p in pods if p.ready))
    return 0 < expected <= ready


def _running(
    base: JobState,
    seen: Observed,
    job: Job | RayJob,
    workload: Workload | None,
    pods: Sequence[PodView],
) -> JobState:
    ready_at = find(workload.conditions, wl.PODS_READY) if workload is not None else None
    since_s = (
        ready_at.changed_at_s
        if ready_at is not None and ready_at.is_true
        else job.started_at_s or base.since_s
    )
    running = replace(base, stage=Stage.RUNNING, reason="Running", since_s=since_s)
    if isinstance(job, RayJob):
        return _ray_running(running, job)
    ready = job.ready if seen.pods is None else sum(1 for p in pods if p.ready)
    parts = [f"{plural(ready, 'pod')} ready"]
    parts += [f"{job.succeeded} succeeded"] if job.succeeded else []
    parts += [f"{job.failed} failed"] if job.failed else []
    return _with_trouble(replace(running, sentence=", ".join(parts)), pods)


def _ray_running(running: JobState, job: RayJob) -> JobState:
    if job.deployment_status == rj.WAITING:
        return replace(
            running,
            reason="WaitingForSubmission",
            sentence="its Ray cluster runs and waits for somebody to submit the program",
            hint=f"a cluster that waits holds its quota: taugrid cancel {running.ref.target} "
            f"-n {running.ref.namespace}",
        )
    if job.job_status in (rj.JOB_SUCCEEDED, rj.JOB_FAILED, rj.JOB_STOPPED):
        sentence = f"its program has ended ({job.job_status}); KubeRay is finishing the job"
    elif job.job_status:
        sentence = f"Ray says the program is {printable(job.job_status, limit=40)}"
    else:
        sentence = "its Ray cluster runs; the program is being submitted"
    if job.failed_tries:
        tries = "1 failed try" if job.failed_tries == 1 else f"{job.failed_tries} failed tries"
        sentence += f" (after {tries})"
    return replace(running, sentence=sentence)


def _nodes(
    base: JobState, told: Told, waiting: Sequence[PodView], since_s: float | None
) -> JobState:
    found = replace(
        base,
        stage=Stage.STARTING_NODES,
        reason=told.reason.value,
        sentence=told.sentence,
        since_s=since_s,
    )
    words = next((p.unscheduled for p in waiting if p.unscheduled), "")
    if words:
        hint = f"{plural(len(waiting), 'pod')} without a node; the scheduler says: "
        return replace(found, hint=hint + printable(words))
    return found


def _pods(
    base: JobState,
    seen: Observed,
    job: Job | RayJob,
    told: Told | None,
    pods: Sequence[PodView],
    expected: int,
    since_s: float | None,
) -> JobState:
    found = replace(
        base, stage=Stage.STARTING_PODS, reason=Reason.WAITING_FOR_PODS.value, since_s=since_s
    )
    if told is not None and told.reason is Reason.PODS_TIMED_OUT:
        found = replace(found, reason=told.reason.value, sentence=told.sentence)
        return _with_trouble(found, pods)
    if seen.pods is None:
        ready = f", {job.ready} ready" if isinstance(job, Job) else ""
        return replace(found, sentence=f"has started{ready}; its pods cannot be read")
    if isinstance(job, RayJob):
        pods = [p for p in pods if p.ray_type]
    ready_count = sum(1 for p in pods if p.ready or p.has_ended)
    total = max(expected, len(pods))
    sentence = f"{ready_count} of {plural(total, 'pod')} ready"
    if not pods:
        sentence = "has started; its pods are being made"
    elif isinstance(job, RayJob) and ready_count >= total:
        sentence += "; Ray is starting"
    found = replace(found, sentence=sentence)
    if not pods:
        return _with_refused_pods(found, seen)
    return _with_trouble(found, pods)


def _with_refused_pods(found: JobState, seen: Observed) -> JobState:
    """No pod at all: an event says so where the API server refuses to make them."""
    refusals = [e for e in seen.events or () if e.warning and e.reason.startswith("FailedCreate")]
    last = max(refusals, key=lambda e: e.at_s, default=None)
    if last is None:
        return found
    return replace(found, reason=last.reason, sentence=f"no pods: {printable(last.note)}")


def _with_trouble(found: JobState, pods: Sequence[PodView]) -> JobState:
    """Name the first pod that cannot go on: it has no node, or no image, or keeps ending."""
    for pod in pods:
        trouble = pod.trouble
        if trouble is not None:
            words = f": {printable(trouble.message)}" if trouble.message else ""
            return replace(
                found,
                sentence=f'{found.sentence}; pod "{pod.name}" is in {trouble.waiting}{words}',
                hint=f"kubectl describe pod {pod.name} -n {found.ref.namespace}",
            )
    lost = next((p for p in pods if p.unscheduled and not p.node), None)
    if lost is not None:
        words = f'pod "{lost.name}" has no node: {printable(lost.unscheduled)}'
        return replace(found, sentence=f"{found.sentence}; {words}")
    return found
