"""What we remember of a gang's attempts: one annotation on its Workload.

It is the only memory there is: Kueue drops a check that is limited by `onFlavors` together with
its admission, retry count and all, and resets it at every eviction. Parking writes it in the same
patch as `spec.active: false`, un-parking in the same patch as `true`, so that whoever finds
`parked` beside `active: true` knows that somebody else started the gang.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_time, parse_time


class Pause(str, Enum):
    PARKED = "parked"
    """Inactive by us until `resume_at_s`."""
    RESUMED = "resumed"
    """Active again by us; the attempt is running or queued."""
    GAVE_UP = "gaveUp"
    """Inactive by us for good."""


@dataclass(frozen=True, slots=True)
class Memory:
    """step, attempt: what is due next (where it gave up: what failed last). Both count from 1;
    attempts within a step.
    """

    pause: Pause | None = None
    step: int = 1
    attempt: int = 1
    failures: int = 0
    """Failed attempts in a row, over all steps."""
    reason: str = ""
    message: str = ""
    at_s: float = 0.0
    resume_at_s: float | None = None


FRESH = Memory()


def parse_memory(text: str | None) -> Memory:
    """The annotation's text; FRESH where there is none or it is not ours to read (a person may
    have edited it).
    """
    if not text:
        return FRESH
    try:
        raw = json.loads(text)
        pause = Pause(fields.text(raw, "state"))
        resume_at = fields.text(raw, "resumeAt")
        return Memory(
            pause=pause,
            step=max(1, fields.integer(raw, "step") or 1),
            attempt=max(1, fields.integer(raw, "attempt") or 1),
            failures=max(0, fields.integer(raw, "failures") or 0),
            reason=fields.text(raw, "reason"),
            message=fields.text(raw, "message"),
            at_s=parse_time(fields.text(raw, "at")),
            resume_at_s=parse_time(resume_at) if resume_at else None,
        )
    except (ValueError, RecursionError):
        return FRESH


def format_memory(memory: Memory) -> str:
    """JSON with stable key order, so that the same memory is the same text."""
    raw: dict[str, str | int] = {
        "state": memory.pause.value if memory.pause else "",
        "step": memory.step,
        "attempt": memory.attempt,
        "failures": memory.failures,
        "reason": memory.reason,
        "message": memory.message,
        "at": format_time(memory.at_s),
    }
    if memory.resume_at_s is not None:
        raw["resumeAt"] = format_time(memory.resume_at_s)
    return json.dumps(raw)
