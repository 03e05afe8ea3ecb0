"""Lowered limits of a Ray cluster's worker groups, and how they are given back.

Pure. The controller gives them back when a pause is over, `taugrid uninstall-check --restore` when
there is no controller any more: both write what `give_back` answers, as one patch that the API
server refuses where somebody else wrote first.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from taugrid_ray import names
from taugrid_ray.growth_memory import GroupMemory, GrowthMemory, Limits, format_growth_memory
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.resource import Obj


@dataclass(frozen=True, slots=True)
class GroupChange:
    """New numbers of one worker group, in replicas; None leaves a field as it is."""

    index: int
    name: str
    max_replicas: int | None = None
    min_replicas: int | None = None
    replicas: int | None = None
    workers_to_delete: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What to write on a RayCluster, in one patch."""

    memory: GrowthMemory
    groups: tuple[GroupChange, ...] = ()

    def with_group(self, name: str, of: GroupMemory) -> Change:
        return replace(self, memory=replace(self.memory, groups={**self.memory.groups, name: of}))

    def and_set(self, group: GroupChange) -> Change:
        return replace(self, groups=(*self.groups, group))

    def patch(self, *, version: str, had_notes: bool) -> list[Obj]:
        """As JSON patch. version: the resourceVersion it was decided on. had_notes: does the object
        have annotations at all?"""
        patch: list[Obj] = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        for group in self.groups:
            patch += _ops(group)
        if not had_notes:
            patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        note = f"/metadata/annotations/{pointer(names.GROWTH)}"
        patch.append({"op": "add", "path": note, "value": format_growth_memory(self.memory)})
        return patch


def _ops(group: GroupChange) -> list[Obj]:
    at = f"/spec/workerGroupSpecs/{group.index}"
    numbers = {
        "maxReplicas": group.max_replicas,
        "minReplicas": group.min_replicas,
        "replicas": group.replicas,
    }
    ops: list[Obj] = [{"op": "test", "path": f"{at}/groupName", "value": group.name}]
    ops += [
        {"op": "add", "path": f"{at}/{field}", "value": value}
        for field, value in numbers.items()
        if value is not None
    ]
    if group.workers_to_delete is not None:
        value = {"workersToDelete": list(group.workers_to_delete)}
        ops.append({"op": "add", "path": f"{at}/scaleStrategy", "value": value})
    return ops


def pointer(key: str) -> str:
    """A key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def gate_off(index: int) -> list[Obj]:
    """JSON patch that takes our gate off a pod; it stands at `index` of the pod's gates."""
    gate = f"/spec/schedulingGates/{index}"
    return [
        {"op": "test", "path": f"{gate}/name", "value": names.GATE},
        {"op": "remove", "path": gate},
    ]


def changed_limits(index: int, name: str, now: Limits, wanted: Limits) -> GroupChange:
    return GroupChange(
        index,
        name,
        max_replicas=wanted.most if wanted.most != now.most else None,
        min_replicas=wanted.least if wanted.least != now.least else None,
    )


def give_back(change: Change, cluster: RayCluster, groups: Container[str]) -> Change:
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
            back = changed_limits(index, group.name, now, wanted)
            if wanted.least > group.replicas:
                # Kueue counts `replicas`, KubeRay creates `minReplicas`: both or neither.
                back = replace(back, replicas=wanted.least)
            change = change.and_set(back)
    # A group that was taken out of the spec has nothing to be given back to.
    there = {group.name for group in cluster.groups}
    kept = {name: of for name, of in change.memory.groups.items() if name in there}
    return replace(change, memory=replace(change.memory, groups=kept))
