"""The requests for a growth: one per pool, for the delta alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controllers.growth.seen import SeenGrowth
from controllers.growth.tally import GroupTally
from taugrid_ray import names
from taugrid_ray.booking import (
    Asking,
    Booking,
    CoveredPodSet,
    PoolGang,
    booking_of,
    covered_pod_sets,
    pools_of,
)
from taugrid_ray.capacity_policy import CapacityPolicySpec, Step
from taugrid_ray.kinds.meta import OwnerRef, parse_time
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.resource import RAY_CLUSTER
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.verdict import Answer, Verdict, answer_of


@dataclass(frozen=True, slots=True)
class Asked:
    """One pool's share of the delta, with the live request for it if there is one."""

    pool: PoolGang
    booking: Booking
    request: ProvisioningRequest | None
    answer: Answer | None

    @property
    def is_missing(self) -> bool:
        return self.request is None or serial_of(self.request) != self.booking.serial


def coverage(
    seen: SeenGrowth, cluster: RayCluster, current: Workload
) -> Mapping[str, CoveredPodSet]:
    """By pod set name: the worker groups that the check covers. The head never grows, and bears the
    name of its first booking for good. Raises ManifestError as `covered_pod_sets`.
    """
    if seen.policy is None:
        return {}
    found = covered_pod_sets(
        current,
        on_flavors=seen.on_flavors,
        managed_resources=seen.policy.managed_resources,
        flavors=seen.flavors,
        check_name=seen.check,
        only={g.pod_set for g in cluster.groups},
    )
    return {p.name: p for p in found}


def mark_of(current: Workload) -> str:
    """What tells the requests of one wish from the next: its slice and its quota reservation."""
    reservation = current.reservation
    return f"{current.uid}/{reservation.changed_at if reservation else ''}"


def asked_at(seen: SeenGrowth, current: Workload, now_s: float) -> float:
    """When this wish first asked: the earliest mark on its requests, or now."""
    mark = mark_of(current)
    marks = []
    for request in seen.requests:
        notes = request.meta.annotations
        if notes.get(names.RESERVATION) != mark:
            continue
        try:
            marks.append(parse_time(notes.get(names.ASKED_AT, "")))
        except ValueError:
            marks.append(request.meta.created_at_s or now_s)
    reservation = current.reservation
    first_s = reservation.changed_at_s if seen.refused and reservation is not None else now_s
    return min(marks, default=first_s)


def step_after(policy: CapacityPolicySpec, failures: int) -> Step:
    """The step for the attempt after so many refusals; the last one for all beyond."""
    for step in policy.steps:
        if failures < step.attempts:
            return step
        failures -= step.attempts
    return policy.steps[-1]


def ask(
    seen: SeenGrowth,
    cluster: RayCluster,
    current: Workload,
    policy: CapacityPolicySpec,
    covered: Mapping[str, CoveredPodSet],
    growing: tuple[GroupTally, ...],
    failures: int,
    asked_at_s: float,
) -> tuple[Asked, ...]:
    """growing: the groups with a delta. failures: refusals in a row, the most of any of them."""
    step = step_after(policy, failures)
    asking = Asking(
        class_name=step.provisioning_class_name,
        parameters=step.parameters,
        reservation=mark_of(current),
        attempt=failures + 1,
        salt=seen.salt,
    )
    owner = OwnerRef(
        RAY_CLUSTER.api_version, RAY_CLUSTER.kind, cluster.meta.name, cluster.meta.uid, False
    )
    wanted = tuple(replace(covered[t.group.pod_set], count=t.delta) for t in growing)
    found = []
    for pool in pools_of(wanted, seen.flavors):

        def made(serial: int, pool: PoolGang = pool) -> Booking:
            return booking_of(
                current,
                owner,
                pool,
                asking,
                serial=serial,
                asked_at_s=asked_at_s,
                cluster_uid=cluster.meta.uid,
            )

        booking = made(1)
        mine = [
            r
            for r in seen.requests
            if r.meta.annotations.get(names.SPEC_HASH) == booking.spec_hash
            and not r.meta.is_terminating
        ]
        last = max(mine, key=serial_of, default=None)
        answer = answer_of(last) if last is not None else None
        serial = serial_of(last) if last is not None else 1
        if answer is not None and answer.verdict in (
            Verdict.BOOKED,
            Verdict.EXPIRED,
            Verdict.CONSUMED,
        ):
            # Booked and still asked for: it was given away, and the same number is wanted again.
            serial += 1
        found.append(Asked(pool, made(serial), last, answer))
    return tuple(found)


def serial_of(request: ProvisioningRequest) -> int:
    text = request.label(names.SERIAL)
    return int(text) if text.isascii() and text.isdigit() else 1
