"""Our ProvisioningRequests of one Workload as a user sees them, and the sentence they make.

The check's message is the controller's own word and comes first. The requests say the rest: their
names, how many pods each books, and the news of the moments in which the controller has not spoken
yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taugrid_ray import names, sentences
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.reasons import Reason
from taugrid_ray.sentences import Told, printable
from taugrid_ray.verdict import Answer, Verdict, answer_of


@dataclass(frozen=True, slots=True)
class Asked:
    """The newest request for one pool."""

    name: str
    pool: str
    pods: int
    class_name: str
    attempt: str
    serial: int
    answer: Answer


_SAID = {
    Verdict.SILENT: "no answer yet",
    Verdict.NO_ROOM: "no room yet",
    Verdict.BOOKED: "booked; nodes may still be starting",
    Verdict.CONSUMED: "booked, and all its pods have nodes",
    Verdict.EXPIRED: "the booking ran out",
    Verdict.FAILED: "refused",
    Verdict.REVOKED: "taken back",
}


def said(asked: Asked) -> str:
    """What the autoscaler made of it, with its own words where it refused."""
    words = printable(asked.answer.message)
    told = _SAID[asked.answer.verdict]
    quiet = (Verdict.SILENT, Verdict.BOOKED, Verdict.CONSUMED)
    return f"{told}: {words}" if words and asked.answer.verdict not in quiet else told


def asked_of(requests: Iterable[ProvisioningRequest]) -> tuple[Asked, ...]:
    """The newest live request of each pool, by pool; a request made anew has a higher serial."""
    newest: dict[str, tuple[tuple[int, float], Asked]] = {}
    for request in requests:
        if request.meta.is_terminating:
            continue
        made = _asked(request)
        rank = (made.serial, request.meta.created_at_s or 0.0)
        if made.pool not in newest or newest[made.pool][0] < rank:
            newest[made.pool] = (rank, made)
    return tuple(newest[pool][1] for pool in sorted(newest))


def _asked(request: ProvisioningRequest) -> Asked:
    serial = request.label(names.SERIAL)
    return Asked(
        name=request.meta.name,
        pool=printable(request.meta.annotations.get(names.POOL, ""), limit=100),
        pods=request.pods,
        class_name=request.class_name,
        attempt=request.label(names.ATTEMPT),
        serial=int(serial) if serial.isascii() and serial.isdigit() else 1,
        answer=answer_of(request),
    )


def told_by(asked: tuple[Asked, ...]) -> Told | None:
    """What the requests alone say of the gang; None where there are none."""
    if not asked:
        return None
    gang = sentences.size([(a.pool, a.pods) for a in asked])
    if all(a.answer.verdict in (Verdict.BOOKED, Verdict.CONSUMED) for a in asked):
        return sentences.booked(gang)
    for verdict, make in (
        (Verdict.FAILED, sentences.failed),
        (Verdict.REVOKED, sentences.revoked),
    ):
        bad = next((a for a in asked if a.answer.verdict is verdict), None)
        if bad is not None:
            return make(gang, bad.answer.message)
    none = next((a for a in asked if a.answer.verdict is Verdict.NO_ROOM), None)
    if none is not None:
        words = printable(none.answer.message)
        return Told(Reason.WAITING_FOR_CAPACITY, f"no room yet for {gang}: {words}")
    return Told(Reason.CAPACITY_REQUESTED, f"asked the autoscaler for {gang}; no answer yet")
