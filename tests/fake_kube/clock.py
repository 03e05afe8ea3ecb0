"""A clock whose hands the test moves."""

from __future__ import annotations

from datetime import datetime, timezone

START_S = 1_798_761_600.0
"""2027-01-01T00:00:00Z; any whole second will do."""


class ManualClock:
    def __init__(self, now_s: float = START_S) -> None:
        self._now_s = now_s
        self._monotonic_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._now_s += seconds
        self._monotonic_s += seconds


def as_timestamp(now_s: float) -> str:
    """As the API server writes times: UTC, whole seconds."""
    return datetime.fromtimestamp(int(now_s), tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
