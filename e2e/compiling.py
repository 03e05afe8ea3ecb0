"""Run `go build` and tell how far it is.

Go prints one line per module it downloads and, with -v, one per package it compiles. The number of
packages is known beforehand from `go list -deps`; packages that Go already has in its own cache
print nothing, so the count jumps. Go itself repeats a failed download where that makes sense; we
add no retry of our own.

Go runs in a session of its own: Ctrl-C reaches only us, and we end Go and its compilers before we
go.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from e2e.golang import Go, environment
from taugrid_ray.errors import TaugridError

ESTIMATE_S = 20 * 60.0
"""A first build on 2 cores; used until enough is compiled to tell."""
TAIL_LINES = 15


class BuildFailed(TaugridError):
    """Go ended with an error; the message has its last lines and the path of the whole log."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far the build is. `total` is 0 while it is not yet known."""

    doing: str
    done: int
    total: int
    elapsed_s: float

    @property
    def remaining_s(self) -> float:
        """A guess: by the share of packages once a tenth is compiled, from experience before."""
        if self.total and self.done * 10 >= self.total:
            return self.elapsed_s / self.done * (self.total - self.done)
        return max(0.0, ESTIMATE_S - self.elapsed_s)


class Compiler:
    """Calls Go for one cache entry, with one log and one count over all modules."""

    def __init__(self, go: Go, out: IO[str], log: Path, on_step: Callable[[Step], None]) -> None:
        self._go = go
        self._out = out
        self._log = log
        self._on_step = on_step
        self._began_s = time.monotonic()
        self._done = 0
        self._total = 0
        self._doing = "starting"

    def count(self, modules: Sequence[tuple[Path, Sequence[str]]]) -> None:
        """Learn how many packages there are to compile; downloads the modules' sources."""
        self._doing = "fetching sources"
        total = 0
        for folder, packages in modules:
            listed = self._run(folder, ["list", "-deps", *packages])
            total += len(listed.splitlines())
        self._total = total

    def build(
        self, folder: Path, flags: Sequence[str], packages: Sequence[str], target: Path
    ) -> None:
        self._doing = "compiling"
        target.mkdir(parents=True, exist_ok=True)
        self._run(folder, ["build", "-v", *flags, "-o", f"{target}/", *packages])

    def source_of(self, folder: Path, module: str) -> Path:
        """Where the sources of a module in the build list lie."""
        return Path(self._run(folder, ["list", "-m", "-f", "{{.Dir}}", module]).strip())

    def _run(self, folder: Path, arguments: Sequence[str]) -> str:
        command = [self._go.command, "-C", str(folder), *arguments]
        self._out.write(f"$ {' '.join(command)}\n")
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        try:
            return self._follow(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _follow(self, process: subprocess.Popen[bytes]) -> str:
        """Read both streams to their end, reporting at least once a second."""
        assert process.stdout is not None
        assert process.stderr is not None
        printed: list[bytes] = []
        last: deque[str] = deque(maxlen=TAIL_LINES)
        errors = b""
        for stream, chunk in _chunks(process.stdout, process.stderr):
            if stream is process.stdout:
                printed.append(chunk)
            elif stream is process.stderr:
                *lines, errors = (errors + chunk).split(b"\n")
                for line in lines:
                    last.append(self._take(line.decode(errors="replace")))
            self._report()
        if errors:
            last.append(self._take(errors.decode(errors="replace")))
        self._out.flush()
        code = process.wait()
        if code:
            tail = "\n".join(f"  {line}" for line in last)
            raise BuildFailed(
                f"Go ended with exit code {code}:\n{tail}\nThe whole log: {self._log}",
                hint="run it again: what is compiled stays compiled",
            )
        return b"".join(printed).decode()

    def _take(self, line: str) -> str:
        self._out.write(line + "\n")
        if line.startswith("go: downloading "):
            self._doing = line.removeprefix("go: ")
        elif line and not line.startswith(("go: ", "#", " ", "\t")):
            self._done = min(self._done + 1, self._total)
            self._doing = f"compiling {line}"
        return line

    def _report(self) -> None:
        elapsed_s = time.monotonic() - self._began_s
        self._on_step(Step(self._doing, self._done, self._total, elapsed_s))


def _chunks(*streams: IO[bytes]) -> Iterator[tuple[IO[bytes] | None, bytes]]:
    """What the streams bring, as it comes; (None, b"") after a second in which nothing came."""
    with selectors.DefaultSelector() as waiting:
        for stream in streams:
            waiting.register(stream, selectors.EVENT_READ, stream)
        while waiting.get_map():
            ready = waiting.select(timeout=1.0)
            if not ready:
                yield None, b""
            for key, _ in ready:
                stream = key.data
                chunk = os.read(stream.fileno(), 65536)
                if chunk:
                    yield stream, chunk
                else:
                    waiting.unregister(stream)
                    stream.close()
