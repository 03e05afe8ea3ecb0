"""What was seen of many gangs, and the figures made of it. Pure; times are seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gang:
    """When the watch first showed each condition of one Workload; clock of the watcher."""

    reserved_at_s: float
    admitted_at_s: float

    @property
    def check_s(self) -> float:
        """How long the checks took. Both at once (no check at all): 0."""
        return self.admitted_at_s - self.reserved_at_s


@dataclass(frozen=True, slots=True)
class Figures:
    last_admitted_s: float
    """From the first Job's creation until the last gang was admitted."""
    check_p50_s: float
    check_p99_s: float


def figures(began_at_s: float, gangs: Sequence[Gang]) -> Figures:
    waits = [gang.check_s for gang in gangs]
    return Figures(
        max(gang.admitted_at_s for gang in gangs) - began_at_s,
        percentile(waits, 50),
        percentile(waits, 99),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: a value that was really seen, never one between two."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def median(of: Sequence[Figures]) -> Figures:
    return Figures(
        percentile([each.last_admitted_s for each in of], 50),
        percentile([each.check_p50_s for each in of], 50),
        percentile([each.check_p99_s for each in of], 50),
    )


def ratios(of: Mapping[str, Figures]) -> dict[str, float]:
    """The numbers of the design's section 12."""
    ours, oracle, builtin = of["ours"], of["oracle"], of["builtin"]
    return {
        "ours_to_oracle": ours.last_admitted_s / oracle.last_admitted_s,
        "check_p50_to_builtin": ours.check_p50_s / builtin.check_p50_s,
        "check_p99_to_builtin": ours.check_p99_s / builtin.check_p99_s,
    }


GOALS = {"ours_to_oracle": 1.05, "check_p50_to_builtin": 0.15, "check_p99_to_builtin": 0.2}
