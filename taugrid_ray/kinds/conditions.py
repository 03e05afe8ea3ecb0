"""Conditions lists as other controllers write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import parse_time


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of a `status.conditions` list, as its writer left it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    changed_at: str = ""
    """lastTransitionTime as written; also the identity of "this time it became true"."""

    @property
    def is_true(self) -> bool:
        return self.status == "True"

    @property
    def changed_at_s(self) -> float:
        """Seconds since the epoch; 0.0 where the writer left it out."""
        try:
            return parse_time(self.changed_at)
        except ValueError:
            return 0.0


Conditions = tuple[Condition, ...]


def parse_conditions(obj: Any) -> Conditions:
    """`status.conditions` of any object; entries that are no conditions are left out."""
    return tuple(
        Condition(
            type=fields.text(entry, "type"),
            status=fields.text(entry, "status"),
            reason=fields.text(entry, "reason"),
            message=fields.text(entry, "message"),
            changed_at=fields.text(entry, "lastTransitionTime"),
        )
        for entry in fields.objects(obj, "status", "conditions")
    )


def find(conditions: Conditions, type_: str) -> Condition | None:
    return next((c for c in conditions if c.type == type_), None)


def is_true(conditions: Conditions, type_: str) -> bool:
    found = find(conditions, type_)
    return found is not None and found.is_true
