"""Where a job stands, why, and what to do next: one value out of what was read of it.

Pure and total. The order of the questions is the rule: has the job ended; is its Workload
inactive (parked, given up, refused, or stopped by somebody); does it hold quota; is it admitted;
do its pods run. Cold or growing is the job's own word: once its program runs, a slice that waits
does not take it back to the queue. What could not be read never ends a job and never makes it
"not found": the state says what is known and lists the rest in `unavailable`.
"""

from __future__ import annotations

from dataclasses import replace

from taugrid_ray import names
from taugrid_ray.jobs import starting, waiting
from taugrid_ray.jobs.model import JobState, Outcome, PodCounts
from taugrid_ray.jobs.observed import JobRef, Observed, Part
from taugrid_ray.jobs.slices import current_workload, growth_of
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.workload import CheckState, Workload
from taugrid_ray.reasons import Stage
from taugrid_ray.sentences import MESSAGE_MAX, plural, printable


def state_of(seen: Observed, now_s: float) -> JobState:
    """now_s: seconds since the epoch, only to notice that a named moment has passed."""
    job, ref = seen.job, seen.ref
    workload = current_workload(seen.workloads or ())
    if job is None:
        found = JobState(
            ref, Stage.FINISHED, "Deleted", f"{ref.shown} was deleted", outcome=Outcome.DELETED
        )
    elif job.is_finished:
        found = _finished(ref, job)
    else:
        found = _unfinished(seen, job, workload, now_s)
        if job.meta.is_terminating:
            found = replace(found, reason="Deleting", sentence="is being deleted", hint="")
    memory = waiting.memory_of(workload)
    attempt = memory.failures if found.stage in (Stage.PARKED, Stage.GAVE_UP) else None
    return replace(
        found,
        attempt=max(1, memory.failures + 1 if attempt is None else attempt),
        growth=growth_of(seen.workloads or ()) if found.stage is Stage.RUNNING else "",
        queue=_queue(job, workload),
        pods=_counts(seen, workload),
        unavailable=dict(seen.unavailable),
        sentence=printable(found.sentence, limit=MESSAGE_MAX),
    )


def _queue(job: Job | RayJob | None, workload: Workload | None) -> str:
    if workload is not None and workload.queue:
        return workload.queue
    return job.meta.labels.get(names.QUEUE, "") if job is not None else ""


def _counts(seen: Observed, workload: Workload | None) -> PodCounts | None:
    if seen.pods is None:
        return None
    live = [p for p in seen.pods if not p.terminating or p.has_ended]
    return PodCounts(
        expected=sum(a.count for a in workload.assignments) if workload is not None else 0,
        created=len(live),
        bound=sum(1 for p in live if p.node),
        ready=sum(1 for p in live if p.ready),
        ended=sum(1 for p in live if p.has_ended),
        nodes=len({p.node for p in live if p.node and not p.has_ended}),
    )


# The end


def _finished(ref: JobRef, job: Job | RayJob) -> JobState:
    ended = JobState(ref, Stage.FINISHED, "Succeeded", "", since_s=_ended_at(job))
    if isinstance(job, RayJob) and job.was_stopped:
        sentence = "its program was stopped by somebody"
        return replace(ended, reason="Stopped", sentence=sentence, outcome=Outcome.STOPPED)
    if job.has_failed:
        words = ": ".join(w for w in (job.reason, printable(job.message)) if w)
        return replace(
            ended,
            reason=job.reason or "Failed",
            sentence=f"failed: {words}" if words else "failed",
            hint=f"taugrid logs {ref.target} -n {ref.namespace}",
            outcome=Outcome.FAILED,
        )
    sentence = "its program succeeded"
    if isinstance(job, Job):
        sentence = f"all of it succeeded ({plural(job.succeeded, 'pod')})"
    return replace(ended, sentence=sentence, outcome=Outcome.SUCCEEDED)


def _ended_at(job: Job | RayJob) -> float | None:
    if job.ended_at_s is not None:
        return job.ended_at_s
    if isinstance(job, RayJob):
        return None
    # A failed Job has no completionTime; its condition says when.
    failed = find(job.conditions, "Failed")
    return failed.changed_at_s if failed is not None else None


# Before that


def _unfinished(
    seen: Observed, job: Job | RayJob, workload: Workload | None, now_s: float
) -> JobState:
    if seen.workloads is None:
        return _without_workloads(seen, job)
    if job.entrypoint_started and not job.suspend:
        return starting.state(waiting.base_state(seen.ref), seen, job, workload)
    if workload is None or workload.is_true(wl.FINISHED):
        return _no_workload(seen, job)
    if not workload.active:
        return waiting.inactive(seen, workload, now_s)
    rejected = next((c for c in workload.checks if c.state is CheckState.REJECTED), None)
    if rejected is not None:
        return waiting.refused(seen.ref, rejected.message, waiting.said_at(rejected))
    if workload.reservation is None:
        return waiting.queued(seen, job, workload)
    if not workload.is_true(wl.ADMITTED) or workload.is_true(wl.EVICTED):
        return waiting.reserved(seen, workload, workload.reservation, now_s)
    return starting.state(waiting.base_state(seen.ref), seen, job, workload)


def _without_workloads(seen: Observed, job: Job | RayJob) -> JobState:
    """Kueue's side cannot be read: the job and its pods, and the last thing we told it."""
    if not job.suspend:
        return starting.state(waiting.base_state(seen.ref), seen, job, None)
    ours = [e for e in seen.events or () if e.controller == names.CONTROLLER]
    last = max(ours, key=lambda e: e.at_s, default=None)
    why = seen.unavailable.get(Part.WORKLOADS, "")
    news = f"; last news: {last.note}" if last is not None else ""
    return JobState(
        seen.ref,
        Stage.QUEUED,
        last.reason if last is not None else "Unavailable",
        f"is suspended; its Workload cannot be read, so why is unknown{news}",
        hint=f"ask for the right: {why}" if why else "",
        since_s=last.at_s if last is not None else job.meta.created_at_s,
    )


def _no_workload(seen: Observed, job: Job | RayJob) -> JobState:
    base = replace(waiting.base_state(seen.ref), since_s=job.meta.created_at_s)
    if not job.meta.labels.get(names.QUEUE):
        if not job.suspend:
            return starting.state(base, seen, job, None)
        return replace(
            base,
            reason="NoQueue",
            sentence="is suspended and has no queue label: nobody will start it",
            hint=f"taugrid cancel {seen.ref.target} -n {seen.ref.namespace}, then run it again "
            "with --queue NAME (kubectl get localqueues lists them)",
        )
    if not job.suspend:
        return starting.state(base, seen, job, None)
    return replace(base, reason="WaitingForKueue", sentence="waits for Kueue to take notice of it")
