"""Pod: which booking it belongs to, whether it is bound, and whether it runs."""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Conditions, find, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.resource import Obj

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


@dataclass(frozen=True, slots=True)
class Pod:
    meta: ObjectMeta
    node: str
    """Empty until the scheduler has bound it."""
    phase: str
    gates: tuple[str, ...]
    conditions: Conditions

    @property
    def booking(self) -> str:
        """The ProvisioningRequest this pod consumes; "" for none."""
        return self.meta.annotations.get(names.CONSUME, "")

    @property
    def has_ended(self) -> bool:
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def is_live(self) -> bool:
        return not self.has_ended and not self.meta.is_terminating

    @property
    def is_ready(self) -> bool:
        found = find(self.conditions, "Ready")
        return found is not None and found.is_true


def parse_pod(obj: Obj) -> Pod:
    return Pod(
        meta=parse_meta(obj),
        node=fields.text(obj, "spec", "nodeName"),
        phase=fields.text(obj, "status", "phase") or PENDING,
        gates=tuple(fields.text(g, "name") for g in fields.objects(obj, "spec", "schedulingGates")),
        conditions=tuple(c for c in parse_conditions(obj) if c.type in ("Ready", "PodScheduled")),
    )
