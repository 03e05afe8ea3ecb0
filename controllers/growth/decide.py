"""Decide the next step of one running Ray cluster: let it grow, or let it go on as it is.

Pure, total and convergent, like the gang's decision. Retry and Rejected on a growth evict the whole
running job, so neither exists here: a growth that cannot be served ends by lowering `maxReplicas`,
the Ray autoscaler withdraws, Kueue shrinks the slice in place, and the job never notices. Workers
that were lost come back without asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controllers.actions import (
    Action,
    Announce,
    Create,
    Decision,
    Delete,
    Release,
    SetCheck,
    Target,
    Unstamp,
)
from controllers.gang.failure import target
from controllers.gang.seen import SeenJob
from controllers.growth import limits
from controllers.growth.asking import Asked, ask, asked_at, coverage
from controllers.growth.release import held_by_kueue, lost_bookings, releases, waiting_heads
from controllers.growth.seen import SeenGrowth
from controllers.growth.tally import GroupTally, free_of, given, is_booked, is_head, tally
from taugrid_ray import names, sentences
from taugrid_ray.booking import CoveredPodSet
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.errors import ManifestError
from taugrid_ray.growth_limits import Change, give_back
from taugrid_ray.growth_memory import GrowthMemory, parse_growth_memory
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST
from taugrid_ray.kinds.workload import CheckState, Workload
from taugrid_ray.reasons import Reason
from taugrid_ray.sentences import Told
from taugrid_ray.verdict import Verdict, answer_of

QUIET_S = 2.0
"""A wish that is booked sooner is not worth a word on the check."""
REFUSED_RETRY_S = 30.0
MAKING_S = 5.0
"""How long after the deadline a refused wish still waits for KubeRay to make its pods."""


def decide(seen: SeenGrowth, now_s: float) -> Decision:
    """now_s: seconds since the epoch. Raises nothing for any state of the cluster."""
    cluster = seen.cluster
    if cluster is None or cluster.meta.is_terminating:
        return Decision(_drop(seen, ()))
    memory = parse_growth_memory(cluster.meta.annotations.get(names.GROWTH))
    job, current = seen.job, seen.current
    if (
        not cluster.is_elastic
        or job is None
        or job.ended
        or job.suspended
        or cluster.suspend
        or current is None
        or not current.active
        or current.is_true(wl.EVICTED)
    ):
        return _at_rest(seen, cluster, memory)
    return _Growth(seen, cluster, job, current, memory, now_s).decide()


def _at_rest(seen: SeenGrowth, cluster: RayCluster, memory: GrowthMemory | None) -> Decision:
    """Nothing grows any more: give back every limit, and let a slice that still waits go."""
    change = Change(memory or GrowthMemory())
    change = give_back(change, cluster, [g.name for g in cluster.groups])
    job, current = seen.job, seen.current
    if job is not None and job.ended and current is not None and not current.is_true(wl.ADMITTED):
        for t in tally(seen, cluster, current, change.memory):
            if not any(g.index == t.index for g in change.groups):
                change = limits.withdraw(change, t)
    return Decision((*limits.action(change, cluster, memory), *_drop(seen, ())))


@dataclass(frozen=True, slots=True)
class _Growth:
    seen: SeenGrowth
    cluster: RayCluster
    job: SeenJob
    current: Workload
    memory: GrowthMemory | None
    now_s: float

    def decide(self) -> Decision:
        known = self.memory or GrowthMemory()
        found = self._decide(known)
        due_s = [g.clamp.until_s for g in known.groups.values() if g.clamp is not None]
        wake_s = min(due_s) - self.now_s if due_s else None
        return replace(found, wake_after_s=_sooner(found.wake_after_s, wake_s))

    def _decide(self, known: GrowthMemory) -> Decision:
        seen, now_s = self.seen, self.now_s
        change = give_back(Change(known), self.cluster, self._cooled(known))
        tallies = tally(seen, self.cluster, self.current, change.memory)
        if change.groups:
            # The limits of this moment are about to change: the next look decides on the new ones.
            return Decision((*self._write(change), *self._given_back()))
        try:
            covered = coverage(seen, self.cluster, self.current)
        except ManifestError as fault:
            covered = {}
            told = sentences.gang_invalid(f"{fault.message}; {fault.hint}")
            return self._explain_only(change, tallies, told)
        if seen.check and seen.policy is None:
            told = sentences.policy_invalid(seen.policy_fault)
            return self._explain_only(change, tallies, told)
        ours = tuple(t for t in tallies if seen.check and t.group.pod_set in covered)
        others = tuple(t for t in tallies if t not in ours)
        if seen.policy is None:
            return self._let_go(change, (), others, with_bookings=True, kept=())
        return self._grow(change, seen.policy, covered, ours, others, now_s)

    def _cooled(self, memory: GrowthMemory) -> list[str]:
        return [
            name
            for name, group in memory.groups.items()
            if group.clamp is not None and self.now_s >= group.clamp.until_s
        ]

    def _grow(
        self,
        change: Change,
        policy: CapacityPolicySpec,
        covered: Mapping[str, CoveredPodSet],
        ours: tuple[GroupTally, ...],
        others: tuple[GroupTally, ...],
        now_s: float,
    ) -> Decision:
        memory = change.memory
        clamped = tuple(t for t in ours if memory.group(t.group.name).clamp is not None)
        growing = tuple(t for t in ours if t.delta > 0 and t not in clamped)
        asked_at_s = asked_at(self.seen, self.current, now_s)
        failures = max((memory.group(t.group.name).failures for t in growing), default=0)
        asked = (
            ask(
                self.seen,
                self.cluster,
                self.current,
                policy,
                covered,
                growing,
                failures,
                asked_at_s,
            )
            if growing
            else ()
        )
        until_s = asked_at_s + policy.growth.deadline
        refused = self._refused(asked, until_s, policy)
        losing = tuple(t for t in growing if t.group.pod_set in refused)
        # A limit that is lowered while KubeRay still makes pods confuses Ray.
        may_lower = all(t.all_exist for t in losing) or now_s >= until_s + MAKING_S
        if losing and may_lower:
            return self._lower(change, policy, losing, refused)
        kept = tuple(a.request for a in asked if a.request is not None)
        going = self._let_go(change, ours, others, with_bookings=not growing, kept=kept)
        held = self._withdraw_late(change, clamped)
        wakes = [going.wake_after_s, held.wake_after_s]
        actions = (*going.actions, *held.actions)
        if losing:
            said = self._say(refused[losing[0].group.pod_set], warning=True)
            return _joined(actions, said, [*wakes, 1.0])
        if growing:
            more = self._ask_and_wait(asked, growing, asked_at_s, until_s)
            return _joined(actions, more.actions, [*wakes, more.wake_after_s])
        return _joined(actions, self._ready(memory, covered, ours, clamped), wakes)

    # Asking

    def _refused(
        self, asked: tuple[Asked, ...], until_s: float, policy: CapacityPolicySpec
    ) -> Mapping[str, Told]:
        """Pod set name -> why it does not get what it asked for."""
        found: dict[str, Told] = {}
        for a in asked:
            size = sentences.size([(a.pool.pool, a.pool.pods)])
            verdict = a.answer.verdict if a.answer else None
            words = a.answer.message if a.answer else ""
            if verdict is Verdict.FAILED:
                told = sentences.failed(size, words)
            elif verdict is Verdict.REVOKED:
                told = sentences.revoked(size, words)
            elif self.now_s < until_s:
                continue
            elif a.request is None and self.seen.refused:
                told = sentences.refused(size, self.seen.refused)
            else:
                class_name = a.request.class_name if a.request is not None else ""
                told = sentences.timed_out(size, policy.growth.deadline, words, class_name)
            found |= {p.name: told for p in a.pool.pod_sets}
        return found

    def _lower(
        self,
        change: Change,
        policy: CapacityPolicySpec,
        losing: tuple[GroupTally, ...],
        refused: Mapping[str, Told],
    ) -> Decision:
        news: list[Action] = []
        for t in losing:
            why = refused[t.group.pod_set]
            failures = change.memory.group(t.group.name).failures + 1
            pause_s = float(policy.growth.cooldown.pause_s(failures))
            told = sentences.growth_refused(
                t.group.name, t.delta, t.running, why, self.now_s + pause_s
            )
            change = limits.clamp(
                change,
                t,
                (why.reason.value, told.sentence),
                at_s=self.now_s,
                pause_s=pause_s,
            )
            if not self.cluster.is_autoscaling:
                # Nobody else withdraws, and KubeRay would delete any pods above the limit.
                change = limits.withdraw(change, t)
            news.append(self._announce(told, warning=True))
        return Decision((*self._write(change), *news))

    def _ask_and_wait(
        self,
        asked: tuple[Asked, ...],
        growing: tuple[GroupTally, ...],
        asked_at_s: float,
        until_s: float,
    ) -> Decision:
        left_s = max(0.0, until_s - self.now_s)
        missing = [a for a in asked if a.is_missing]
        size = sentences.size([(a.pool.pool, a.pool.pods) for a in asked])
        running = sum(t.running for t in growing)
        if missing and self.seen.refused:
            told = sentences.refused(size, self.seen.refused)
            said = self._say(told, warning=True)
            return Decision(said or _creates(self.seen, missing), min(left_s, REFUSED_RETRY_S))
        if missing:
            return Decision(_creates(self.seen, missing), min(left_s, QUIET_S))
        quiet_s = asked_at_s + QUIET_S - self.now_s
        if quiet_s > 0:
            return Decision((), min(left_s, quiet_s))
        words = next(
            (a.answer.message for a in asked if a.answer and a.answer.verdict is Verdict.NO_ROOM),
            "",
        )
        return Decision(self._say(sentences.growing(size, running, words, until_s)), left_s)

    # Letting pods go

    def _let_go(
        self,
        change: Change,
        ours: tuple[GroupTally, ...],
        others: tuple[GroupTally, ...],
        *,
        with_bookings: bool,
        kept: tuple[ProvisioningRequest, ...],
    ) -> Decision:
        """Release what may go, take off names of bookings that are over, note what has started,
        and delete the requests that are used up."""
        ready = releases(self.seen, self.current, ours, others, with_bookings=with_bookings)
        lost = tuple(
            Unstamp(Target(p.meta.namespace, p.meta.name, p.meta.uid, p.meta.resource_version))
            for p in lost_bookings(self.seen)
        )
        if self.current.is_true(wl.ADMITTED) and all(t.running >= t.wanted for t in ours):
            change = limits.started(change, ours)
        useful = (*kept, *(r for r in self.seen.requests if self._is_useful(r, ours)))
        return Decision(
            (
                *((Release(ready),) if ready else ()),
                *lost,
                *self._write(change),
                *_drop(self.seen, useful),
            )
        )

    def _is_useful(self, request: ProvisioningRequest, ours: tuple[GroupTally, ...]) -> bool:
        """Does a pod on its way to a node need this booking, or will one yet?"""
        if not is_booked(request):
            return False
        if any(p.is_live and not p.node for p in given(self.seen, request.meta.name)):
            return True
        free = free_of(self.seen, request)
        heads = {p.meta.labels.get(names.POD_SET, "") for p in waiting_heads(self.seen)}
        return bool(heads & set(free)) or any(
            t.new > 0 and free.get(t.group.pod_set, 0) > 0 for t in ours
        )

    def _withdraw_late(self, change: Change, clamped: tuple[GroupTally, ...]) -> Decision:
        """Where the Ray autoscaler does not withdraw within the grace time, do it for it."""
        due: list[GroupTally] = []
        wake_s: float | None = None
        for t in clamped:
            held = change.memory.group(t.group.name).clamp
            assert held is not None
            if t.delta == 0:
                continue
            left_s = held.at_s + limits.GRACE_S - self.now_s
            if left_s > 0:
                wake_s = _sooner(wake_s, left_s)
            else:
                due.append(t)
        for t in due:
            change = limits.withdraw(change, t)
        if not change.groups:
            return Decision((), wake_s)
        told = sentences.growth_withdrawn([t.group.name for t in due])
        return Decision((*self._write(change), self._announce(told, warning=True)), wake_s)

    # Saying

    def _ready(
        self,
        memory: GrowthMemory,
        covered: Mapping[str, CoveredPodSet],
        ours: tuple[GroupTally, ...],
        clamped: tuple[GroupTally, ...],
    ) -> tuple[Action, ...]:
        """All that is wanted is booked or runs. Groups that were refused hold it up until the
        autoscaler has withdrawn, unless booked or lost workers wait behind them."""
        waiting = [t for t in clamped if t.delta > 0]
        booked = [(t, covered[t.group.pod_set]) for t in ours if t.booked]
        if waiting and not booked:
            if not self._somebody_waits_behind():
                return ()
            held = memory.group(waiting[0].group.name).clamp
            return self._set_ready(Told(Reason.GROWTH_REFUSED, held.message if held else ""))
        if not booked:
            return self._set_ready(sentences.growth_settled())
        pools: dict[str, int] = {}
        for t, pod_set in booked:
            pool = "+".join(pod_set.flavors)
            pools[pool] = pools.get(pool, 0) + t.booked
        return self._set_ready(sentences.booked(sentences.size(sorted(pools.items()))))

    def _set_ready(self, told: Told) -> tuple[Action, ...]:
        entry = self._entry(CheckState.READY, told)
        if entry is None or entry[1] is CheckState.READY:
            return ()
        return (entry[0], self._announce(told))

    def _say(self, told: Told, *, warning: bool = False) -> tuple[Action, ...]:
        """Put a sentence on the waiting check. Lost workers do not wait for it: if one is held by
        Kueue, the check is Ready at once, and our own gate keeps the new ones back."""
        if self._somebody_waits_behind():
            return self._set_ready(told)
        entry = self._entry(CheckState.PENDING, told)
        if entry is None or entry[1] is not CheckState.PENDING or entry[2] == told.sentence:
            return ()
        return (entry[0], self._announce(told, warning=warning))

    def _somebody_waits_behind(self) -> bool:
        held = [p for p in self.seen.pods if p.is_live and held_by_kueue(p)]
        if any(is_head(p) for p in held):
            return True
        tallies = tally(self.seen, self.cluster, self.current, self.memory or GrowthMemory())
        return any(t.replacements > 0 and any(held_by_kueue(p) for p in t.gated) for t in tallies)

    def _entry(self, state: CheckState, told: Told) -> tuple[SetCheck, CheckState, str] | None:
        check = self.current.check(self.seen.check) if self.seen.check else None
        if check is None:
            return None
        entry = SetCheck(
            target(self.current),
            check.index,
            check.name,
            state,
            told.reason,
            told.sentence,
            self.now_s,
        )
        return entry, check.state, check.message

    def _explain_only(
        self, change: Change, tallies: tuple[GroupTally, ...], told: Told
    ) -> Decision:
        going = self._let_go(change, tallies, (), with_bookings=False, kept=())
        return Decision((*going.actions, *self._say(told, warning=True)))

    def _write(self, change: Change) -> tuple[Action, ...]:
        return limits.action(change, self.cluster, self.memory)

    def _given_back(self) -> tuple[Action, ...]:
        return (self._announce(sentences.growth_given_back()),)

    def _announce(self, told: Told, *, warning: bool = False) -> Announce:
        return Announce(
            about=self.job.ref,
            namespace=self.cluster.meta.namespace,
            reason=told.reason,
            note=told.sentence,
            warning=warning,
            key=f"{self.cluster.meta.uid}/{self.current.uid}/{told.sentence}",
            now_s=self.now_s,
        )


def _creates(seen: SeenGrowth, missing: list[Asked]) -> tuple[Action, ...]:
    there = {t.name for t in seen.templates}
    templates = tuple(
        Create(POD_TEMPLATE, t)
        for a in missing
        for t in a.booking.templates
        if t["metadata"]["name"] not in there
    )
    return (*templates, *(Create(PROVISIONING_REQUEST, a.booking.request) for a in missing))


def _drop(seen: SeenGrowth, kept: tuple[ProvisioningRequest, ...]) -> tuple[Action, ...]:
    """Delete every request but these, and templates that none of the others names. Requests first:
    one whose template is gone fails for good."""
    uids = {r.meta.uid for r in kept}
    gone = tuple(
        r
        for r in seen.requests
        if r.meta.uid not in uids
        and not r.meta.is_terminating
        and (names.CLUSTER_UID in r.meta.labels or _is_used(seen, r))
    )
    named = {name for r in seen.requests if r not in gone for name in r.templates}
    return (
        *(
            Delete(PROVISIONING_REQUEST, Target(r.meta.namespace, r.meta.name, r.meta.uid))
            for r in gone
        ),
        *(
            Delete(POD_TEMPLATE, Target(t.namespace, t.name, t.uid))
            for t in seen.templates
            if t.name not in named and not t.is_terminating
        ),
    )


def _is_used(seen: SeenGrowth, cold: ProvisioningRequest) -> bool:
    """A cold request of the gang's: ours to delete only once pods of this cluster have used it."""
    return bool(given(seen, cold.meta.name)) or answer_of(cold).verdict in (
        Verdict.EXPIRED,
        Verdict.CONSUMED,
    )


def _joined(
    actions: tuple[Action, ...], more: tuple[Action, ...], wakes: list[float | None]
) -> Decision:
    wake_s: float | None = None
    for each in wakes:
        wake_s = _sooner(wake_s, each)
    return Decision((*actions, *more), wake_s)


def _sooner(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)
