"""Which of a job's Workloads speaks for it, and which for its growth.

An elastic job has one per slice; Kueue finishes the old one once the new one has quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_ray import names
from taugrid_ray.jobs.told import reason_of
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.reasons import Reason
from taugrid_ray.sentences import printable

_GROWTH = (Reason.GROWING, Reason.REQUEST_REFUSED, Reason.GANG_INVALID, Reason.POLICY_INVALID)


def current_workload(workloads: Sequence[Workload]) -> Workload | None:
    """The newest that is admitted; else the newest that is not finished; else the newest."""

    def rank(workload: Workload) -> tuple[bool, bool, bool, float, str]:
        live = not workload.is_true(wl.FINISHED)
        return (
            live and not workload.meta.is_terminating,
            live and workload.is_true(wl.ADMITTED),
            live,
            workload.meta.created_at_s or 0.0,
            workload.meta.name,
        )

    return max(workloads, key=rank, default=None)


def growing_slice(workloads: Sequence[Workload]) -> Workload | None:
    """The newest slice that is to take the place of another and is not admitted yet."""
    waiting = [
        w
        for w in workloads
        if names.SLICE_FOR in w.meta.annotations
        and w.active
        and not w.meta.is_terminating
        and not w.is_true(wl.FINISHED)
        and not w.is_true(wl.ADMITTED)
        and not w.is_true(wl.EVICTED)
    ]
    return max(waiting, key=lambda w: (w.meta.created_at_s or 0.0, w.meta.name), default=None)


def growth_of(workloads: Sequence[Workload]) -> str:
    """What a running job's wish for more workers waits for, as one sentence; "" for no wish."""
    found = growing_slice(workloads)
    if found is None:
        return ""
    if found.reservation is None:
        return "a larger slice waits for quota"
    said = next((c.message for c in found.checks if reason_of(c.message) in _GROWTH), "")
    return printable(said) or "a larger slice has quota and waits for its capacity"
