"""What we remember of a Ray cluster's growth: one annotation on its RayCluster.

Per worker group: how many pods were last admitted and started (so that a lost one is told from a
new wish), how often in a row its growth was refused, and the limits that we lowered, with the
values to give back. It is written in the same patch as the limits themselves, so no crash can lose
a value that must be given back. A new RayCluster has none: it is a new gang.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_time, parse_time
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.strict import INT32_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """`maxReplicas` and `minReplicas` of one worker group, in replicas."""

    most: int
    least: int


@dataclass(frozen=True, slots=True)
class Clamp:
    """Limits lowered by us because there was no capacity for more."""

    before: Limits
    """What to give back."""
    lowered: Limits
    """What we wrote; a field that says something else by now was changed by somebody, who wins."""
    at_s: float
    until_s: float
    """When to give it back."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    admitted: int = 0
    """Pods of the group when last all that was admitted had started."""
    failures: int = 0
    """Refused growths in a row."""
    clamp: Clamp | None = None


@dataclass(frozen=True, slots=True)
class GrowthMemory:
    groups: Mapping[str, GroupMemory] = field(default_factory=dict)
    """By group name."""

    def group(self, name: str) -> GroupMemory:
        return self.groups.get(name, GroupMemory())


def parse_growth_memory(text: str | None) -> GrowthMemory | None:
    """The annotation's text; None where there is none or a person has made it unreadable."""
    if not text:
        return None
    try:
        raw = json.loads(text)
        groups = fields.mapping(raw, "groups")
        return GrowthMemory({name: _group(fields.mapping(groups, name)) for name in groups})
    except (ValueError, TypeError, RecursionError):
        return None


def format_growth_memory(memory: GrowthMemory) -> str:
    """JSON with stable key order, so that the same memory is the same text."""
    groups = {name: _raw_group(memory.groups[name]) for name in sorted(memory.groups)}
    return json.dumps({"groups": groups})


def _group(raw: Mapping[str, object]) -> GroupMemory:
    clamp = fields.mapping(raw, "clamp")
    return GroupMemory(
        admitted=max(0, fields.integer(raw, "admitted") or 0),
        failures=max(0, fields.integer(raw, "failures") or 0),
        clamp=_clamp(clamp) if clamp else None,
    )


def _clamp(raw: Mapping[str, object]) -> Clamp:
    return Clamp(
        before=_limits(fields.mapping(raw, "before")),
        lowered=_limits(fields.mapping(raw, "lowered")),
        at_s=parse_time(fields.text(raw, "at")),
        until_s=parse_time(fields.text(raw, "until")),
        reason=fields.text(raw, "reason"),
        message=fields.text(raw, "message"),
    )


def _limits(raw: Mapping[str, object]) -> Limits:
    most = fields.integer(raw, "maxReplicas")
    return Limits(INT32_MAX if most is None else most, fields.integer(raw, "minReplicas") or 0)


def _raw_group(group: GroupMemory) -> Obj:
    raw: Obj = {"admitted": group.admitted}
    if group.failures:
        raw["failures"] = group.failures
    if group.clamp is not None:
        raw["clamp"] = {
            "before": _raw_limits(group.clamp.before),
            "lowered": _raw_limits(group.clamp.lowered),
            "at": format_time(group.clamp.at_s),
            "until": format_time(group.clamp.until_s),
            "reason": group.clamp.reason,
            "message": group.clamp.message,
        }
    return raw


def _raw_limits(limits: Limits) -> Obj:
    return {"maxReplicas": limits.most, "minReplicas": limits.least}
