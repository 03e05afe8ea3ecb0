"""The start of a job as a list of phases, in TauGrid's words, with "Capacity provisioning" added.

Each phase is pending, active, done, warning or skipped. The order is the order in which they are
gone through; a phase that this job does not have is skipped, one that could not be read is pending
and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from taugrid_ray import names
from taugrid_ray.jobs.asked import asked_of, said
from taugrid_ray.jobs.model import JobState, Outcome
from taugrid_ray.jobs.observed import Observed, Part, PodView
from taugrid_ray.jobs.slices import current_workload
from taugrid_ray.jobs.waiting import is_ours, memory_of
from taugrid_ray.kinds import rayjob as rj
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.workload import Check, CheckState, Workload
from taugrid_ray.memory import Pause
from taugrid_ray.reasons import Stage
from taugrid_ray.sentences import printable


class Mark(str, Enum):
    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    WARNING = "warning"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    mark: Mark
    detail: str = ""
    since_s: float | None = None
    """When it began or was done, seconds since the epoch."""


def phases_of(seen: Observed, state: JobState) -> tuple[Phase, ...]:
    job = seen.job
    if job is None:
        return (Phase("Submitted", Mark.WARNING, state.sentence),)
    workload = current_workload(seen.workloads or ())
    started = state.is_started
    found = [
        Phase("Submitted", Mark.DONE, since_s=job.meta.created_at_s),
        _admission(seen, state, job, workload),
        _capacity(seen, state, workload),
    ]
    if isinstance(job, RayJob):
        found.append(_cluster(job, started))
    found += _pods(seen, state)
    if isinstance(job, RayJob):
        found.append(_program(job, state))
    return tuple(found)


def _admission(
    seen: Observed, state: JobState, job: Job | RayJob, workload: Workload | None
) -> Phase:
    name = "Kueue admission"
    if workload is None:
        if state.is_started:
            return Phase(name, Mark.DONE if seen.workloads is None else Mark.SKIPPED)
        if seen.workloads is None:
            return Phase(name, Mark.PENDING, seen.unavailable.get(Part.WORKLOADS, "unavailable"))
        if not job.meta.labels.get(names.QUEUE):
            return Phase(name, Mark.WARNING, state.sentence)
        return Phase(name, Mark.ACTIVE, state.sentence)
    reserved = workload.reservation
    if reserved is not None or state.is_started:
        since_s = reserved.changed_at_s if reserved is not None else None
        return Phase(name, Mark.DONE, f'queue "{printable(workload.queue)}"', since_s)
    if not workload.active:
        by_us = memory_of(workload).pause in (Pause.PARKED, Pause.GAVE_UP)
        mark = Mark.PENDING if by_us else Mark.WARNING
        return Phase(name, mark, state.sentence, state.since_s)
    return Phase(name, Mark.ACTIVE, state.sentence, state.since_s)


def _our_check(workload: Workload) -> Check | None:
    reservation = workload.reservation
    if reservation is None:
        return None
    return next((c for c in workload.checks if is_ours(c, reservation)), None)


def _capacity(seen: Observed, state: JobState, workload: Workload | None) -> Phase:
    name = "Capacity provisioning"
    if workload is None:
        return Phase(name, Mark.SKIPPED)
    memory = memory_of(workload)
    if not workload.active and memory.pause in (Pause.PARKED, Pause.GAVE_UP):
        return Phase(name, Mark.WARNING, state.sentence, memory.at_s)
    asked = asked_of(seen.requests or ())
    check = _our_check(workload)
    if check is None:
        if state.stage is Stage.PROVISIONING and asked:
            detail = "; ".join(f"{a.name}: {said(a)}" for a in asked)
            return Phase(name, Mark.ACTIVE, detail, state.since_s)
        if state.stage is Stage.QUEUED and not state.is_started:
            return Phase(name, Mark.PENDING)
        if state.stage is Stage.PROVISIONING:
            return Phase(name, Mark.ACTIVE, state.sentence, state.since_s)
        return Phase(name, Mark.SKIPPED)
    mark = {
        CheckState.PENDING: Mark.ACTIVE,
        CheckState.RETRY: Mark.ACTIVE,
        CheckState.READY: Mark.DONE,
        CheckState.REJECTED: Mark.WARNING,
    }[check.state]
    return Phase(name, mark, printable(check.message))


def _cluster(job: RayJob, started: bool) -> Phase:
    name = "RayCluster"
    if job.uses_existing_cluster:
        return Phase(name, Mark.SKIPPED, "it uses a cluster that exists")
    if job.deployment_status == rj.VALIDATION_FAILED:
        return Phase(name, Mark.WARNING, printable(job.message))
    if job.entrypoint_started or job.deployment_status in (rj.RUNNING, rj.WAITING, rj.COMPLETE):
        return Phase(name, Mark.DONE, job.cluster_name)
    if job.deployment_status in (rj.INITIALIZING, rj.RETRYING) and not job.suspend:
        return Phase(name, Mark.ACTIVE, job.cluster_name, job.started_at_s)
    return Phase(name, Mark.ACTIVE if started and not job.is_finished else Mark.PENDING)


def _pods(seen: Observed, state: JobState) -> list[Phase]:
    titles = ("Pod scheduling", "Container start", "Ready")
    if seen.pods is None:
        why = seen.unavailable.get(Part.PODS, "unavailable")
        return [Phase(title, Mark.PENDING, why) for title in titles]
    live = [p for p in seen.pods if not p.terminating or p.has_ended]
    if not live:
        done = state.outcome in (Outcome.SUCCEEDED, Outcome.STOPPED)
        return [Phase(title, Mark.DONE if done else Mark.PENDING) for title in titles]
    counts = (
        sum(1 for p in live if p.node),
        sum(1 for p in live if p.runs_or_ran or p.has_ended),
        sum(1 for p in live if p.ready or p.has_ended),
    )
    troubles = (_unscheduled(live), _stuck(live), "")
    found, before = [], len(live)
    for title, count, trouble in zip(titles, counts, troubles, strict=True):
        detail = f"{count} of {len(live)} pods"
        if count >= len(live):
            mark = Mark.DONE
        elif trouble:
            mark, detail = Mark.WARNING, f"{detail}; {trouble}"
        else:
            mark = Mark.ACTIVE if before else Mark.PENDING
        found.append(Phase(title, mark, detail))
        before = count
    return found


def _unscheduled(pods: list[PodView]) -> str:
    words = next((p.unscheduled for p in pods if p.unscheduled and not p.node), "")
    return printable(words)


def _stuck(pods: list[PodView]) -> str:
    for pod in pods:
        trouble = pod.trouble
        if trouble is not None:
            return printable(f"{pod.name} is in {trouble.waiting}: {trouble.message}")
    return ""


def _program(job: RayJob, state: JobState) -> Phase:
    name = "RayJob"
    if state.outcome is Outcome.SUCCEEDED:
        return Phase(name, Mark.DONE, job.job_status, job.ended_at_s)
    if state.outcome in (Outcome.FAILED, Outcome.STOPPED):
        return Phase(name, Mark.WARNING, state.sentence, job.ended_at_s)
    if job.entrypoint_started or job.deployment_status in (rj.RUNNING, rj.WAITING):
        return Phase(name, Mark.ACTIVE, printable(job.job_status or job.deployment_status))
    return Phase(name, Mark.PENDING)


def headline(seen: Observed, state: JobState) -> str:
    """The state in TauGrid's words, as its own `status` prints it."""
    job = seen.job
    if state.outcome is Outcome.SUCCEEDED or state.outcome is Outcome.STOPPED:
        return "Complete"
    if state.is_final:
        return "Failed"
    if state.stage is Stage.RUNNING:
        return "Running"
    if isinstance(job, RayJob) and job.deployment_status == rj.INITIALIZING and not job.suspend:
        return "Initializing"
    workload = current_workload(seen.workloads or ())
    admitted = find(workload.conditions, wl.ADMITTED) if workload is not None else None
    if state.is_started or (admitted is not None and admitted.is_true):
        return "Running" if seen.pods else "Admitted (no active pods yet)"
    if job is not None and job.suspend:
        return "Pending (suspended; Kueue not yet admitted)"
    return "New"
