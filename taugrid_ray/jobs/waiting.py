"""A job that Kueue has not let start: queued, asking for capacity, parked, given up or refused."""

from __future__ import annotations

from dataclasses import replace

from taugrid_ray import names, sentences
from taugrid_ray.jobs.asked import asked_of, told_by
from taugrid_ray.jobs.model import JobState, Outcome
from taugrid_ray.jobs.observed import JobRef, Observed
from taugrid_ray.jobs.told import moment_of, reason_of
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import Condition, find
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.workload import Check, CheckState, Workload
from taugrid_ray.memory import Memory, Pause, parse_memory
from taugrid_ray.reasons import Reason, Stage
from taugrid_ray.sentences import MESSAGE_MAX, Told, printable

OVERDUE_S = 60.0
"""So long after a moment that our controller had named, its silence is worth a hint."""
_SILENT = (
    "that moment has passed and the taugrid-ray controller has done nothing: ask an administrator "
    "whether it runs"
)


def memory_of(workload: Workload | None) -> Memory:
    text = workload.meta.annotations.get(names.MEMORY) if workload is not None else None
    return parse_memory(text)


def base_state(ref: JobRef) -> JobState:
    return JobState(ref, Stage.QUEUED, Reason.WAITING_FOR_QUOTA.value, "")


def inactive(seen: Observed, workload: Workload, now_s: float) -> JobState:
    memory = memory_of(workload)
    ref = seen.ref
    if memory.pause is Pause.GAVE_UP:
        why = Told(Reason.GAVE_UP, memory.message)
        told = sentences.gave_up(why, f"attempt {memory.failures}")
        return JobState(
            ref,
            Stage.GAVE_UP,
            Reason.GAVE_UP.value,
            _as_announced(seen, memory, told.sentence),
            hint=f"taugrid resume {ref.target} -n {ref.namespace}",
            outcome=Outcome.GAVE_UP,
            since_s=memory.at_s,
        )
    if memory.pause is Pause.PARKED:
        return _parked(seen, memory, now_s)
    return _deactivated(ref, workload)


def _as_announced(seen: Observed, memory: Memory, otherwise: str) -> str:
    """The sentence of the event that went with this memory: it knows how many attempts there are.
    Events are kept for an hour only, hence `otherwise`."""
    told = printable(memory.message, limit=MESSAGE_MAX)
    ours = [
        e
        for e in seen.events or ()
        if e.controller == names.CONTROLLER
        and e.note.startswith(told[:-1])
        and e.at_s >= memory.at_s - 1
    ]
    last = max(ours, key=lambda e: e.at_s, default=None)
    return last.note if told and last is not None else otherwise


def _parked(seen: Observed, memory: Memory, now_s: float) -> JobState:
    until_s = memory.resume_at_s or memory.at_s
    why = Told(_known(memory.reason), memory.message)
    told = sentences.parked(why, f"attempt {memory.failures}", until_s)
    late = now_s - until_s > OVERDUE_S
    return JobState(
        seen.ref,
        Stage.PARKED,
        memory.reason or Reason.PROVISIONING_FAILED.value,
        _as_announced(seen, memory, told.sentence),
        hint=_SILENT
        if late
        else f"or now: taugrid resume {seen.ref.target} -n {seen.ref.namespace}",
        since_s=memory.at_s,
        until_s=until_s,
    )


def _known(reason: str) -> Reason:
    try:
        return Reason(reason)
    except ValueError:
        return Reason.PROVISIONING_FAILED


def _deactivated(ref: JobRef, workload: Workload) -> JobState:
    evicted = find(workload.conditions, wl.EVICTED)
    why = evicted.reason if evicted is not None and evicted.is_true else ""
    since_s = evicted.changed_at_s if evicted is not None and evicted.is_true else None
    if why == "DeactivatedDueToAdmissionCheck":
        words = next((c.message for c in workload.checks if c.message), "")
        return refused(ref, words or (evicted.message if evicted is not None else ""), since_s)
    paused = JobState(
        ref,
        Stage.PARKED,
        why or "Deactivated",
        "its Workload was made inactive by somebody (spec.active: false), not by taugrid-ray",
        hint=f"taugrid resume {ref.target} -n {ref.namespace}",
        since_s=since_s,
    )
    if why.startswith("DeactivatedDueTo"):
        words = printable(evicted.message) if evicted is not None else ""
        return replace(
            paused,
            stage=Stage.GAVE_UP,
            sentence=f"Kueue gave up: {words}",
            outcome=Outcome.GAVE_UP,
        )
    return paused


