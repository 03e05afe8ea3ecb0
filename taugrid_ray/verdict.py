"""What a ProvisioningRequest's conditions say, as one answer.

Pure. A request can carry several true conditions at once: Cluster Autoscaler never takes
Provisioned back, so later news stands beside it. The order of the checks is therefore the rule:
bad news first. BookingExpired has two meanings by its reason: all pods of the booking are bound
(good), or the ten minutes ran out (bad, if nothing runs yet).

Source: kubernetes-sigs/cluster-autoscaler, pkg/provisioningrequest/conditions, 2026-08.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from taugrid_ray.kinds import provisioning_request as pr
from taugrid_ray.kinds.conditions import Condition, find
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest


class Verdict(str, Enum):
    SILENT = "Silent"
    """No word yet: not looked at, waiting in line, or a class that nobody serves."""
    NO_ROOM = "NoRoom"
    """Looked at, no room found; the autoscaler tries again by itself."""
    BOOKED = "Booked"
    """The whole request is booked; its nodes may still be starting."""
    CONSUMED = "Consumed"
    """Booked, and every pod of it is bound."""
    EXPIRED = "Expired"
    """Was booked; the booking ran out."""
    FAILED = "Failed"
    """A final no; this request will never be served."""
    REVOKED = "Revoked"
    """Was booked; the provider took it back."""


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: Verdict
    message: str = ""
    """The autoscaler's own words."""
    since_s: float = 0.0
    """When it said so, seconds since the epoch; 0.0 for SILENT."""


def answer_of(request: ProvisioningRequest) -> Answer:
    """Read one request's conditions; an unknown condition is ignored, an empty status is SILENT."""

    def true(type_: str) -> Condition | None:
        found = find(request.conditions, type_)
        return found if found is not None and found.is_true else None

    if failed := true(pr.FAILED):
        return Answer(Verdict.FAILED, failed.message, failed.changed_at_s)
    if revoked := true(pr.CAPACITY_REVOKED):
        return Answer(Verdict.REVOKED, revoked.message, revoked.changed_at_s)
    if expired := true(pr.BOOKING_EXPIRED):
        good = expired.reason == pr.BOOKING_CONSUMED
        return Answer(
            Verdict.CONSUMED if good else Verdict.EXPIRED, expired.message, expired.changed_at_s
        )
    provisioned = find(request.conditions, pr.PROVISIONED)
    if provisioned is not None and provisioned.status != "Unknown":
        verdict = Verdict.BOOKED if provisioned.is_true else Verdict.NO_ROOM
        return Answer(verdict, provisioned.message, provisioned.changed_at_s)
    return Answer(Verdict.SILENT)
