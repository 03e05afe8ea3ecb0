"""batch/v1 Job: how many pods, is it suspended, has it ended.

Source: kubernetes/api, batch/v1/types.go, v0.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Conditions, find, is_true, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta, time_at
from taugrid_ray.kinds.resource import Obj

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
INDEXED = "Indexed"
JOB_CONTROLLER = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class Job:
    meta: ObjectMeta
    suspend: bool
    parallelism: int
    """1 where it is not written, as the API server fills in."""
    completions: int | None
    completion_mode: str
    managed_by: str
    active: int
    ready: int
    succeeded: int
    failed: int
    conditions: Conditions
    started_at_s: float | None
    ended_at_s: float | None

    @property
    def pods_at_once(self) -> int:
        """How many pods run side by side at the start."""
        return pods_at_once(self.parallelism, self.completions)

    @property
    def is_suspended(self) -> bool:
        return self.suspend

    @property
    def is_finished(self) -> bool:
        return is_true(self.conditions, COMPLETE) or is_true(self.conditions, FAILED)

    @property
    def has_failed(self) -> bool:
        return is_true(self.conditions, FAILED)

    @property
    def entrypoint_started(self) -> bool:
        """Has a container of a pod been ready, or ended? Pods that only wait do not count."""
        return self.ready > 0 or self.succeeded > 0 or self.failed > 0

    @property
    def reason(self) -> str:
        """Why it ended, in the Job controller's word; "" while it has not."""
        found = find(self.conditions, FAILED if self.has_failed else COMPLETE)
        return found.reason if found is not None and self.is_finished else ""

    @property
    def message(self) -> str:
        found = find(self.conditions, FAILED if self.has_failed else COMPLETE)
        return found.message if found is not None and self.is_finished else ""


def pods_at_once(parallelism: int | None, completions: int | None) -> int:
    """A work queue (no completions) runs `parallelism` pods; others never more than are missing."""
    at_once = 1 if parallelism is None else parallelism
    return at_once if completions is None else min(at_once, completions)


def parse_job(obj: Obj) -> Job:
    spec, status = fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    parallelism = fields.integer(spec, "parallelism")
    return Job(
        meta=parse_meta(obj),
        suspend=fields.is_true(spec, "suspend"),
        parallelism=1 if parallelism is None else parallelism,
        completions=fields.integer(spec, "completions"),
        completion_mode=fields.text(spec, "completionMode") or "NonIndexed",
        managed_by=fields.text(spec, "managedBy"),
        active=fields.integer(status, "active") or 0,
        ready=fields.integer(status, "ready") or 0,
        succeeded=fields.integer(status, "succeeded") or 0,
        failed=fields.integer(status, "failed") or 0,
        conditions=parse_conditions(obj),
        started_at_s=time_at(status, "startTime"),
        ended_at_s=time_at(status, "completionTime"),
    )
