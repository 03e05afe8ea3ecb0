"""Which of a job's Workloads speaks for it. An elastic job has one per slice, old ones finished."""

from __future__ import annotations

from collections.abc import Sequence

from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.workload import Workload


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
