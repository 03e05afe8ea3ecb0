"""Decide the next step of one gang: towards capacity, or towards leaving nothing behind.

Pure, total and convergent: doing what it asks for and deciding again asks for nothing. A gang is
looked at by its Workload's uid, whether that Workload still exists or not, so the same decision
books, waits, parks and sweeps. The rules R1 to R10 of the design are kept here and in the two
modules beside: `cold.py` while nothing runs, `admitted.py` once the check is Ready.
"""

from __future__ import annotations

from controllers.actions import Action, Decision, Forget, Unpark
from controllers.gang import admitted, cold
from controllers.gang.failure import announce, attempt_text, target
from controllers.gang.release import drop_all_but
from controllers.gang.seen import SeenGang
from taugrid_ray import names, sentences
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find
from taugrid_ray.kinds.resource import RAY_CLUSTER, RAY_JOB
from taugrid_ray.kinds.workload import CheckState, Workload
from taugrid_ray.memory import Memory, Pause, parse_memory

_GROWING = (RAY_JOB.kind, RAY_CLUSTER.kind)
QUOTA_FREED_CHECK_S = 1.0
"""How soon to look again when a pause is over but Kueue has not yet let go of the quota."""


def decide(seen: SeenGang, now_s: float) -> Decision:
    """now_s: seconds since the epoch. Raises nothing for any state of the cluster."""
    workload = seen.workload
    if workload is None or workload.meta.is_terminating:
        return Decision(drop_all_but(seen, ()))
    memory = parse_memory(workload.meta.annotations.get(names.MEMORY))
    if _is_growths(seen, workload):
        return Decision()
    if workload.is_true(wl.FINISHED):
        return Decision(drop_all_but(seen, ()))
    if not workload.active:
        return _inactive(seen, workload, memory, now_s)
    if memory.pause in (Pause.PARKED, Pause.GAVE_UP):
        # Un-parking by us writes `resumed` in the same patch, so somebody else started this gang.
        return Decision((*drop_all_but(seen, ()), Forget(target(workload))))
    check = workload.check(seen.check) if seen.check else None
    if (
        check is None
        or workload.reservation is None
        or workload.is_true(wl.EVICTED)
        or seen.job is None
        or seen.job.ended
        or check.state in (CheckState.RETRY, CheckState.REJECTED)
    ):
        return Decision(drop_all_but(seen, ()))
    if check.state is CheckState.READY:
        return admitted.decide(seen, workload, check, seen.job, memory, now_s)
    if not seen.job.suspended or seen.runs:
        # A slice of a job that runs: its growth is no cold start, and nothing here may touch it.
        return Decision()
    return cold.decide(seen, workload, check, seen.job, memory, now_s)


def _is_growths(seen: SeenGang, workload: Workload) -> bool:
    """Once an elastic job runs, its slices come and go while bookings and pods stay: they are the
    cluster's, and looked at together (`controllers.growth`)."""
    job = seen.job
    return (
        workload.is_elastic
        and workload.active
        and job is not None
        and job.ref.kind in _GROWING
        and not job.suspended
        and not job.ended
        and not workload.is_true(wl.EVICTED)
        and _is_in_chain(workload)
    )


def _is_in_chain(workload: Workload) -> bool:
    """Not finished, or only because another slice took its place."""
    finished = find(workload.conditions, wl.FINISHED)
    return finished is None or not finished.is_true or finished.reason == wl.SLICE_REPLACED


def _inactive(seen: SeenGang, workload: Workload, memory: Memory, now_s: float) -> Decision:
    actions = drop_all_but(seen, ())
    if memory.pause is not Pause.PARKED or memory.resume_at_s is None:
        return Decision(actions)
    left_s = memory.resume_at_s - now_s
    if left_s > 0:
        return Decision(actions, wake_after_s=left_s)
    if workload.reservation is not None:
        return Decision(actions, wake_after_s=QUOTA_FREED_CHECK_S)
    resumed = Memory(
        pause=Pause.RESUMED,
        step=memory.step,
        attempt=memory.attempt,
        failures=memory.failures,
        reason=memory.reason,
        message=memory.message,
        at_s=now_s,
    )
    news: tuple[Action, ...] = ()
    if seen.job is not None and seen.policy is not None:
        told = sentences.resumed(attempt_text(seen.policy, memory))
        news = (announce(workload, seen.job, told, now_s),)
    return Decision((*actions, Unpark(target(workload), resumed), *news))
