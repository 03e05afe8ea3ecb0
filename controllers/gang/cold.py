"""A gang that holds quota and of which nothing runs: ask, wait, and say Ready when all is booked.

One request per pool, all of them together. Ready only when every one is booked; one that fails,
or the provision deadline, ends the attempt for all. A booking that runs out while a sibling (or
Ready nodes) are waited for is asked again in the same attempt: a new object, since specs are
immutable, with the next serial, and with the moment of the first asking, so that the clock goes
on.
"""

from __future__ import annotations

from dataclasses import dataclass

from controllers.actions import Action, Create, Decision, SetCheck
from controllers.gang import nodes
from controllers.gang.failure import announce, attempt_text, fail, give_up, step_of, target
from controllers.gang.release import drop_all_but
from controllers.gang.seen import SeenGang, SeenJob
from taugrid_ray import names, sentences
from taugrid_ray.booking import (
    Asking,
    Booking,
    PoolGang,
    booking_of,
    covered_pod_sets,
    pod_set_updates,
    pools_of,
)
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.errors import ManifestError
from taugrid_ray.kinds.meta import parse_time
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST, Obj
from taugrid_ray.kinds.workload import Check, CheckState, Workload
from taugrid_ray.memory import Memory
from taugrid_ray.sentences import Told
from taugrid_ray.verdict import Answer, Verdict, answer_of

QUIET_S = 2.0
"""A state that lasts less is not worth a write to the Workload, the dearest call under load."""
REFUSED_RETRY_S = 30.0
"""How soon to create again what was refused; somebody may have mended a webhook or a quota."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One pool of the gang with the live request for it, if there is one."""

    pool: PoolGang
    booking: Booking
    request: ProvisioningRequest | None
    answer: Answer | None


def decide(
    seen: SeenGang, workload: Workload, check: Check, job: SeenJob, memory: Memory, now_s: float
) -> Decision:
    policy = seen.policy
    if policy is None:
        told = sentences.policy_invalid(seen.policy_fault)
        said = _say(workload, check, job, told, now_s, warning=True)
        return Decision((*_drop_stale(seen, ()), *said.actions))
    try:
        covered = covered_pod_sets(
            workload,
            on_flavors=seen.on_flavors,
            managed_resources=policy.managed_resources,
            flavors=seen.flavors,
            check_name=check.name,
        )
        pools = pools_of(covered, seen.flavors)
    except ManifestError as fault:
        told = sentences.gang_invalid(f"{fault.message}; {fault.hint}")
        return give_up(workload, check.name, job, policy, told, now_s)
    if not pools:
        return Decision(
            (*_drop_stale(seen, ()), _ready(workload, check, sentences.not_needed(), now_s))
        )
    asked_at_s = _asked_at(seen, workload, now_s)
    asked = _asked(seen, workload, job, policy, memory, pools, asked_at_s)
    stale = _drop_stale(seen, asked)
    limit_s = policy.provision_s(_own_deadline(job))
    gang = sentences.size([(a.pool.pool, a.pool.pods) for a in asked])
    wait = _Wait(policy, memory, gang, limit_s, asked_at_s + limit_s)

    if why := _final_no(asked, gang):
        return fail(workload, check.name, job, policy, memory, why, now_s)
    if all(a.answer and a.answer.verdict is Verdict.BOOKED for a in asked):
        held = nodes.hold(
            seen, policy, asked_pools=pools, booked_at_s=_booked_at(asked), now_s=now_s
        )
        if held is None:
            return _all_booked(workload, check, job, policy, memory, asked, stale, gang, now_s)
        if held.failed:
            return fail(workload, check.name, job, policy, memory, held.told(gang), now_s)
        said = _say(workload, check, job, held.told(gang), now_s)
        return Decision((*stale, *said.actions), wake_after_s=held.left_s, needs_nodes=True)
    if now_s >= wait.until_s:
        told = _out_of_time(seen, asked, wait, step_of(policy, memory).provisioning_class_name)
        return fail(workload, check.name, job, policy, memory, told, now_s)
    return _ask_and_wait(seen, workload, check, job, asked, stale, wait, asked_at_s, now_s)


