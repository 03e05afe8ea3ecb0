"""The parts of a cluster as processes: start, look, stop, kill.

A part outlives whoever started it, so it gets a session of its own (Ctrl-C does not reach it), a
log file and a record of its pid, start time and command, by which anybody can look at it, stop it
and start it again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.layout import Layout
from e2e.cluster.processes import MARKER, observe
from e2e.cluster.settings import ClusterError
from taugrid_ray.names import digest, safe

TAIL_LINES = 15
POLL_S = 0.05
# Another cluster's address must not reach a part through the caller's environment.
_NOT_INHERITED = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


@dataclass(frozen=True, slots=True)
class PartRecord:
    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    """What was added to the environment, not the whole of it."""
    ready_url: str
    pid: int
    started_ticks: int


class Parts:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], *, ready_url: str = ""
    ) -> None:
        if self.running(name):
            raise ClusterError(f"{name} runs already")
        inherited = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        log = self.log(name)
        with log.open("ab") as out:
            try:
                process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self._layout.folder,
                    env={**inherited, **env, MARKER: str(self._layout.folder)},
                    start_new_session=True,
                )
            except OSError as error:
                raise ClusterError(f"{name} cannot be started: {error}") from error
        self._children[name] = process
        seen = observe(process.pid)
        record = PartRecord(
            name, tuple(argv), dict(env), ready_url, process.pid, seen.started_ticks if seen else 0
        )
        unfinished = self._file(name).with_suffix(".tmp")
        unfinished.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
        unfinished.replace(self._file(name))

    def start_again(self, name: str) -> str:
        """Start a part that ended with the command it had; returns its readiness URL."""
        record = self.record(name)
        self.start(name, record.argv, record.env, ready_url=record.ready_url)
        return record.ready_url

    def wait_until(
        self, name: str, is_ready: Callable[[], bool], *, what: str, timeout_s: float
    ) -> None:
        """Wait for a condition that `name` brings about; if it dies meanwhile, say how."""
        deadline_s = time.monotonic() + timeout_s
        while not is_ready():
            self.check(name)
            if time.monotonic() > deadline_s:
                raise ClusterError(self._with_log(name, f"{what}: not within {timeout_s:.0f} s"))
            time.sleep(POLL_S)

    def check(self, name: str) -> None:
        """Raise if the part is gone."""
        if not self.running(name):
            raise ClusterError(self._with_log(name, f"{name} ended{self._exit_code(name)}"))

    def running(self, name: str) -> bool:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return False
        if not self._file(name).exists():
            return False
        record = self.record(name)
        seen = observe(record.pid)
        return seen is not None and seen.started_ticks == record.started_ticks

    def stop(self, name: str, *, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL for one that is still there after `timeout_s`."""
        self._signal(name, signal.SIGTERM)
        if not self._gone_within(name, timeout_s):
            self.kill(name)

    def kill(self, name: str) -> None:
        """SIGKILL the part alone, as a crash would; what it started goes on."""
        self._signal(name, signal.SIGKILL)
        if not self._gone_within(name, 20.0):
            raise ClusterError(f"{name} outlives SIGKILL")

    def names(self) -> list[str]:
        """Every part that was ever started, in order of starting."""
        files = sorted(self._layout.parts.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [_read(file).name for file in files]

    def record(self, name: str) -> PartRecord:
        try:
            return _read(self._file(name))
        except FileNotFoundError as error:
            raise ClusterError(f"there is no part {name} in this cluster") from error

    def recorded(self) -> set[tuple[int, int]]:
        """Pid and start time of every part."""
        records = map(_read, self._layout.parts.glob("*.json"))
        return {(each.pid, each.started_ticks) for each in records if each.started_ticks}

    def log(self, name: str) -> Path:
        return self._layout.logs / f"{_file_name(name)}.log"

    def _file(self, name: str) -> Path:
        return self._layout.parts / f"{_file_name(name)}.json"

    def _signal(self, name: str, number: signal.Signals) -> None:
        if self.running(name):
            os.kill(self.record(name).pid, number)

    def _gone_within(self, name: str, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while self.running(name):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    def _exit_code(self, name: str) -> str:
        child = self._children.get(name)
        code = None if child is None else child.poll()
        if code is None:
            return ""
        return f" with exit code {code}" if code >= 0 else f" by signal {-code}"

    def _with_log(self, name: str, message: str) -> str:
        log = self.log(name)
        lines = (
            log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        )
        tail = "\n".join(f"  {line[:400]}" for line in lines[-TAIL_LINES:])
        return f"{message}\n{tail}\nThe whole log: {log}"


def _file_name(name: str) -> str:
    """A part's name is data: where it is not a plain file name, a plain one stands for it."""
    cleaned = safe(name)
    return cleaned if cleaned == name else f"{cleaned}-{digest(name)}"


def _read(file: Path) -> PartRecord:
    read = json.loads(file.read_text(encoding="utf-8"))
    return PartRecord(**{**read, "argv": tuple(read["argv"])})
