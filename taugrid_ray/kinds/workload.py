"""Kueue's Workload: the queue's view of one job, or of one slice of an elastic job.

The list `status.admissionChecks` belongs to Kueue: it adds entries as Pending, drops them and
resets them at eviction; we only ever rewrite our own entry. Checks limited by `onFlavors` appear
only once quota is reserved.

Source: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/workload_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Condition, Conditions, find, is_true, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, OwnerRef, parse_meta
from taugrid_ray.kinds.resource import Obj

QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
FINISHED = "Finished"
PODS_READY = "PodsReady"

SLICE_REPLACED = "WorkloadSliceReplaced"
"""Reason of a Finished that is no end: a larger slice of the same job took its place."""


class CheckState(str, Enum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


_STATES = frozenset(state.value for state in CheckState)


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of `status.admissionChecks`; `index` is its place in the list."""

    index: int
    name: str
    state: CheckState
    message: str
    changed_at: str
    updates: tuple[Obj, ...]
    """podSetUpdates as written; Kueue freezes them while the check stays Ready."""


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str
    count: int
    template: Obj | None
    """The pod template as Kueue stored it; None where nobody will need it (see parse_workload)."""
    is_gated: bool
    """Does the template carry our gate? Such pods get their booking one by one."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What Kueue gave to one pod set. `count` can be lower than asked (partial admission)."""

    name: str
    count: int
    flavors: Mapping[str, str]
    """Resource name -> flavor name."""


@dataclass(frozen=True, slots=True)
class Workload:
    meta: ObjectMeta
    active: bool
    queue: str
    priority: int
    pod_sets: tuple[PodSet, ...]
    cluster_queue: str
    """Empty without an admission."""
    assignments: tuple[Assignment, ...]
    checks: tuple[Check, ...]
    conditions: Conditions

    @property
    def uid(self) -> str:
        return self.meta.uid

    @property
    def job(self) -> OwnerRef | None:
        """The Job, RayJob or RayCluster this Workload stands for."""
        return self.meta.controller_owner or (self.meta.owners[0] if self.meta.owners else None)

    def is_true(self, condition: str) -> bool:
        return is_true(self.conditions, condition)

    @property
    def reservation(self) -> Condition | None:
        """The quota reservation in force; its `changed_at` tells one from the next."""
        found = find(self.conditions, QUOTA_RESERVED)
        return found if found is not None and found.is_true else None

    @property
    def is_elastic(self) -> bool:
        return self.meta.annotations.get(names.ELASTIC) == "true"

    def check(self, name: str) -> Check | None:
        return next((c for c in self.checks if c.name == name), None)

    def assignment(self, pod_set: str) -> Assignment | None:
        return next((a for a in self.assignments if a.name == pod_set), None)


def parse_workload(obj: Obj) -> Workload:
    """Read a Workload. Pod templates are by far its largest part: they are kept only while a check
    is listed and the Workload is not finished, since nobody builds a request from any other.
    """
    conditions = parse_conditions(obj)
    checks = tuple(
        _check(index, raw)
        for index, raw in enumerate(fields.objects(obj, "status", "admissionChecks"))
    )
    keep = bool(checks) and not is_true(conditions, FINISHED)
    return Workload(
        meta=parse_meta(obj),
        active=fields.mapping(obj, "spec").get("active") is not False,
        queue=fields.text(obj, "spec", "queueName"),
        priority=fields.integer(obj, "spec", "priority") or 0,
        pod_sets=tuple(_pod_set(raw, keep) for raw in fields.objects(obj, "spec", "podSets")),
        cluster_queue=fields.text(obj, "status", "admission", "clusterQueue"),
        assignments=tuple(
            Assignment(
                name=fields.text(raw, "name"),
                count=fields.integer(raw, "count") or 0,
                flavors=fields.string_map(raw, "flavors"),
            )
            for raw in fields.objects(obj, "status", "admission", "podSetAssignments")
        ),
        checks=checks,
        conditions=conditions,
    )


def _check(index: int, raw: Mapping[str, Any]) -> Check:
    state = fields.text(raw, "state")
    return Check(
        index=index,
        name=fields.text(raw, "name"),
        state=CheckState(state) if state in _STATES else CheckState.PENDING,
        message=fields.text(raw, "message"),
        changed_at=fields.text(raw, "lastTransitionTime"),
        updates=fields.objects(raw, "podSetUpdates"),
    )


def _pod_set(raw: Obj, keep_template: bool) -> PodSet:
    count = fields.integer(raw, "count")
    template = fields.mapping(raw, "template")
    gates = {fields.text(g, "name") for g in fields.objects(template, "spec", "schedulingGates")}
    return PodSet(
        name=fields.text(raw, "name") or "main",
        count=1 if count is None else count,
        template=template if keep_template else None,
        is_gated=names.GATE in gates,
    )
