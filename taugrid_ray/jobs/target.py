"""How people name a job: `rayjob/train`, `job/train`, or just `train`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from taugrid_ray.errors import UsageError
from taugrid_ray.kinds.resource import JOB, RAY_JOB, Resource
from taugrid_ray.sentences import printable

_WORDS = {
    "job": JOB,
    "jobs": JOB,
    "rayjob": RAY_JOB,
    "rayjobs": RAY_JOB,
}
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Target:
    """kind: None where the user left it to us to find out."""

    name: str
    kind: Resource | None = None


def parse_target(text: str) -> Target:
    """Raises UsageError, in one sentence, for what no job can be called."""
    word, slash, name = text.rpartition("/")
    kind = _WORDS.get(word.lower()) if slash else None
    if slash and kind is None:
        raise UsageError(
            f"{printable(text, limit=100)!r} names no job: write job/NAME or rayjob/NAME"
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{printable(name, limit=100)!r} is not a name: lower-case letters, digits, '-' and '.'"
        )
    return Target(name, kind)
