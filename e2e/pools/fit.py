"""Which pods fit on which nodes.

A small part of what the scheduler checks: resources (the number of pods among them), node
selector, required node affinity on labels, taints, cordons. Pod affinity, spread constraints,
volumes and host ports are not looked at. Equal pods are placed together, so that a gang costs
one look per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.pools.settings import Taint
from e2e.pools.state import NodeShape, PodShape, Requirement, Toleration

Group = tuple[PodShape, int]
"""So many equal pods."""


def admits(node: NodeShape, pod: PodShape) -> bool:
    """May the pod run there, resources aside?"""
    labels = node.labels
    if any(labels.get(key) != value for key, value in pod.node_selector):
        return False
    if pod.terms and not any(all(_holds(r, labels.get(r.key)) for r in t) for t in pod.terms):
        return False
    return all(
        any(_tolerates(toleration, taint) for toleration in pod.tolerations)
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    try:
        left, right = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


@dataclass(slots=True)
class Bin:
    """A node while it is being filled."""

    name: str
    shape: NodeShape
    free: dict[str, int]
    busy: bool = False
    """Somebody needs it: a pod or a booking. Daemon pods do not count."""

    def room(self, pod: PodShape) -> int:
        """How many such pods fit by resources."""
        return min(
            (max(self.free.get(name, 0), 0) // need for name, need in pod.requests if need > 0),
            default=0,
        )

    def take(self, pod: PodShape, count: int = 1, *, busy: bool = True) -> None:
        for name, need in pod.requests:
            self.free[name] = self.free.get(name, 0) - need * count
        self.busy = self.busy or busy


def empty_bin(name: str, shape: NodeShape) -> Bin:
    return Bin(name, shape, dict(shape.allocatable))


class Snapshot:
    """All nodes, real and upcoming, as they fill up during one loop."""

    def __init__(self, bins: Iterable[Bin]) -> None:
        self.bins = {each.name: each for each in bins}

    def fork(self) -> Snapshot:
        return Snapshot(
            Bin(each.name, each.shape, dict(each.free), each.busy) for each in self.bins.values()
        )

    def place(self, pod: PodShape, count: int = 1) -> int:
        """Put up to `count` such pods where they fit, node by node; says how many fitted."""
        left = count
        for each in self.bins.values():
            if not left:
                break
            fits = min(each.room(pod), left)
            if fits and admits(each.shape, pod):
                each.take(pod, fits)
                left -= fits
        return count - left

    def place_all(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        """Place all groups; returns what is left over of each."""
        left = [(pod, count - self.place(pod, count)) for pod, count in groups]
        return tuple(group for group in left if group[1])


@dataclass(frozen=True, slots=True)
class Filling:
    """What new nodes of one pool could do for some pods."""

    nodes: int
    placed: int
    left: int


def fill(groups: Sequence[Group], template: NodeShape, limit: int) -> Filling:
    """Pack pods on new, equal nodes, at most `limit` of them: large pods first, first fit."""
    bins: list[Bin] = []
    placed = left = 0
    for pod, count in sorted(groups, key=lambda group: _weight(group[0], template), reverse=True):
        fits = admits(template, pod) and empty_bin("", template).room(pod) > 0
        rest = count if fits else 0
        for each in bins if fits else ():
            taken = min(each.room(pod), rest)
            each.take(pod, taken)
            rest -= taken
        while rest and len(bins) < limit:
            fresh = empty_bin("", template)
            taken = min(fresh.room(pod), rest)
            fresh.take(pod, taken)
            rest -= taken
            bins.append(fresh)
        missed = rest if fits else count
        placed += count - missed
        left += missed
    return Filling(len(bins), placed, left)


def _weight(pod: PodShape, template: NodeShape) -> float:
    """Share of a node that the pod takes, summed over its resources."""
    return sum(
        need / template.allocatable[name]
        for name, need in pod.requests
        if template.allocatable.get(name)
    )
