"""A gang whose check is Ready: keep the booking until its pods are bound, then leave nothing.

Until then Cluster Autoscaler books the full count, so a request is deleted as soon as it is used.
Pods whose booking is over and that are still not bound lose the consume annotation: with it the
autoscaler would ignore them for ever. The clocks for nodes, accelerators and pods go on; when one
runs out, a gang of which nothing covered runs is parked for the next attempt, any other is left
alone and explained (rule R1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from controllers.actions import Action, Decision, Forget, SetCheck, Target, Unstamp
from controllers.gang import nodes
from controllers.gang.failure import announce, fail, target
from controllers.gang.release import drop_all_but
from controllers.gang.seen import SeenGang, SeenJob
from taugrid_ray import names, sentences
from taugrid_ray.booking import PoolGang, covered_pod_sets, pools_of
from taugrid_ray.errors import ManifestError
from taugrid_ray.kinds import pod as pods
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.workload import Check, CheckState, Workload
from taugrid_ray.memory import FRESH, Memory
from taugrid_ray.sentences import Told
from taugrid_ray.verdict import Answer, Verdict, answer_of

_OVER = (Verdict.EXPIRED, Verdict.FAILED, Verdict.REVOKED)
_Pools = Callable[[], tuple[PoolGang, ...]]


def decide(
    seen: SeenGang, workload: Workload, check: Check, job: SeenJob, memory: Memory, now_s: float
) -> Decision:
    reservation = workload.reservation
    mine = tuple(
        r
        for r in seen.requests
        if reservation is not None
        and r.meta.annotations.get(names.RESERVATION) == reservation.changed_at
    )
    if not workload.is_true(wl.ADMITTED):
        return _held_by_others(seen, workload, check, job, memory, mine, now_s)
    # Made only where needed: most looks at an admitted gang are about a pod, and end without them.
    pools = cache(partial(_pools, seen, workload, check))
    kept = tuple(r for r in mine if not _is_done(r, seen.pods, workload, pools))
    live = tuple(r for r in kept if answer_of(r).verdict not in _OVER)
    actions = (*drop_all_but(seen, kept), *_unstamp(seen.pods, live))
    if not kept and not seen.requests and memory != FRESH:
        actions = (*actions, Forget(target(workload)))
    watched = _watch_clocks(seen, workload, check, job, memory, pools, kept, now_s)
    return replace(watched, actions=(*actions, *watched.actions))


def _held_by_others(
    seen: SeenGang,
    workload: Workload,
    check: Check,
    job: SeenJob,
    memory: Memory,
    mine: tuple[ProvisioningRequest, ...],
    now_s: float,
) -> Decision:
    """Ready by us, not admitted: another check holds the job, or our Ready outlived its booking."""
    stale = drop_all_but(seen, mine)
    pools = _pools(seen, workload, check)
    answers = [answer_of(r) for r in mine]
    if pools and seen.policy is not None and not seen.runs:
        gang = sentences.size([(p.pool, p.pods) for p in pools])
        if over := next((a for a in answers if a.verdict in _OVER), None):
            why = _why_over(over, gang)
            return fail(workload, check.name, job, seen.policy, memory, why, now_s)
        if not mine:
            again = SetCheck(
                target(workload),
                check.index,
                check.name,
                CheckState.PENDING,
                sentences.expired(gang).reason,
                "",
                now_s,
            )
            return Decision((again, *stale))
    return Decision(stale)


def _why_over(answer: Answer, gang: str) -> Told:
    if answer.verdict is Verdict.FAILED:
        return sentences.failed(gang, answer.message)
    if answer.verdict is Verdict.REVOKED:
        return sentences.revoked(gang, answer.message)
    return sentences.expired(gang)


def _is_done(
    request: ProvisioningRequest, all_pods: tuple[Pod, ...], workload: Workload, pools: _Pools
) -> bool:
    """Used up: nobody needs the request any more. pools: the whole gang."""
    verdict = answer_of(request).verdict
    if verdict is Verdict.CONSUMED:
        return True
    if workload.is_elastic:
        # Its pods do not name the booking; Kueue says when all of them run.
        return verdict in _OVER or workload.is_true(wl.PODS_READY)
    own = [p for p in all_pods if p.booking == request.meta.name]
    waiting = any(p.is_live and not p.node for p in own)
    if not waiting and sum(1 for p in own if p.node) >= request.pods:
        return True
    # One that is over books nothing any more, and its pods have lost its name. While some pods of
    # the gang are not bound it stays as the mark that the nodes clock still runs: a booking may
    # well end before that.
    if verdict not in _OVER:
        return False
    return sum(1 for p in all_pods if p.node) >= sum(p.pods for p in pools())


def _unstamp(
    all_pods: tuple[Pod, ...], live: tuple[ProvisioningRequest, ...]
) -> tuple[Action, ...]:
    bookings = {r.meta.name for r in live}
    return tuple(
        Unstamp(Target(p.meta.namespace, p.meta.name, p.meta.uid, p.meta.resource_version))
        for p in all_pods
        if p.is_live and not p.node and p.booking and p.booking not in bookings
    )


def _pools(seen: SeenGang, workload: Workload, check: Check) -> tuple[PoolGang, ...]:
    if seen.policy is None:
        return ()
    try:
        covered = covered_pod_sets(
            workload,
            on_flavors=seen.on_flavors,
            managed_resources=seen.policy.managed_resources,
            flavors=seen.flavors,
            check_name=check.name,
        )
        return pools_of(covered, seen.flavors)
    except ManifestError:
        # It was good enough to be booked; a flavor that changed since is told at the next attempt.
        return ()


def _watch_clocks(
    seen: SeenGang,
    workload: Workload,
    check: Check,
    job: SeenJob,
    memory: Memory,
    pools_of_gang: _Pools,
    kept: tuple[ProvisioningRequest, ...],
    now_s: float,
) -> Decision:
    policy = seen.policy
    admitted = find(workload.conditions, wl.ADMITTED)
    if policy is None or admitted is None or workload.is_true(wl.PODS_READY):
        return Decision()
    limits = policy.deadlines
    soonest_s = admitted.changed_at_s + (
        min(limits.nodes, limits.accelerators)
        if kept
        else limits.nodes + limits.accelerators + limits.pods
    )
    if now_s < soonest_s:
        # No clock can have run out: what nodes there are makes no difference yet.
        return Decision(wake_after_s=soonest_s - now_s)
    pools = pools_of_gang()
    if not pools:
        return Decision()
    gang = sentences.size([(p.pool, p.pods) for p in pools])
    # Pods of an elastic gang do not say whose they are, so any of them may be running.
    started = (
        job.entrypoint_started
        or workload.is_elastic
        or any(p.phase in (pods.RUNNING, pods.SUCCEEDED, pods.FAILED) for p in seen.pods)
    )
    booked_at_s = admitted.changed_at_s
    if kept:
        held = nodes.progress(seen, policy, asked_pools=pools, booked_at_s=booked_at_s, now_s=now_s)
        if held is not None:
            if not held.failed:
                return Decision(wake_after_s=held.left_s, needs_nodes=True)
            told = held.told(gang)
            if started:
                return Decision(_say(workload, check, job, told, now_s))
            return fail(workload, check.name, job, policy, memory, told, now_s)
    left_s = booked_at_s + limits.nodes + limits.accelerators + limits.pods - now_s
    if left_s > 0:
        # The gang fits on its nodes, and a booking is still there.
        return Decision(wake_after_s=left_s)
    total = sum(p.pods for p in pools)
    missing = total - sum(1 for p in seen.pods if p.is_ready or p.has_ended)
    if missing <= 0:
        return Decision()
    return Decision(
        _say(workload, check, job, sentences.pods_timed_out(gang, missing, limits.pods), now_s)
    )


def _say(
    workload: Workload, check: Check, job: SeenJob, told: Told, now_s: float
) -> tuple[Action, ...]:
    """Explain on the check and the user's object; the check stays Ready, its updates are frozen."""
    if check.message == told.sentence:
        return ()
    entry = SetCheck(
        target(workload),
        check.index,
        check.name,
        CheckState.READY,
        told.reason,
        told.sentence,
        now_s,
        check.updates,
    )
    return (entry, announce(workload, job, told, now_s, warning=True))
