"""Where a job's output is, and how it is read to its end.

A Job prints in its pods; a RayJob's program is tailed by the submitter's pod (K8sJobMode) or a
container beside the head (SidecarMode), otherwise the head's own log is the nearest there is.

A followed stream that ends says nothing about the job: the connection may have been cut. So lines
are asked for with their times, and after a cut the reading goes on behind the last line shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from taugrid_ray.errors import (
    ApiError,
    NotFound,
    TaugridError,
    Unreachable,
    UsageError,
    WaitTimedOut,
)
from taugrid_ray.jobs.following import Followed, Follower
from taugrid_ray.jobs.model import JobState
from taugrid_ray.jobs.observed import JobRef, Observed, PodView
from taugrid_ray.jobs.reading import look_at
from taugrid_ray.jobs.state import state_of
from taugrid_ray.kinds.rayjob import RayJob, SubmissionMode
from taugrid_ray.kube.api import PodLogs

SUBMITTER_CONTAINER = "ray-job-submitter"
VERDICT_WAIT_S = 60.0
"""So long after the output's end a RayJob may take to say how it ended."""


@dataclass(frozen=True, slots=True)
class Source:
    pod: PodView
    container: str
    others: int = 0
    """How many more pods of the job print."""


@dataclass(frozen=True, slots=True)
class NotYet:
    why: str


@dataclass(frozen=True, slots=True)
class Wanted:
    pod: str = ""
    container: str = ""


def source_of(
    seen: Observed, wanted: Wanted = Wanted(), *, after: PodView | None = None
) -> Source | NotYet:
    """The container to read.

    after: only pods made later than this one, which was read to its end. Raises UsageError where
    the user names a pod or container that the job has not.
    """
    if seen.pods is None:
        return NotYet("its pods cannot be read")
    pods = [p for p in seen.pods if after is None or _is_later(p, after)]
    if wanted.pod:
        return _named(pods, wanted)
    kind = "pods"
    if isinstance(seen.job, RayJob):
        pods, kind = _ray_pods(seen.job, pods)
    printing = [p for p in pods if p.runs_or_ran]
    if not printing:
        return NotYet(f"its {kind} {'have' if kind == 'pods' else 'has'} not started")
    running = [p for p in printing if not p.has_ended] or printing
    if isinstance(seen.job, RayJob):
        chosen = max(running, key=lambda p: (p.created_at_s, p.name))
    else:
        chosen = min(running, key=lambda p: (p.created_at_s, p.name))
    return Source(chosen, _container(chosen, wanted, seen), len(printing) - 1)


def _is_later(pod: PodView, after: PodView) -> bool:
    """Made to replace it: pods of the same start bear the same second."""
    return pod.created_at_s > after.created_at_s


def _named(pods: list[PodView], wanted: Wanted) -> Source | NotYet:
    pod = next((p for p in pods if p.name == wanted.pod), None)
    if pod is None:
        known = ", ".join(p.name for p in pods[:10]) or "none"
        raise UsageError(f"no pod {wanted.pod!r} of this job; its pods: {known}")
    if not pod.runs_or_ran:
        return NotYet(f'pod "{pod.name}" has not started')
    return Source(pod, _container(pod, wanted, None))


def _ray_pods(job: RayJob, pods: list[PodView]) -> tuple[list[PodView], str]:
    heads = [p for p in pods if p.ray_type == "head"]
    if job.submission_mode != SubmissionMode.K8S_JOB.value:
        return heads, "head pod"
    submitters = [p for p in pods if not p.ray_type]
    if not submitters and job.is_finished:
        return heads, "head pod"
    return submitters, "submitter pod"


def _container(pod: PodView, wanted: Wanted, seen: Observed | None) -> str:
    if wanted.container:
        if pod.declared and wanted.container not in pod.declared:
            known = ", ".join(pod.declared)
            raise UsageError(
                f"no container {wanted.container!r} in pod {pod.name}; it has: {known}"
            )
        return wanted.container
    job = seen.job if seen is not None else None
    sidecar = isinstance(job, RayJob) and job.submission_mode == SubmissionMode.SIDECAR.value
    if sidecar and SUBMITTER_CONTAINER in pod.declared:
        return SUBMITTER_CONTAINER
    return pod.declared[0] if pod.declared else ""


# Lines with their times

_STAMPED = re.compile(rb"(\d{4}-\d\d-\d\dT\S+) ?(.*)", re.DOTALL)


