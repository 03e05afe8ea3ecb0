"""`maxReplicas` as the brake: lower it where there is no capacity, remember it, give it back.

Lowering it is what makes the Ray autoscaler withdraw the pods that wait, and turn to another group
that can serve the demand. Every function answers the changes of the groups and the memory that
belongs in the same patch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controllers.actions import SetGroups, Target
from controllers.growth.tally import GroupTally
from taugrid_ray import names
from taugrid_ray.growth_limits import Change, GroupChange, changed_limits
from taugrid_ray.growth_memory import Clamp, GrowthMemory, Limits
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.raycluster import RayCluster

GRACE_S = 30.0
"""How long the Ray autoscaler gets to withdraw by itself (it looks every 5 s)."""


def action(
    change: Change, cluster: RayCluster, before: GrowthMemory | None
) -> tuple[SetGroups, ...]:
    """Write it, where there is anything to write. before: what the cluster's annotation says."""
    if not change.groups and change.memory == (before or GrowthMemory()):
        return ()
    meta = cluster.meta
    at = Target(meta.namespace, meta.name, meta.uid, meta.resource_version)
    return (SetGroups(at, change.groups, change.memory, had_notes=bool(meta.annotations)),)


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
    return done.and_set(changed_limits(t.index, group.name, before, lowered))


def withdraw(change: Change, t: GroupTally) -> Change:
    """Do what the Ray autoscaler does when it withdraws: name the waiting pods, lower the count."""
    group = t.group
    replicas = max(t.floor_replicas, group.min_replicas)
    if replicas >= group.replicas:
        return change
    surplus = _whole_replicas(t, (group.replicas - replicas) * group.num_of_hosts)
    return change.and_set(
        GroupChange(
            t.index,
            group.name,
            replicas=replicas,
            workers_to_delete=tuple(sorted({*group.workers_to_delete, *surplus})),
        )
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
