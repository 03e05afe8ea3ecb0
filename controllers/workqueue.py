"""Keys that wait to be looked at: each at most once, with a time before which it may not be.

Pure data with the clock passed in. A key that is being worked on is not given out again; what
asks for it meanwhile is remembered and served when it is done.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass
class WorkQueue:
    """`due` times are monotonic seconds."""

    base_s: float = 0.05
    max_s: float = 60.0
    _due: dict[str, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, str]] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _failures: dict[str, int] = field(default_factory=dict)
    _serial: int = 0

    def add(self, key: str, due_s: float) -> None:
        """Look at `key` at `due_s` or, if it is due earlier already, then."""
        before = self._due.get(key)
        if before is not None and before <= due_s:
            return
        self._due[key] = due_s
        self._serial += 1
        heapq.heappush(self._heap, (due_s, self._serial, key))

    def take(self, now_s: float) -> str | None:
        """The next key that is due and not busy; it is busy from now on."""
        kept: list[tuple[float, int, str]] = []
        found = None
        while self._heap and self._heap[0][0] <= now_s:
            due_s, serial, key = heapq.heappop(self._heap)
            if self._due.get(key) != due_s:
                continue
            if key in self._busy:
                kept.append((due_s, serial, key))
                continue
            del self._due[key]
            self._busy.add(key)
            found = key
            break
        for entry in kept:
            # Due again as soon as it is free; `done` puts it back into the heap.
            self._due[entry[2]] = entry[0]
        return found

    def done(self, key: str) -> None:
        """No longer busy; what asked for it meanwhile is served."""
        self._busy.discard(key)
        due_s = self._due.get(key)
        if due_s is not None:
            self._serial += 1
            heapq.heappush(self._heap, (due_s, self._serial, key))

    def failed(self, key: str) -> float:
        """Count a failure; the pause before the next try, in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        pause: float = min(self.base_s * 2.0 ** min(count, 20), self.max_s)
        return pause

    def worked(self, key: str) -> None:
        self._failures.pop(key, None)

    def next_due_s(self) -> float | None:
        while self._heap and (
            self._due.get(self._heap[0][2]) != self._heap[0][0] or self._heap[0][2] in self._busy
        ):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._due)

    @property
    def busy(self) -> int:
        return len(self._busy)
