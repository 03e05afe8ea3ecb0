"""What `build` and `up` show: a live bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from e2e.compiling import Step

LINE_EVERY_S = 20.0


class Console:
    """Chatter, on standard error. Used as a context, so that the bar is gone at its end."""

    def __init__(self) -> None:
        self._out = RichConsole(stderr=True, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._last_line_s = time.monotonic()

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, line: str) -> None:
        self._out.print(escape(line))

    def step(self, step: Step) -> None:
        if self._out.is_terminal:
            self._draw(step)
        elif time.monotonic() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self.say(plain(step))

    def _draw(self, step: Step) -> None:
        if self._bar is None:
            self._bar = Progress(
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=self._out,
                transient=True,
            )
            self._bar.add_task("", total=None)
            self._bar.start()
        self._bar.update(
            self._bar.task_ids[0],
            description=f"{remaining(step)}  {step.doing[:60]}",
            total=step.total or None,
            completed=step.done,
        )


def plain(step: Step) -> str:
    share = f"{100 * step.done // step.total:3d} %" if step.total else "  0 %"
    return f"{share}  after {minutes(step.elapsed_s)}, {remaining(step)}: {step.doing}"


def remaining(step: Step) -> str:
    if step.total and step.done >= step.total:
        return "linking"
    return f"about {minutes(step.remaining_s)} to go"


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
