"""What a wait tells: on a terminal a live line, otherwise one line for each change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from taugrid_ray.cli.options import Tools
from taugrid_ray.cli.screen import ago, is_terminal, say
from taugrid_ray.jobs.following import Follower, WatchPause
from taugrid_ray.jobs.model import JobState
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.reasons import Stage

NUMBERS_EVERY_S = 10.0
"""A sentence of which only the numbers move is told no more often."""


_COUNTING = (Stage.STARTING_NODES, Stage.STARTING_PODS, Stage.RUNNING)


@dataclass
class Changes:
    """Which of many states are news. Pure but for what it remembers: the last one told."""

    told: JobState | None = None
    told_at_s: float = 0.0

    def is_news(self, state: JobState, now_s: float) -> bool:
        """True, and remembered, where anything is new; where pods are counted, a new number is
        news only some seconds after the last line."""
        last = self.told
        if last is not None:
            if _words(last) == _words(state):
                return False
            same = (last.stage, last.reason) == (state.stage, state.reason)
            if same and state.stage in _COUNTING and now_s - self.told_at_s < NUMBERS_EVERY_S:
                return False
        self.told, self.told_at_s = state, now_s
        return True


def _words(state: JobState) -> tuple[str, ...]:
    return (state.stage.value, state.reason, state.sentence, state.hint)


def line_of(state: JobState, waited_s: float) -> str:
    """`  12s  Provisioning  asked the autoscaler for 3 pods ...`, with what to do where known."""
    hint = f" ({state.hint})" if state.hint else ""
    return f"{ago(waited_s):>4}  {state.stage.value:<13}  {state.sentence}{hint}"


class Display(Protocol):
    def print(self, line: str) -> None:
        """A line that stays."""
        ...

    def now(self, line: str) -> None:
        """The line that is replaced by the next."""
        ...


class Plain:
    def print(self, line: str) -> None:
        say(line)

    def now(self, line: str) -> None:
        """Nothing is drawn where nothing can be taken back."""


@dataclass
class Progress:
    """Takes the states of a wait and tells what is new."""

    tools: Tools
    display: Display
    started_s: float
    changes: Changes = field(default_factory=Changes)
    _trouble: str = ""

    def state(self, state: JobState) -> None:
        now_s = self.tools.clock.monotonic_s()
        waited_s = now_s - self.started_s
        self._trouble = ""
        if self.changes.is_news(state, now_s):
            self.display.print(line_of(state, waited_s))
        self.display.now(f"{state.ref.shown}: {state.stage.value.lower()}, {ago(waited_s)}")

    def trouble(self, sentence: str) -> None:
        if sentence != self._trouble:
            self._trouble = sentence
            self.display.print(f"      {sentence}; the job does not depend on it, asking again")


@contextlib.contextmanager
def progress(tools: Tools, *, live_line: bool = True) -> Iterator[Progress]:
    """live_line: draw one on a terminal; not where the command prints data at the same time."""
    started_s = tools.clock.monotonic_s()
    if not live_line or not is_terminal():
        yield Progress(tools, Plain(), started_s)
        return
    from taugrid_ray.cli.display import live

    with live() as display:
        yield Progress(tools, display, started_s)


def follower(tools: Tools, api: KubeApi, shown: Progress) -> Follower:
    pause = tools.pause or WatchPause(tools.clock, tools.sleep)
    return Follower(api, tools.clock, pause, shown.state, shown.trouble)
