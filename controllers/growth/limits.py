"""`maxReplicas` as the brake: lower it where there is no capacity, remember it, give it back.

Lowering it is what makes the Ray autoscaler withdraw the pods that wait, and turn to another group
that can serve the demand. Every function answers the changes of the groups and the memory that
belongs in the same patch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controllers.actions import GroupChange, SetGroups, Target
from controllers.growth.tally import GroupTally
from taugrid_ray import names
from taugrid_ray.growth_memory import Clamp, GroupMemory, GrowthMemory, Limits
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.raycluster import RayCluster

GRACE_S = 30.0
"""How long the Ray autoscaler gets to withdraw by itself (it looks every 5 s)."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to write on the RayCluster, in one patch."""

    memory: GrowthMemory
    groups: tuple[GroupChange, ...] = ()

    def with_group(self, name: str, of: GroupMemory) -> Change:
        return replace(self, memory=GrowthMemory({**self.memory.groups, name: of}))

    def action(self, cluster: RayCluster, before: GrowthMemory | None) -> tuple[SetGroups, ...]:
        if not self.groups and (
            self.memory == before or (before is None and not self.memory.groups)
        ):
            return ()
        meta = cluster.meta
        at = Target(meta.namespace, meta.name, meta.uid, meta.resource_version)
        return (SetGroups(at, self.groups, self.memory, had_notes=bool(meta.annotations)),)


def clamp(
    change: Change, t: GroupTally, why: tuple[str, str], *, at_s: float, pause_s: float
) -> Change:
    """Lower the group's limit to what it has. why: reason and sentence."""
    group = t.group
    before = Limits(group.max_replicas, group.min_replicas)
    lowered = Limits(
        min(group.max_replicas, max(t.floor_replicas, group.min_replicas)), before.least
    )
    known = change.memory.group(group.name)
    found = replace(
        known,
        failures=known.failures + 1,
        clamp=Clamp(before, lowered, at_s, at_s + pause_s, *why),
    )
    done = change.with_group(group.name, found)
    if lowered == before:
        return done
    return replace(done, groups=(*done.groups, _limits(t.index, group.name, before, lowered)))


def _limits(index: int, name: str, now: Limits, wanted: Limits) -> GroupChange:
    return GroupChange(
        index,
        name,
        max_replicas=wanted.most if wanted.most != now.most else None,
        min_replicas=wanted.least if wanted.least != now.least else None,
    )


def give_back(change: Change, cluster: RayCluster, groups: Iterable[str]) -> Change:
    """Give the limits of these groups back; one that somebody has changed since stays as it is."""
    for index, group in enumerate(cluster.groups):
        known = change.memory.group(group.name)
        if group.name not in groups or known.clamp is None:
            continue
        held = known.clamp
        wanted = Limits(
            held.before.most if group.max_replicas == held.lowered.most else group.max_replicas,
            held.before.least if group.min_replicas == held.lowered.least else group.min_replicas,
        )
        now = Limits(group.max_replicas, group.min_replicas)
        change = change.with_group(group.name, replace(known, clamp=None))
        if wanted != now:
            back = _limits(index, group.name, now, wanted)
            if wanted.least > group.replicas:
                # Kueue counts `replicas`, KubeRay creates `minReplicas`: both or neither.
                back = replace(back, replicas=wanted.least)
            change = replace(change, groups=(*change.groups, back))
    # A group that was taken out of the spec has nothing to be given back to.
    there = {group.name for group in cluster.groups}
    kept = {name: of for name, of in change.memory.groups.items() if name in there}
    return replace(change, memory=GrowthMemory(kept))


def withdraw(change: Change, t: GroupTally) -> Change:
    """Do what the Ray autoscaler does when it withdraws: name the waiting pods, lower the count."""
    group = t.group
    replicas = max(t.floor_replicas, group.min_replicas)
    if replicas >= group.replicas:
        return change
    surplus = _whole_replicas(t, (group.replicas - replicas) * group.num_of_hosts)
    return replace(
        change,
        groups=(
            *change.groups,
            GroupChange(
                t.index,
                group.name,
                replicas=replicas,
                workers_to_delete=tuple(sorted({*group.workers_to_delete, *surplus})),
            ),
        ),
    )


def _whole_replicas(t: GroupTally, pods: int) -> list[str]:
    """Names of waiting pods, `pods` at most, newest replicas first. Naming one pod of a replica
    deletes all of it, so a replica of which something runs is left out.
    """
    waiting: dict[str, list[Pod]] = {}
    for pod in t.gated:
        waiting.setdefault(_replica_of(pod), []).append(pod)
    running = {_replica_of(pod) for pod in t.ungated}
    found: list[str] = []
    for replica, members in reversed(waiting.items()):
        if replica in running:
            continue
        pods -= len(members)
        if pods < 0:
            break
        found.append(members[0].meta.name)
    return found


def _replica_of(pod: Pod) -> str:
    """KubeRay names the replica only where it keeps hosts together; else each pod is alone."""
    return pod.meta.labels.get(names.RAY_REPLICA, pod.meta.name)


def started(change: Change, tallies: Iterable[GroupTally]) -> Change:
    """Note that all that is admitted has started; a group that grew has no refusals behind it."""
    for t in tallies:
        known = change.memory.group(t.group.name)
        if known.admitted != t.wanted:
            failures = 0 if t.wanted > known.admitted else known.failures
            change = change.with_group(
                t.group.name, replace(known, admitted=t.wanted, failures=failures)
            )
    return change