@dataclass
class Lines:
    """Takes the pieces of a stream with times and gives the lines not seen before, without them.

    Lines of one write may bear one time, so the last time is kept with how many lines bore it.
    """

    last: bytes = b""
    bore_last: int = 0
    _rest: bytes = b""
    _passed: int = field(default=0)

    def begin(self) -> None:
        """A new stream of the same container, from its start or from about the last line."""
        self._rest, self._passed = b"", 0

    def take(self, piece: bytes) -> Iterator[bytes]:
        *whole, self._rest = (self._rest + piece).split(b"\n")
        for line in whole:
            yield from self._new(line + b"\n")

    def end(self) -> Iterator[bytes]:
        """A stream that ended in order: what comes without a line break was all."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._new(rest)

    def _new(self, line: bytes) -> Iterator[bytes]:
        found = _STAMPED.fullmatch(line)
        if found is None:
            yield line
            return
        at, text = found.groups()
        if at < self.last:
            return
        if at == self.last:
            self._passed += 1
            if self._passed <= self.bore_last:
                return
            self.bore_last += 1
        else:
            self.last, self.bore_last, self._passed = at, 1, 1
        yield text


@dataclass(frozen=True, slots=True)
class LogReader:
    """emit: gets whole lines, line break included. on_source: told when another pod is read."""

    follower: Follower
    logs: PodLogs
    emit: Callable[[bytes], None]
    on_source: Callable[[Source], None]

    def follow(self, ref: JobRef, wanted: Wanted, *, tail_lines: int | None) -> JobState:
        """Read to the end, wait for what has not started, go on with a pod that replaces a failed
        one. Returns the job's last state."""
        after: PodView | None = None
        while True:
            found = self._next(ref, wanted, after)
            source = source_of(found.seen, wanted, after=after)
            if isinstance(source, NotYet):
                return found.state
            self.on_source(source)
            ended = self._read_to_end(ref, source, tail_lines)
            if ended is None or ended.phase != "Failed":
                return self._verdict(ref, found)
            after = ended

    def _next(self, ref: JobRef, wanted: Wanted, after: PodView | None) -> Followed:
        def is_there(seen: Observed, state: JobState) -> bool:
            return state.is_final or isinstance(source_of(seen, wanted, after=after), Source)

        return self.follower.follow(ref, is_there, full=True)

    def _read_to_end(self, ref: JobRef, source: Source, tail_lines: int | None) -> PodView | None:
        """The pod as it ended; None where it is gone."""
        lines, tail = Lines(), tail_lines
        while True:
            clean = self._stream(ref, source, lines, tail)
            tail = None if lines.last else tail
            seen = look_at(self.follower.api, ref).seen
            pod = next((p for p in seen.pods or () if p.uid == source.pod.uid), None)
            if pod is None and seen.pods is not None:
                return None
            if clean and pod is not None and _is_over(pod, source.container):
                return pod
            self._pause(ref)

    def _stream(self, ref: JobRef, source: Source, lines: Lines, tail: int | None) -> bool:
        """True where the stream ended in order."""
        lines.begin()
        try:
            pieces: Iterable[bytes] = self.logs.logs(
                source.pod.name,
                ref.namespace,
                container=source.container,
                follow=True,
                tail_lines=tail,
                timestamps=True,
            )
            for piece in pieces:
                for line in lines.take(piece):
                    self.emit(line)
        except NotFound:
            return True
        except (ApiError, Unreachable) as error:
            _raise_unless_passing(error)
            self.follower.on_trouble(error.message)
            return False
        for line in lines.end():
            self.emit(line)
        return True

    def _pause(self, ref: JobRef) -> None:
        look = look_at(self.follower.api, ref, full=False)
        self.follower.pause(self.follower.api, look, ref.kind, 1.0)

    def _verdict(self, ref: JobRef, found: Followed) -> JobState:
        """A RayJob says some seconds later how its program ended; a Job has other pods."""
        if not isinstance(found.seen.job, RayJob):
            return state_of(look_at(self.follower.api, ref).seen, self.follower.clock.now_s())
        try:
            done = self.follower.follow(ref, lambda _, s: s.is_final, timeout_s=VERDICT_WAIT_S)
        except WaitTimedOut:
            return found.state
        return done.state


def _raise_unless_passing(error: TaugridError) -> None:
    """400 is the kubelet's word for a container that is between two starts."""
    if isinstance(error, ApiError) and not error.retryable and error.status != 400:
        raise error


def _is_over(pod: PodView, container: str) -> bool:
    """A container that failed in a pod that goes on may be started again."""
    if pod.has_ended:
        return True
    mine = next((c for c in pod.containers if c.name == container), None)
    if mine is None or mine.running:
        return False
    return pod.terminating or (mine.exit_code == 0 and not mine.waiting)
