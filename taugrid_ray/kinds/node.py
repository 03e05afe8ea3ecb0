"""Node: what it offers, and whether it is Ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import find, parse_conditions
from taugrid_ray.kinds.resource import Obj


@dataclass(frozen=True, slots=True)
class Node:
    """Heartbeats change none of these, so a store that compares values stays quiet."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    is_ready: bool
    ready_since: str
    unschedulable: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(self.labels.get(key) == value for key, value in labels.items())


def parse_node(obj: Obj) -> Node:
    ready = find(parse_conditions(obj), "Ready")
    return Node(
        name=fields.text(obj, "metadata", "name"),
        labels=fields.string_map(obj, "metadata", "labels"),
        allocatable=fields.string_map(obj, "status", "allocatable"),
        is_ready=ready is not None and ready.is_true,
        ready_since=ready.changed_at if ready is not None else "",
        unschedulable=fields.is_true(obj, "spec", "unschedulable"),
    )
