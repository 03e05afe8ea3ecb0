"""Start a parked job again: its Workload active, our memory of failed attempts gone, in one patch.

Whoever asks for it starts afresh, with the first attempt. The controller would forget by itself on
seeing `active: true` beside a memory of parking; done in one patch, no moment shows both.
"""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray import names
from taugrid_ray.errors import Conflict, JobEnded, TaugridError
from taugrid_ray.jobs.model import JobState, Outcome
from taugrid_ray.jobs.observed import JobRef, Observed, Part
from taugrid_ray.jobs.reading import look_at
from taugrid_ray.jobs.slices import current_workload
from taugrid_ray.jobs.state import state_of
from taugrid_ray.kinds.resource import WORKLOAD, Obj
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.kube.api import KubeApi

TRIES = 5
"""Kueue and the controller write the same object; a write that came too late is decided again."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """state: from before the patch."""

    state: JobState
    changed: bool


def parked_workload(seen: Observed, state: JobState) -> Workload | None:
    """The Workload to make active; None where the job is not parked.

    Raises JobEnded for a job that has ended or was refused for good, TaugridError where nobody can
    tell.
    """
    ref = state.ref
    if state.outcome is Outcome.REFUSED:
        raise JobEnded(
            f"{ref.shown} was refused for good and cannot be resumed: {state.sentence}",
            hint=f"taugrid cancel {ref.target} -n {ref.namespace}, then run it again",
        )
    if state.is_final and state.outcome is not Outcome.GAVE_UP:
        raise JobEnded(
            f"{ref.shown} has ended and cannot be resumed: {state.sentence}",
            hint=f"taugrid cancel {ref.target} -n {ref.namespace}, then run it again",
        )
    if seen.workloads is None:
        why = seen.unavailable.get(Part.WORKLOADS, "")
        raise TaugridError(f"{ref.shown}: its Workload cannot be read: {why}")
    workload = current_workload(seen.workloads)
    return workload if workload is not None and not workload.active else None


def afresh(workload: Workload) -> Obj:
    """The merge patch; refused by the server if the Workload has changed meanwhile."""
    meta: Obj = {"uid": workload.uid, "resourceVersion": workload.meta.resource_version}
    if names.MEMORY in workload.meta.annotations:
        meta["annotations"] = {names.MEMORY: None}
    return {"metadata": meta, "spec": {"active": True}}


def resume(api: KubeApi, ref: JobRef, *, now_s: float) -> Resumed:
    for left in reversed(range(TRIES)):
        seen = look_at(api, ref).seen
        state = state_of(seen, now_s)
        workload = parked_workload(seen, state)
        if workload is None:
            return Resumed(state, changed=False)
        meta = workload.meta
        try:
            api.patch(WORKLOAD, meta.name, afresh(workload), meta.namespace)
        except Conflict:
            if not left:
                raise
            continue
        return Resumed(state, changed=True)
    raise AssertionError("the last try returns or raises")
