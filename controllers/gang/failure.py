"""What follows a failed attempt: the next one after a pause, or the end.

Retry and Rejected both evict, Retry with a delay keeps the quota for all of it, and Rejected
cannot be undone on Kueue 0.19.2. So a failed attempt parks the Workload: one patch that makes it
inactive and remembers what comes next. Only called while nothing of the gang runs (rule R1).
"""

from __future__ import annotations

from controllers.actions import Action, Announce, Decision, Park, SetCheck, Target
from controllers.gang.seen import SeenJob
from taugrid_ray import sentences
from taugrid_ray.capacity_policy import CapacityPolicySpec, Step
from taugrid_ray.kinds.workload import CheckState, Workload
from taugrid_ray.memory import Memory, Pause
from taugrid_ray.sentences import Told


def target(workload: Workload) -> Target:
    meta = workload.meta
    return Target(meta.namespace, meta.name, meta.uid, meta.resource_version)


def step_of(policy: CapacityPolicySpec, memory: Memory) -> Step:
    """The step that is due; the last one where the policy has been shortened meanwhile."""
    return policy.steps[min(memory.step, len(policy.steps)) - 1]


def attempt_text(policy: CapacityPolicySpec, memory: Memory) -> str:
    """`attempt 2 of 5`, counted over all steps."""
    total = sum(step.attempts for step in policy.steps)
    return sentences.attempt_of(min(memory.failures + 1, total), total)


def next_memory(policy: CapacityPolicySpec, memory: Memory, why: Told, now_s: float) -> Memory:
    """What to remember after the attempt that `memory` names has failed."""
    step_index = min(memory.step, len(policy.steps))
    failures = memory.failures + 1
    attempt, step = memory.attempt + 1, step_index
    if attempt > policy.steps[step_index - 1].attempts:
        attempt, step = 1, step_index + 1
    if step > len(policy.steps):
        return Memory(
            pause=Pause.GAVE_UP,
            step=step_index,
            attempt=memory.attempt,
            failures=failures,
            reason=why.reason.value,
            message=why.sentence,
            at_s=now_s,
        )
    return Memory(
        pause=Pause.PARKED,
        step=step,
        attempt=attempt,
        failures=failures,
        reason=why.reason.value,
        message=why.sentence,
        at_s=now_s,
        resume_at_s=now_s + policy.backoff.pause_s(failures),
    )


def fail(
    workload: Workload,
    check: str,
    job: SeenJob,
    policy: CapacityPolicySpec,
    memory: Memory,
    why: Told,
    now_s: float,
) -> Decision:
    """Park for the next attempt, or end: parked for good, or Rejected where the policy says so."""
    attempt = attempt_text(policy, memory)
    then = next_memory(policy, memory, why, now_s)
    if then.pause is Pause.GAVE_UP:
        return _end(workload, check, job, then, sentences.gave_up(why, attempt), policy, now_s)
    assert then.resume_at_s is not None
    told = sentences.parked(why, attempt, then.resume_at_s)
    return Decision(
        (Park(target(workload), then), announce(workload, job, told, now_s, warning=True)),
        wake_after_s=then.resume_at_s - now_s,
    )


def give_up(
    workload: Workload,
    check: str,
    job: SeenJob,
    policy: CapacityPolicySpec,
    why: Told,
    now_s: float,
) -> Decision:
    """End at once: another attempt would fail in the same way."""
    then = Memory(
        pause=Pause.GAVE_UP,
        failures=1,
        reason=why.reason.value,
        message=why.sentence,
        at_s=now_s,
    )
    return _end(workload, check, job, then, why, policy, now_s)


def _end(
    workload: Workload,
    check: str,
    job: SeenJob,
    memory: Memory,
    told: Told,
    policy: CapacityPolicySpec,
    now_s: float,
) -> Decision:
    news = announce(workload, job, told, now_s, warning=True)
    entry = workload.check(check)
    if policy.on_give_up == "Reject" and entry is not None:
        final = SetCheck(
            target(workload),
            entry.index,
            check,
            CheckState.REJECTED,
            told.reason,
            told.sentence,
            now_s,
        )
        return Decision((final, news))
    return Decision((Park(target(workload), memory), news))


def announce(
    workload: Workload, job: SeenJob, told: Told, now_s: float, *, warning: bool = False
) -> Action:
    """An event on the Job or RayJob: one per Workload, reservation and sentence."""
    reservation = workload.reservation
    when = reservation.changed_at if reservation else ""
    return Announce(
        about=job.ref,
        namespace=workload.meta.namespace,
        reason=told.reason,
        note=told.sentence,
        warning=warning,
        key=f"{workload.uid}/{when}/{told.sentence}",
        now_s=now_s,
    )
