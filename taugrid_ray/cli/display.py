"""The live line on a terminal; the only module that uses rich."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.status import Status
from rich.text import Text

from taugrid_ray.cli.screen import one_line


@dataclass(frozen=True, slots=True)
class Live:
    console: Console
    status: Status

    def print(self, line: str) -> None:
        self.console.print(Text(one_line(line)), soft_wrap=True)

    def now(self, line: str) -> None:
        self.status.update(Text(one_line(line), style="dim", overflow="ellipsis", no_wrap=True))


@contextlib.contextmanager
def live() -> Iterator[Live]:
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status(Text("looking", style="dim")) as status:
        yield Live(console, status)
