"""The one sentence for each reason: in check messages, events, `taugrid status` and the docs alike.

Sentences carry no running clock, only the moment at which something ends, so that a message
changes when the state changes and not every second. Text that others wrote is made printable and
cut here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from taugrid_ray.kinds.meta import format_time
from taugrid_ray.reasons import Reason

MESSAGE_MAX = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True, slots=True)
class Told:
    """A reason with its sentence."""

    reason: Reason
    sentence: str


def printable(text: str, *, limit: int = 300) -> str:
    """Somebody else's text on one line: no control or direction marks, cut at `limit`."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def clock_time(at_s: float) -> str:
    """`12:15:00 UTC`, for a moment within the day."""
    return f"{format_time(at_s)[11:19]} UTC"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(pools: Sequence[tuple[str, int]]) -> str:
    """`3 pods in pool "gpu"`, or `5 pods in 2 pools ("cpu": 2, "gpu": 3)`."""
    total = sum(count for _, count in pools)
    if len(pools) == 1:
        return f'{plural(total, "pod")} in pool "{pools[0][0]}"'
    parts = ", ".join(f'"{pool}": {count}' for pool, count in pools)
    return f"{plural(total, 'pod')} in {len(pools)} pools ({parts})"


def attempt_of(attempt: int, attempts: int) -> str:
    return f"attempt {attempt} of {attempts}"


def not_needed() -> Told:
    return Told(
        Reason.CAPACITY_NOT_NEEDED,
        "no pod set asks for a managed resource on a flavor that this check covers: "
        "nothing to book",
    )


def requested(gang: str, attempt: str, until_s: float) -> Told:
    return Told(
        Reason.CAPACITY_REQUESTED,
        f"asked the autoscaler for {gang} ({attempt}); no answer yet, "
        f"gives up this attempt at {clock_time(until_s)}",
    )


def waiting(gang: str, attempt: str, words: str, until_s: float) -> Told:
    return Told(
        Reason.WAITING_FOR_CAPACITY,
        f"no room yet for {gang} ({attempt}): {printable(words)} "
        f"Gives up this attempt at {clock_time(until_s)}",
    )


def booked(gang: str) -> Told:
    return Told(Reason.CAPACITY_PROVISIONED, f"booked {gang}; nodes may still be starting")


def waiting_for_nodes(gang: str, ready: int, until_s: float) -> Told:
    return Told(
        Reason.WAITING_FOR_NODES,
        f"booked {gang}; Ready nodes have room for {ready} so far, "
        f"waits until {clock_time(until_s)}",
    )


def waiting_for_accelerators(gang: str, resource: str, until_s: float) -> Told:
    return Told(
        Reason.WAITING_FOR_ACCELERATORS,
        f"booked {gang}; nodes are Ready but do not advertise enough {resource} yet, "
        f"waits until {clock_time(until_s)}",
    )


def waiting_for_pods(gang: str) -> Told:
    return Told(Reason.WAITING_FOR_PODS, f"nodes for {gang} are Ready; pods are starting")


def failed(gang: str, words: str) -> Told:
    return Told(Reason.PROVISIONING_FAILED, f"the autoscaler refused {gang}: {printable(words)}")


def timed_out(gang: str, limit_s: float, words: str, class_name: str) -> Told:
    why = (
        f"its last word was: {printable(words)}"
        if words
        else f"it never answered (does anything serve the class {class_name}?)"
    )
    return Told(
        Reason.PROVISIONING_TIMED_OUT,
        f"the autoscaler did not book {gang} within {limit_s:.0f} s; {why}",
    )


def expired(gang: str) -> Told:
    return Told(
        Reason.BOOKING_EXPIRED,
        f"the booking of {gang} ran out before the job was admitted (another check held it)",
    )


def revoked(gang: str, words: str) -> Told:
    return Told(Reason.CAPACITY_REVOKED, f"the provider took {gang} back: {printable(words)}")


def refused(gang: str, words: str) -> Told:
    return Told(
        Reason.REQUEST_REFUSED,
        f"the API server refused the request for {gang}: {printable(words)}",
    )


def nodes_timed_out(gang: str, missing: int, limit_s: float) -> Told:
    return Told(
        Reason.NODES_TIMED_OUT,
        f"booked {gang}, but nodes for {missing} of them were not Ready within {limit_s:.0f} s",
    )


def accelerators_timed_out(gang: str, resource: str, limit_s: float) -> Told:
    return Told(
        Reason.ACCELERATORS_TIMED_OUT,
        f"booked {gang}, but the Ready nodes did not advertise enough {resource} "
        f"within {limit_s:.0f} s",
    )


def pods_timed_out(gang: str, missing: int, limit_s: float) -> Told:
    return Told(
        Reason.PODS_TIMED_OUT,
        f"nodes for {gang} are there, but {plural(missing, 'pod')} did not run "
        f"within {limit_s:.0f} s",
    )


def policy_invalid(words: str) -> Told:
    return Told(Reason.POLICY_INVALID, f"capacity cannot be asked for: {printable(words)}")


def gang_invalid(words: str) -> Told:
    return Told(Reason.GANG_INVALID, f"the gang cannot be asked for: {printable(words)}")


def _clause(told: Told) -> str:
    """A sentence as the first part of a longer one; the autoscaler's words may end in a stop."""
    return told.sentence.removesuffix(".")


def parked(why: Told, attempt: str, resume_at_s: float) -> Told:
    return Told(
        why.reason,
        f"{_clause(why)}; {attempt} failed, holds no quota, "
        f"tries again at {clock_time(resume_at_s)}",
    )


def gave_up(why: Told, attempt: str) -> Told:
    return Told(
        Reason.GAVE_UP,
        f"{_clause(why)}; {attempt} failed, gave up. Start it again with: taugrid resume",
    )


def resumed(attempt: str) -> Told:
    return Told(Reason.RESUMED, f"the pause is over: back in the queue for {attempt}")


def growing(more: str, running: int, words: str, until_s: float) -> Told:
    """more: what is asked for, as `size` says it. words: the autoscaler's no so far, or ""."""
    answer = f"no room yet: {printable(words)} Gives up" if words else "no answer yet, gives up"
    return Told(
        Reason.GROWING,
        f"growth: asked the autoscaler for {more}, beside the {running} that run on; {answer} "
        f"at {clock_time(until_s)}",
    )


def growth_settled() -> Told:
    return Told(Reason.GROWTH_SETTLED, "nothing more is wanted than runs: nothing to book")


def growth_refused(group: str, more: int, running: int, why: Told, until_s: float) -> Told:
    return Told(
        Reason.GROWTH_REFUSED,
        f'group "{printable(group, limit=63)}" does not grow by {plural(more, "worker")} and goes '
        f"on with {running}: {_clause(why)}; maxReplicas is lowered until {clock_time(until_s)}",
    )


def growth_withdrawn(groups: Sequence[str]) -> Told:
    shown = ", ".join(f'"{printable(g, limit=63)}"' for g in groups)
    return Told(
        Reason.GROWTH_WITHDRAWN,
        f"the Ray autoscaler did not take back the workers that {shown} cannot get; "
        "the controller did",
    )


def growth_given_back() -> Told:
    return Told(
        Reason.GROWTH_POSSIBLE, "the pause after a refused growth is over: maxReplicas is restored"
    )
