"""The controller without its threads: the very same loop, reflectors and writes, stepped."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from controllers.actions import Announce
from controllers.loop import Done, Loop, Work
from controllers.perform import Written, perform
from controllers.world import SOURCES
from taugrid_ray.errors import Conflict, ServerFault, TaugridError, Throttled, Unreachable
from taugrid_ray.kinds.resource import Resource
from taugrid_ray.kube.reflector import Reflector
from tests.fake_kube import FakeKube, ManualClock

WRITES = ("create", "patch", "replace", "delete")
TURNS_MAX = 200
"""More turns than this at one moment are a loop that never rests."""


class Killed(BaseException):
    """kill -9: nothing may catch it."""


class FlakyApi:
    """The pretend API server as one process reaches it: calls fail, answers get lost, the process
    dies between any two writes. chance: of trouble, per write."""

    def __init__(self, kube: FakeKube, rng: random.Random, chance: float) -> None:
        self._kube = kube
        self._rng = rng
        self.chance = chance
        self.dies_in: int | None = None
        """Writes until the process is killed, counted in halves: before and after the deed."""

    def newest(self, kind: Resource) -> int:
        """A watch that has heard this version has nothing to say."""
        return self._kube.history.newest(kind)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kube, name)
        if name not in WRITES:
            return call

        def write(*args: Any, **more: Any) -> Any:
            self._moment()
            if self._rng.random() < self.chance:
                raise self._rng.choice(
                    (
                        Conflict("the object has been modified"),
                        ServerFault("etcd is slow"),
                        Throttled("too many requests", retry_after_s=1.0),
                        Unreachable("connection refused"),
                    )
                )
            answer = call(*args, **more)
            self._moment()
            if self._rng.random() < self.chance:
                raise Unreachable("cut off while reading the answer")
            return answer

        return write

    def _moment(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise Killed


class Controller:
    """One process, from its start on. meanwhile: what the rest of the world does between two of
    its writes."""

    def __init__(
        self,
        api: FlakyApi,
        clock: ManualClock,
        rng: random.Random,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.api = api
        self.bugs = 0
        self._clock = clock
        self._meanwhile = meanwhile
        self._news: list[Announce] = []
        self.loop = Loop(clock=clock, announce=self._news.append, on_bug=self._bug)
        self._waits: dict[int, float] = {}
        self._heard: dict[int, int] = {}
        self._reflectors = [
            Reflector(
                api,  # type: ignore[arg-type]
                source.kind,
                source.parse,
                self.loop.take_change,
                clock=clock,
                labels=source.labels,
                optional=source.optional,
                rand=rng.random,
            )
            for source in SOURCES
        ]
        self.loop.lead()

    def step(self) -> None:
        """Hear all there is to hear, and do all that is due now."""
        for _ in range(TURNS_MAX):
            self._listen()
            work = self.loop.turn(room=64)
            for piece in work:
                self.loop.take_done(self._perform(piece))
            self._tell()
            if not work:
                return
        raise AssertionError(f"the controller does not come to rest; last: {work}")

    def next_due_s(self) -> float:
        """Seconds until it wants to do something by itself."""
        due_s = self.loop.next_due_s()
        return 1.0 if due_s is None else max(0.0, due_s - self._clock.monotonic_s())

    def _bug(self) -> None:
        self.bugs += 1

    def _listen(self) -> None:
        now_s = self._clock.monotonic_s()
        for place, reflector in enumerate(self._reflectors):
            newest = self.api.newest(reflector.kind)
            if self._waits.get(place, 0.0) > now_s or self._heard.get(place) == newest:
                continue
            while True:
                step = reflector.step()
                if step.wait_s:
                    self._waits[place] = now_s + step.wait_s
                if step.quiet:
                    self._heard[place] = newest
                if step.wait_s or step.quiet:
                    break

    def _perform(self, work: Work) -> Done:
        written: list[Written] = []
        for action in work.actions:
            self._meanwhile()
            try:
                result = perform(action, self.api, identity="sim")  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - the loop decides what it means
                return Done(work.key, tuple(written), action, error)
            written += result
        return Done(work.key, tuple(written))

    def _tell(self) -> None:
        news, self._news[:] = list(self._news), []
        for item in news:
            try:
                perform(item, self.api, identity="sim")  # type: ignore[arg-type]
            except TaugridError:
                continue
