"""A job's state as a value: stage, reason, sentence, what to do next, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from taugrid_ray.jobs.observed import JobRef, Part
from taugrid_ray.reasons import Stage


class Outcome(str, Enum):
    """How it ended. A job that is parked for a retry has not."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    """Somebody stopped the program; KubeRay calls such a job Complete."""
    GAVE_UP = "GaveUp"
    REFUSED = "Refused"
    """An admission check said its final no."""
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class PodCounts:
    expected: int = 0
    """What was admitted; the submitter of a RayJob included. 0 where nobody has said so yet."""
    created: int = 0
    bound: int = 0
    ready: int = 0
    ended: int = 0
    nodes: int = 0
    """On how many nodes they are."""


@dataclass(frozen=True, slots=True)
class JobState:
    ref: JobRef
    stage: Stage
    reason: str
    """A `Reason` where it is ours; else the word of Kueue, KubeRay or Kubernetes."""
    sentence: str
    hint: str = ""
    """What to do next: a sentence or a command; may be empty."""
    outcome: Outcome | None = None
    """None while it has not ended."""
    attempt: int = 1
    """The attempt that runs, or the last one that failed."""
    since_s: float | None = None
    """When this stage began, seconds since the epoch."""
    until_s: float | None = None
    """When this stage ends by itself, where somebody set a moment."""
    growth: str = ""
    """Of a job that runs: what its wish for more workers waits for; "" where there is none."""
    queue: str = ""
    pods: PodCounts | None = PodCounts()
    unavailable: Mapping[Part, str] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        return self.outcome is not None

    @property
    def is_started(self) -> bool:
        """Did Kueue let it start?"""
        return self.stage in (Stage.STARTING_NODES, Stage.STARTING_PODS, Stage.RUNNING) or (
            self.outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.STOPPED)
        )