def refused(ref: JobRef, words: str, since_s: float | None) -> JobState:
    reason = reason_of(words)
    return JobState(
        ref,
        Stage.GAVE_UP,
        reason.value if reason is not None else "AdmissionCheckRejected",
        words or "an admission check refused it for good",
        hint=f"a refusal is final: taugrid cancel {ref.target} -n {ref.namespace}, then run it "
        "again",
        outcome=Outcome.REFUSED,
        since_s=since_s,
    )


def is_ours(check: Check, reservation: Condition) -> bool:
    """Does the check bear a sentence of ours about this reservation? Kueue leaves the message of
    an attempt before on a check that was Pending when its quota went."""
    at_s = said_at(check)
    old = at_s is not None and at_s < reservation.changed_at_s
    return reason_of(check.message) is not None and not old


def said_at(check: Check) -> float | None:
    condition = Condition("", "", changed_at=check.changed_at)
    return condition.changed_at_s or None


def queued(seen: Observed, job: Job | RayJob, workload: Workload) -> JobState:
    memory, ref = memory_of(workload), seen.ref
    waits = find(workload.conditions, wl.QUOTA_RESERVED)
    words = printable(waits.message) if waits is not None else ""
    evicted = find(workload.conditions, wl.EVICTED)
    base = replace(base_state(ref), since_s=job.meta.created_at_s)
    sentence = f'waits for quota in queue "{printable(workload.queue)}"'
    if memory.pause is Pause.RESUMED:
        base = replace(base, since_s=memory.at_s)
        sentence += f" for attempt {memory.failures + 1}"
    elif evicted is not None and evicted.is_true and evicted.reason != "Deactivated":
        base = replace(base, reason=evicted.reason, since_s=evicted.changed_at_s)
        sentence = f"was stopped ({printable(evicted.message)}) and {sentence}"
    elif evicted is not None and evicted.is_true:
        base = replace(base, since_s=evicted.changed_at_s)
    return replace(base, sentence=f"{sentence}: {words}" if words else sentence)


def reserved(seen: Observed, workload: Workload, reservation: Condition, now_s: float) -> JobState:
    """Quota is reserved; admission waits for checks, or an eviction is under way."""
    base = replace(base_state(seen.ref), stage=Stage.PROVISIONING, since_s=reservation.changed_at_s)
    evicted = find(workload.conditions, wl.EVICTED)
    if evicted is not None and evicted.is_true:
        sentence = f"is being stopped: {printable(evicted.message)}"
        since_s = evicted.changed_at_s
        return replace(
            base, stage=Stage.QUEUED, reason=evicted.reason, sentence=sentence, since_s=since_s
        )
    waiting = [c for c in workload.checks if c.state is not CheckState.READY]
    told = next((c for c in waiting if is_ours(c, reservation)), None)
    check = told or next(iter(waiting), None)
    if check is None:
        return replace(base, reason="Admitting", sentence="holds quota; Kueue is admitting it")
    if told is None:
        by_requests = told_by(asked_of(seen.requests or ()))
        if by_requests is not None:
            sentence = by_requests.sentence
            return replace(base, reason=by_requests.reason.value, sentence=sentence)
        words = f": {printable(check.message)}" if check.message else ""
        sentence = f'holds quota; waits for admission check "{printable(check.name)}"{words}'
        return replace(base, reason="WaitingForCheck", sentence=sentence)
    reason = reason_of(check.message)
    until_s = moment_of(check.message, after_s=said_at(check) or reservation.changed_at_s)
    late = until_s is not None and now_s - until_s > OVERDUE_S
    return replace(
        base,
        reason=reason.value if reason is not None else base.reason,
        sentence=check.message,
        until_s=until_s,
        hint=_SILENT if late else "",
    )