@dataclass(frozen=True, slots=True)
class _Wait:
    policy: CapacityPolicySpec
    memory: Memory
    gang: str
    limit_s: float
    until_s: float

    @property
    def attempt(self) -> str:
        return attempt_text(self.policy, self.memory)


def _own_deadline(job: SeenJob) -> int | None:
    """What the job itself asked for, in seconds; None where it wrote no whole number."""
    text = job.provision_deadline.strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 10**9 else None


def _asked_at(seen: SeenGang, workload: Workload, now_s: float) -> float:
    """When this reservation first asked: the earliest mark on its requests, or now.

    What the API server refuses leaves no mark, so there the clock starts with the reservation.
    """
    reservation = workload.reservation
    marks = []
    for request in seen.requests:
        notes = request.meta.annotations
        if reservation is None or notes.get(names.RESERVATION) != reservation.changed_at:
            continue
        try:
            marks.append(parse_time(notes.get(names.ASKED_AT, "")))
        except ValueError:
            marks.append(request.meta.created_at_s or now_s)
    first_s = reservation.changed_at_s if seen.refused and reservation is not None else now_s
    return min(marks, default=first_s)


def _asked(
    seen: SeenGang,
    workload: Workload,
    job: SeenJob,
    policy: CapacityPolicySpec,
    memory: Memory,
    pools: tuple[PoolGang, ...],
    asked_at_s: float,
) -> tuple[Asked, ...]:
    reservation = workload.reservation
    step = step_of(policy, memory)
    asking = Asking(
        class_name=step.provisioning_class_name,
        parameters=step.parameters,
        reservation=reservation.changed_at if reservation else "",
        attempt=memory.failures + 1,
        salt=seen.salt,
    )
    found = []
    for pool in pools:
        booking = booking_of(
            workload,
            job.ref,
            pool,
            asking,
            serial=1,
            asked_at_s=asked_at_s,
            owned=not job.name_is_a_workloads,
        )
        mine = [
            r
            for r in seen.requests
            if r.meta.annotations.get(names.SPEC_HASH) == booking.spec_hash
            and not r.meta.is_terminating
        ]
        last = max(mine, key=_serial, default=None)
        answer = answer_of(last) if last is not None else None
        serial = _serial(last) if last is not None else 1
        if answer is not None and answer.verdict in (Verdict.EXPIRED, Verdict.CONSUMED):
            serial += 1
        if serial != 1:
            booking = booking_of(
                workload,
                job.ref,
                pool,
                asking,
                serial=serial,
                asked_at_s=asked_at_s,
                owned=not job.name_is_a_workloads,
            )
        found.append(Asked(pool, booking, last, answer))
    return tuple(found)


def _serial(request: ProvisioningRequest) -> int:
    text = request.label(names.SERIAL)
    return int(text) if text.isascii() and text.isdigit() else 1


def _drop_stale(seen: SeenGang, asked: tuple[Asked, ...]) -> tuple[Action, ...]:
    """Delete what belongs to another attempt, reservation or count, and templates nobody names."""
    live = tuple(a.request for a in asked if a.request is not None)
    wanted = {t["metadata"]["name"] for a in asked for t in a.booking.templates}
    return drop_all_but(seen, live, templates=wanted)


def _final_no(asked: tuple[Asked, ...], gang: str) -> Told | None:
    for a in asked:
        if a.answer is None:
            continue
        if a.answer.verdict is Verdict.FAILED:
            return sentences.failed(gang, a.answer.message)
        if a.answer.verdict is Verdict.REVOKED:
            return sentences.revoked(gang, a.answer.message)
    return None


def _out_of_time(seen: SeenGang, asked: tuple[Asked, ...], wait: _Wait, class_name: str) -> Told:
    if seen.refused and any(a.request is None for a in asked):
        return sentences.refused(wait.gang, seen.refused)
    words = next(
        (a.answer.message for a in asked if a.answer and a.answer.verdict is Verdict.NO_ROOM), ""
    )
    return sentences.timed_out(wait.gang, wait.limit_s, words, class_name)


