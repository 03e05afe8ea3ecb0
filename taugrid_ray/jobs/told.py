"""Which reason a sentence of ours stands for, and which moment it names.

A user who may read Workloads but neither AdmissionChecks nor ProvisioningRequests sees our
verdict only as the check's message. Its sentences come from `sentences.py` alone, so each is known
by its beginning; a test holds the two together.
"""

from __future__ import annotations

import re

from taugrid_ray.reasons import Reason

_DAY_S = 86_400.0
_SLACK_S = 60.0
"""Clocks of two machines may differ by so much."""
_MOMENT = re.compile(r"\b(?:at|until) (\d\d):(\d\d):(\d\d) UTC\b")

_BEGINNINGS: tuple[tuple[Reason, str], ...] = (
    (Reason.GAVE_UP, r".*; attempt \d+(?: of \d+)? failed, gave up\. "),
    (Reason.CAPACITY_NOT_NEEDED, r"no pod set asks for a managed resource "),
    (Reason.CAPACITY_REQUESTED, r"asked the autoscaler for "),
    (Reason.WAITING_FOR_CAPACITY, r"no room yet for "),
    (Reason.CAPACITY_PROVISIONED, r"booked .*; nodes may still be starting$"),
    (Reason.WAITING_FOR_NODES, r"booked .*; Ready nodes have room for "),
    (Reason.WAITING_FOR_ACCELERATORS, r"booked .*; nodes are Ready but do not advertise "),
    (Reason.WAITING_FOR_PODS, r"nodes for .* are Ready; pods are starting"),
    (Reason.PROVISIONING_FAILED, r"the autoscaler refused "),
    (Reason.PROVISIONING_TIMED_OUT, r"the autoscaler did not book "),
    (Reason.BOOKING_EXPIRED, r"the booking of "),
    (Reason.CAPACITY_REVOKED, r"the provider took "),
    (Reason.REQUEST_REFUSED, r"the API server refused the request for "),
    (Reason.NODES_TIMED_OUT, r"booked .*, but nodes for "),
    (Reason.ACCELERATORS_TIMED_OUT, r"booked .*, but the Ready nodes did not advertise "),
    (Reason.PODS_TIMED_OUT, r"nodes for .* are there, but "),
    (Reason.POLICY_INVALID, r"capacity cannot be asked for: "),
    (Reason.GANG_INVALID, r"the gang cannot be asked for: "),
    (Reason.RESUMED, r"the pause is over: "),
    (Reason.GROWING, r"growth: asked the autoscaler for "),
    (Reason.GROWTH_SETTLED, r"nothing more is wanted than runs"),
    (Reason.GROWTH_REFUSED, r'group ".*" does not grow by '),
    (Reason.GROWTH_WITHDRAWN, r"the Ray autoscaler did not take back "),
    (Reason.GROWTH_POSSIBLE, r"the pause after a refused growth is over"),
)
_READ = tuple((reason, re.compile(text)) for reason, text in _BEGINNINGS)


def reason_of(sentence: str) -> Reason | None:
    """None for somebody else's sentence."""
    return next((reason for reason, begins in _READ if begins.match(sentence)), None)


def moment_of(sentence: str, *, after_s: float) -> float | None:
    """The moment a sentence of ours names, in seconds since the epoch: the first such time of day
    after `after_s`, when it was said. None where it names none."""
    found = _MOMENT.findall(sentence)
    if not found:
        return None
    hour, minute, second = (int(part) for part in found[-1])
    at_s = after_s - after_s % _DAY_S + hour * 3600 + minute * 60 + second
    return at_s if at_s >= after_s - _SLACK_S else at_s + _DAY_S
