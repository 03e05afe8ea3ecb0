"""A container's log files: where they are, and reading a part of one.

Each attempt has a plain text file, FOLDER/pods/NAMESPACE/POD/CONTAINER/N.log, that stays when the
pod is gone. Beside it N.times holds, for every piece that was written, the file's size after it and
the time: from that come `--since` and `--timestamps`, exact to the piece. A second pod of the same
name goes on with the next number.
"""

from __future__ import annotations

import os
import struct
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

PIECE = 65536
_ENTRY = struct.Struct("<Qd")
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log of one attempt."""

    path: Path

    @property
    def times_path(self) -> Path:
        return self.path.with_suffix(".times")


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a log is asked for; the query of `kubectl logs`."""

    follow: bool = False
    tail_lines: int | None = None
    since_s: float | None = None
    """Seconds since the epoch."""
    limit_bytes: int | None = None
    timestamps: bool = False


def next_log(folder: Path) -> LogFile:
    """A file that is not there yet; `folder` is the container's."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(each.stem) for each in folder.glob("*.log") if each.stem.isdigit()]
    return LogFile(folder / f"{max(numbers, default=-1) + 1}.log")


def last_log(folder: Path) -> LogFile | None:
    numbers = [int(each.stem) for each in folder.glob("*.log") if each.stem.isdigit()]
    return LogFile(folder / f"{max(numbers)}.log") if numbers else None


def read_times(text: bytes) -> list[tuple[int, float]]:
    """Where each piece ends in the log, and when it was written."""
    whole = len(text) - len(text) % _ENTRY.size
    return list(_ENTRY.iter_unpack(text[:whole]))


def offset_since(times: list[tuple[int, float]], since_s: float) -> int:
    """Where the first piece begins that was written at `since_s` or later."""
    older = [end for end, written_s in times if written_s < since_s]
    return max(older, default=0)


def written_at(times: list[tuple[int, float]], offset: int) -> float:
    """When the byte at `offset` was written."""
    index = bisect_left(times, offset + 1, key=lambda entry: entry[0])
    return times[min(index, len(times) - 1)][1] if times else time.time()


def offset_of_tail(read: Callable[[int, int], bytes], size: int, lines: int) -> int:
    """Where the last `lines` lines begin. `read` takes an offset and a length."""
    if lines <= 0:
        return size
    wanted = lines
    end = size
    if size and read(size - 1, 1) == b"\n":
        wanted += 1
    while end > 0:
        start = max(0, end - PIECE)
        piece = read(start, end - start)
        at = len(piece)
        while (at := piece.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if wanted == 0:
                return start + at + 1
        end = start
    return 0


def stamp(at_s: float) -> bytes:
    moment = datetime.fromtimestamp(at_s, tz=timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()


def read_log(log: LogFile, part: Part, is_live: Callable[[], bool]) -> Iterator[bytes]:
    """Pieces of the part; with `follow`, until `is_live` says no and all is read.

    A follower gets an empty piece whenever there is nothing new, to see whether its reader is
    still there.
    """
    left = part.limit_bytes
    for piece in _pieces(log, part, is_live):
        if left is not None:
            piece = piece[:left]
            left -= len(piece)
        yield piece
        if left == 0:
            return


def _pieces(log: LogFile, part: Part, is_live: Callable[[], bool]) -> Iterator[bytes]:
    with log.path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = 0
        if part.since_s is not None:
            start = offset_since(_times(log), part.since_s)
        if part.tail_lines is not None:
            tail = offset_of_tail(
                lambda at, n: os.pread(file.fileno(), n, at), size, part.tail_lines
            )
            start = max(start, tail)
        raw = _from(file.fileno(), start, is_live if part.follow else lambda: False)
        yield from _stamped(raw, start, log) if part.timestamps else raw


def _from(descriptor: int, offset: int, is_live: Callable[[], bool]) -> Iterator[bytes]:
    while True:
        live = is_live()  # asked before reading, so that nothing written before its end is missed
        piece = os.pread(descriptor, PIECE, offset)
        offset += len(piece)
        if piece:
            yield piece
        elif not live:
            return
        else:
            yield b""
            time.sleep(_POLL_S)


def _stamped(pieces: Iterator[bytes], offset: int, log: LogFile) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        if not piece:
            yield b""
            continue
        *lines, rest = (rest + piece).split(b"\n")
        times = _times(log)
        stamped = []
        for line in lines:
            stamped.append(stamp(written_at(times, offset)) + line + b"\n")
            offset += len(line) + 1
        yield b"".join(stamped)
    if rest:
        yield stamp(written_at(_times(log), offset)) + rest


def _times(log: LogFile) -> list[tuple[int, float]]:
    return read_times(log.times_path.read_bytes()) if log.times_path.exists() else []