def _booked_at(asked: tuple[Asked, ...]) -> float:
    return max((a.answer.since_s for a in asked if a.answer is not None), default=0.0)


def _ask_and_wait(
    seen: SeenGang,
    workload: Workload,
    check: Check,
    job: SeenJob,
    asked: tuple[Asked, ...],
    stale: tuple[Action, ...],
    wait: _Wait,
    asked_at_s: float,
    now_s: float,
) -> Decision:
    missing = [a for a in asked if a.request is None or a.booking.serial != _serial(a.request)]
    left_s = wait.until_s - now_s
    if missing and seen.refused:
        told = sentences.refused(wait.gang, seen.refused)
        said = _say(workload, check, job, told, now_s, warning=True)
        # Told first: news of a decision whose create fails again would never get out.
        again = said.actions or _creates(seen, missing)
        return Decision((*stale, *again), wake_after_s=min(left_s, REFUSED_RETRY_S))
    if missing:
        return Decision((*stale, *_creates(seen, missing)), wake_after_s=min(left_s, QUIET_S))
    quiet_left_s = asked_at_s + QUIET_S - now_s
    if quiet_left_s > 0:
        return Decision(stale, wake_after_s=min(left_s, quiet_left_s))
    no_room = [a.answer for a in asked if a.answer and a.answer.verdict is Verdict.NO_ROOM]
    if no_room:
        told = sentences.waiting(wait.gang, wait.attempt, no_room[0].message, wait.until_s)
    else:
        told = sentences.requested(wait.gang, wait.attempt, wait.until_s)
    said = _say(workload, check, job, told, now_s)
    return Decision((*stale, *said.actions), wake_after_s=left_s)


def _creates(seen: SeenGang, missing: list[Asked]) -> tuple[Action, ...]:
    """Templates before requests: a request that finds its template missing fails for good."""
    there = {t.name for t in seen.templates}
    templates = tuple(
        Create(POD_TEMPLATE, t)
        for a in missing
        for t in a.booking.templates
        if t["metadata"]["name"] not in there
    )
    return (*templates, *(Create(PROVISIONING_REQUEST, a.booking.request) for a in missing))


def _all_booked(
    workload: Workload,
    check: Check,
    job: SeenJob,
    policy: CapacityPolicySpec,
    memory: Memory,
    asked: tuple[Asked, ...],
    stale: tuple[Action, ...],
    gang: str,
    now_s: float,
) -> Decision:
    """Ready, with the booking's name for every pod. Pods of an elastic gang get it one by one, from
    us: in their template it would go stale with the first growth, and Kueue, which takes the
    template of a slice from what runs, would keep it there for good.
    """
    told = sentences.booked(gang)
    updates: tuple[Obj, ...] = ()
    if not workload.is_elastic:
        bookings = tuple((a.pool, a.request.meta.name) for a in asked if a.request is not None)
        updates = pod_set_updates(
            workload.uid, bookings, step_of(policy, memory).provisioning_class_name
        )
    ready = SetCheck(
        target(workload),
        check.index,
        check.name,
        CheckState.READY,
        told.reason,
        told.sentence,
        now_s,
        updates,
    )
    return Decision((ready, *stale, announce(workload, job, told, now_s)))


def _ready(workload: Workload, check: Check, told: Told, now_s: float) -> Action:
    return SetCheck(
        target(workload),
        check.index,
        check.name,
        CheckState.READY,
        told.reason,
        told.sentence,
        now_s,
    )


def _say(
    workload: Workload,
    check: Check,
    job: SeenJob,
    told: Told,
    now_s: float,
    *,
    warning: bool = False,
) -> Decision:
    """Put the sentence on the check and the user's object, once."""
    if check.message == told.sentence:
        return Decision()
    entry = SetCheck(
        target(workload),
        check.index,
        check.name,
        CheckState.PENDING,
        told.reason,
        told.sentence,
        now_s,
    )
    return Decision((entry, announce(workload, job, told, now_s, warning=warning)))
