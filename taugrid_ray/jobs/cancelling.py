"""Cancel a job: delete it and wait until nothing of it holds quota or nodes.

Deleting the owner is what ends a job on all paths: a suspended RayJob that waits for a submission
would keep its cluster. Kueue lets go of the Workload once the job is gone, and pods end in their
own time; only then is it over. Repeating it is harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from taugrid_ray.errors import ApiError, Conflict, NotFound, Unreachable, WaitTimedOut
from taugrid_ray.jobs.observed import JobRef
from taugrid_ray.jobs.reading import remains_of
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock

PAUSE_S = 1.0
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Canceller:
    """on_left: gets what still exists, in words, after each look. on_trouble: a server that is
    away."""

    api: KubeApi
    clock: Clock
    sleep: Callable[[float], None]
    on_left: Callable[[tuple[str, ...]], None]
    on_trouble: Callable[[str], None]

    def cancel(self, ref: JobRef, *, timeout_s: float | None) -> None:
        """timeout_s: None deletes and does not wait. Raises WaitTimedOut with what is left."""
        job = remains_of(self.api, ref, None).job
        # Somebody else may have been quicker, and one that was made anew is not ours to delete.
        with suppress(NotFound, Conflict):
            self.api.delete(ref.kind, ref.name, ref.namespace, uid=ref.uid)
        if timeout_s is None:
            return
        started_s = self.clock.monotonic_s()
        left: tuple[str, ...] = (ref.shown,)
        while True:
            try:
                remains = remains_of(self.api, ref, job)
                left, job = remains.left, remains.job
                self.on_left(left)
                if not left:
                    return
            except (ApiError, Unreachable) as error:
                if not error.retryable:
                    raise
                self.on_trouble(error.message)
            if self.clock.monotonic_s() - started_s >= timeout_s:
                raise WaitTimedOut(
                    f"{ref.shown} is being deleted, and after {timeout_s:g} s there still is "
                    f"{listed(left)}",
                    hint=f"wait on with: taugrid cancel {ref.target} -n {ref.namespace}",
                )
            self.sleep(PAUSE_S)


def listed(left: tuple[str, ...]) -> str:
    """`workload a, pod b and 3 more`."""
    more = len(left) - _NAMED
    named = ", ".join(left[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named
