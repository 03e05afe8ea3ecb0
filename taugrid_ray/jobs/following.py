"""Wait for a job: look, tell what changed, sleep until something may have changed, look again.

The sleep is a watch on the object that moves next (the Workload until Kueue lets the job start,
then the job), at most some seconds long, since pods and events are not watched. A server that is
away for a while does not end a wait: the job does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from taugrid_ray import names
from taugrid_ray.errors import ApiError, JobEnded, TaugridError, Unreachable, WaitTimedOut
from taugrid_ray.jobs.model import JobState, Outcome
from taugrid_ray.jobs.observed import JobRef, Observed, parse_any_job
from taugrid_ray.jobs.reading import Look, look_at
from taugrid_ray.jobs.state import state_of
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.resource import WORKLOAD, Obj, Resource
from taugrid_ray.kube.api import Change, KubeApi
from taugrid_ray.kube.clock import Clock
from taugrid_ray.reasons import Stage

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0
LEAST_PAUSE_S = 0.25
"""Kueue writes a Workload several times in a row: one look takes them all in."""
AWAY_MAX_S = 300.0
"""So long may the API server be away before a wait gives up."""


class Goal(str, Enum):
    RUNNING = "running"
    FINISHED = "finished"


def is_reached(goal: Goal, state: JobState) -> bool:
    return state.is_final or (goal is Goal.RUNNING and state.stage is Stage.RUNNING)


def error_of(state: JobState) -> JobEnded | None:
    """The error for a job that ended otherwise than well."""
    if state.outcome is None or state.outcome is Outcome.SUCCEEDED:
        return None
    said = f"{state.ref.shown} ended: {state.outcome.value}: {state.sentence}"
    return JobEnded(said, hint=state.hint)


class Pause(Protocol):
    """Sleep until something may have changed, at most `limit_s`. Returns the job as a watch last
    showed it, or None."""

    def __call__(self, api: KubeApi, look: Look, kind: Resource, limit_s: float) -> Obj | None: ...


@dataclass(frozen=True, slots=True)
class WatchPause:
    """Sleeps in a watch; where that may not be opened, sleeps."""

    clock: Clock
    sleep: Callable[[float], None]

    def __call__(self, api: KubeApi, look: Look, kind: Resource, limit_s: float) -> Obj | None:
        until_s = self.clock.monotonic_s() + limit_s
        shown = self._shown(api, look, kind, limit_s) if limit_s >= 1.0 else None
        left_s = until_s - self.clock.monotonic_s()
        self.sleep(max(0.0, min(left_s, LEAST_PAUSE_S) if shown is not None else left_s))
        return shown if kind == look.seen.ref.kind else None

    def _shown(self, api: KubeApi, look: Look, kind: Resource, limit_s: float) -> Obj | None:
        ref, version = look.seen.ref, look.versions.get(kind, "")
        if not version:
            return None
        own = kind == ref.kind
        try:
            events = api.watch(
                kind,
                ref.namespace,
                resource_version=version,
                labels="" if own else f"{names.JOB_UID}={ref.uid}",
                fields=f"metadata.name={ref.name}" if own else "",
                timeout_s=limit_s,
            )
            for event in events:
                if event.change is not Change.BOOKMARK:
                    return event.object
        except (ApiError, Unreachable):
            return None
        return None


@dataclass(frozen=True, slots=True)
class Followed:
    seen: Observed
    state: JobState


@dataclass(frozen=True, slots=True)
class Follower:
    """What a wait needs. `on_state` gets every state, changed or not; `on_trouble` one sentence
    when the API server does not answer."""

    api: KubeApi
    clock: Clock
    pause: Pause
    on_state: Callable[[JobState], None]
    on_trouble: Callable[[str], None]

    def until(self, ref: JobRef, goal: Goal, *, timeout_s: float | None = None) -> Followed:
        return self.follow(ref, lambda _, state: is_reached(goal, state), timeout_s=timeout_s)

    def follow(
        self,
        ref: JobRef,
        reached: Callable[[Observed, JobState], bool],
        *,
        timeout_s: float | None = None,
        full: bool = False,
    ) -> Followed:
        """The first sight of the job that is `reached`.

        timeout_s: None waits for ever, 0 looks once. full: read every part at each look.

        Raises WaitTimedOut with the last state in its message; Unreachable or ApiError where the
        server refuses, or stays away for AWAY_MAX_S.
        """
        started_s = self.clock.monotonic_s()
        last: JobState | None = None
        shown: Obj | None = None
        pause_s, away_since_s = FIRST_PAUSE_S, None
        while True:
            look = None
            try:
                look = _with_shown(look_at(self.api, ref, full=full), shown)
                ref, away_since_s = look.seen.ref, None
            except (ApiError, Unreachable) as error:
                now_s = self.clock.monotonic_s()
                away_since_s = now_s if away_since_s is None else away_since_s
                if not error.retryable or now_s - away_since_s > AWAY_MAX_S:
                    raise _with_last(error, last) from error
                self.on_trouble(error.message)
            if look is not None:
                state = state_of(look.seen, self.clock.now_s())
                self.on_state(state)
                if reached(look.seen, state):
                    return Followed(look.seen, state)
                changed = last is None or _told(state) != _told(last)
                pause_s = FIRST_PAUSE_S if changed else min(LONGEST_PAUSE_S, pause_s * 1.5)
                last = state
            left_s = _left_s(timeout_s, self.clock.monotonic_s() - started_s)
            if left_s is not None and left_s <= 0:
                raise _timed_out(ref, last, timeout_s or 0.0)
            limit_s = pause_s if left_s is None else min(pause_s, left_s)
            blind = look if look is not None else Look(Observed(ref, None))
            shown = self.pause(self.api, blind, _moves_next(ref, last), limit_s) or shown


def _told(state: JobState) -> tuple[str, ...]:
    return (state.stage.value, state.reason, state.sentence)


def _moves_next(ref: JobRef, state: JobState | None) -> Resource:
    return ref.kind if state is not None and state.is_started else WORKLOAD


def _left_s(timeout_s: float | None, spent_s: float) -> float | None:
    return None if timeout_s is None else timeout_s - spent_s


def _with_shown(look: Look, shown: Obj | None) -> Look:
    """A job that is gone by now (ttlSecondsAfterFinished: 0) may have ended well before: the watch
    has shown how."""
    if look.seen.job is not None or shown is None:
        return look
    ref = look.seen.ref
    job: Job | RayJob = parse_any_job(ref.kind, shown)
    if not job.is_finished or parse_meta(shown).uid != ref.uid:
        return look
    return replace(look, seen=replace(look.seen, job=job))


def _with_last(error: TaugridError, last: JobState | None) -> TaugridError:
    if last is not None:
        error.hint = f"last seen {last.stage.value}: {last.sentence}"
    return error


def _timed_out(ref: JobRef, last: JobState | None, timeout_s: float) -> WaitTimedOut:
    seen = f": {last.stage.value}: {last.sentence}" if last is not None else ""
    return WaitTimedOut(
        f"{ref.shown} goes on, the wait of {timeout_s:g} s is over{seen}",
        hint=f"taugrid wait {ref.target} -n {ref.namespace}",
    )
