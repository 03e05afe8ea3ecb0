"""The clock as an argument: decisions get a number, tests move the hands."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Wall clock: seconds since the epoch. Compared with times the API server wrote."""
        ...

    def monotonic_s(self) -> float:
        """For durations of our own: never jumps."""
        ...


class SystemClock:
    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()
