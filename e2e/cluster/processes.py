"""Find and end every process of a cluster, whatever became of its records.

Each part starts with the cluster's folder in its environment, and what it starts inherits that.
/proc shows the environment a process began with, so one look over /proc finds them all: also those
whose pid file is lost, and those in other namespaces. Three more ways for programs that write over
their environment, as Ray's workers do with their title, or that start with a fresh one: being in a
network namespace of the cluster, being a child of one that was found, and having been recorded (pid
and start time).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.settings import ClusterError

MARKER = "TAUGRID_RAY_CLUSTER"
PROC = Path("/proc")
TERM_S = 1.0
"""How long a process may take after SIGTERM: nothing that ends here has anything left to save."""
KILL_S = 20.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    started_ticks: int
    """With the pid, names one process for ever: pids are used again, start times are not."""
    folder: str
    """The marker's value, or ""."""
    network: str
    """The identity of its network namespace, or "" where that may not be seen."""


def marker_in(environ: bytes) -> str:
    """The marker's value in the content of /proc/PID/environ."""
    prefix = f"{MARKER}=".encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return ""


def parse_stat(stat: str) -> tuple[str, int, int]:
    """State, parent and start time out of /proc/PID/stat; the name before them may hold
    anything."""
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def observe(pid: int) -> Process | None:
    """One process, or None where it is gone or a zombie."""
    folder = PROC / str(pid)
    try:
        state, parent, started = parse_stat((folder / "stat").read_text(errors="replace"))
    except (OSError, ValueError):
        return None
    if state in "ZX":
        return None
    return Process(pid, parent, started, _marker_of(folder), _network_of(folder))


def observe_all() -> list[Process]:
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [seen for seen in map(observe, pids) if seen]


def belonging(
    processes: Iterable[Process],
    folder: str,
    *,
    networks: Collection[str] = (),
    recorded: Collection[tuple[int, int]] = (),
    spared: Collection[int] = (),
) -> set[int]:
    """The pids of the cluster in `folder`: marked, recorded, in its networks, or below one of
    these."""
    everyone = list(processes)
    found = {
        each.pid
        for each in everyone
        if each.folder == folder
        or (each.network and each.network in networks)
        or (each.pid, each.started_ticks) in recorded
    }
    grew = True
    while grew:
        below = {each.pid for each in everyone if each.parent in found} - found
        found |= below
        grew = bool(below)
    return found - set(spared)


def self_and_ancestors() -> set[int]:
    pid, line = os.getpid(), set[int]()
    while pid > 0 and pid not in line:
        line.add(pid)
        seen = observe(pid)
        pid = seen.parent if seen else 0
    return line


def network_identity(namespace: Path) -> str:
    """The identity of a namespace that `ip netns` keeps, in the form of `Process.network`."""
    try:
        return f"net:[{namespace.stat().st_ino}]"
    except OSError:
        return ""


def end_all(
    folder: Path,
    *,
    networks: Collection[str] = (),
    recorded: Collection[tuple[int, int]] = (),
) -> int:
    """End every process of the cluster, politely first; returns how many there were."""
    spared = self_and_ancestors()

    def alive() -> set[int]:
        return belonging(
            observe_all(), str(folder), networks=networks, recorded=recorded, spared=spared
        )

    seen = alive()
    total = set(seen)
    _signal(seen, signal.SIGTERM)
    deadline_s = time.monotonic() + TERM_S
    while seen and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
        seen = alive()
    deadline_s = time.monotonic() + KILL_S
    while seen:
        total |= seen
        _signal(seen, signal.SIGKILL)
        if time.monotonic() > deadline_s:
            raise ClusterError(f"processes outlive SIGKILL: {', '.join(map(str, sorted(seen)))}")
        time.sleep(_POLL_S)
        seen = alive()
    return len(total)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _marker_of(folder: Path) -> str:
    try:
        return marker_in((folder / "environ").read_bytes())
    except OSError:
        return ""


def _network_of(folder: Path) -> str:
    try:
        return os.readlink(folder / "ns" / "net")
    except OSError:
        return ""
