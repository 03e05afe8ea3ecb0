"""ProvisioningRequests: which is looked at, what it is told, and when its booking ends.

Words and order are the autoscaler's. A loop begins by ending what ran out. Then one request is
taken up (the oldest; the real one has no order) and accepted, all bookings are laid on the
nodes, and the request is answered:

    Provisioned=True   CapacityIsFound        everything fits on existing and upcoming nodes
                       CapacityIsProvisioned  the rest fits one pool, and the cloud took the order
    Provisioned=False  CapacityIsNotFound     neither; asked again after a back-off, for ever
    Failed=True                               a template is missing, or noRetry

A booking counts the whole request, also when its pods already run: up to release 1.36 they are
counted twice.
"""

from __future__ import annotations

from dataclasses import replace

from e2e.pools import cloud
from e2e.pools.fit import Group, fill
from e2e.pools.settings import BEST_EFFORT_ATOMIC, CHECK_CAPACITY, Broken, Pool
from e2e.pools.state import Request
from e2e.pools.turn import Turn
from taugrid_ray.kinds.provisioning_request import (
    ACCEPTED,
    BOOKING_CONSUMED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
)

ENDED_PER_LOOP_MAX = 20
IS_ACCEPTED = "ProvisioningRequest is accepted by ClusterAutoscaler"
IS_FOUND = "Capacity is found in the cluster"
IS_NOT_FOUND = "Capacity is not found, CA will try to find it later."
IS_NOT_FOUND_FINALLY = "CA could not find requested capacity"
RESERVATION_EXPIRED = "Capacity reservation time is expired"
RESERVATION_CONSUMED = "Capacity booking is consumed by the pods of the request"
REQUEST_EXPIRED = "ProvisioningRequest is expired"


class MissingTemplates(Exception):
    """The message is the autoscaler's own."""


def groups_of(turn: Turn, request: Request) -> tuple[Group, ...]:
    """The pods that the request stands for. Raises MissingTemplates."""
    sets = request.pod_sets
    found = turn.seen.templates
    missing = [s.template for s in sets if (request.namespace, s.template) not in found]
    if missing:
        raise MissingTemplates(
            f"missing pod templates, {len(sets)} pod templates were referenced, "
            f"{len(missing)} templates were missing: {','.join(missing)}"
        )
    return tuple((found[request.namespace, s.template], s.count) for s in sets)


def rule_for(turn: Turn, request: Request) -> Broken | None:
    """The first rule that forces an answer upon the request."""
    for rule in turn.habits.broken_for:
        if rule.match.holds(
            request.name, request.namespace, request.class_name, dict(request.labels)
        ):
            return rule
    return None


def end_what_ran_out(turn: Turn) -> None:
    """Forced answers, expired bookings and requests, and requests old enough to be removed."""
    ended = 0
    for request in turn.seen.requests:
        rule = rule_for(turn, request)
        if rule is not None:
            _force(turn, request, rule)
        if ended < ENDED_PER_LOOP_MAX and _is_served(turn, request) and not _silent(rule):
            ended += _expire(turn, turn.requests[request.uid])
        _remove_if_old(turn, turn.requests[request.uid])


def _silent(rule: Broken | None) -> bool:
    return rule is not None and rule.answer == "Silent"


def _is_served(turn: Turn, request: Request) -> bool:
    return request.class_name in turn.habits.classes


def _force(turn: Turn, request: Request, rule: Broken) -> None:
    """Failed counts from the creation, the other two from Provisioned."""
    provisioned = request.condition(PROVISIONED)
    is_provisioned = provisioned is not None and provisioned.is_true
    since_s = request.created_at_s
    if is_provisioned and provisioned is not None:
        since_s = provisioned.changed_at_s
    if turn.now_s - since_s < rule.after_seconds:
        return
    match rule.answer:
        case "Failed" if not is_provisioned:
            defaults = (FAILED, "CapacityIsNotFound", IS_NOT_FOUND_FINALLY)
        case "BookingExpired" if is_provisioned:
            defaults = (BOOKING_EXPIRED, "CapacityReservationTimeExpired", RESERVATION_EXPIRED)
        case "CapacityRevoked" if is_provisioned:
            defaults = (CAPACITY_REVOKED, "CapacityRevoked", "Capacity is revoked")
        case _:
            return
    type_, reason, message = defaults
    if not request.says(type_):
        turn.say(request.uid, type_, "True", rule.reason or reason, rule.message or message)
        turn.note(f"request {request.key}: {type_}, as a rule of brokenFor demands")


def _expire(turn: Turn, request: Request) -> bool:
    if request.says(BOOKING_EXPIRED) or request.says(FAILED):
        return False
    provisioned = request.condition(PROVISIONED)
    if provisioned is not None and provisioned.is_true:
        if turn.now_s - provisioned.changed_at_s <= turn.habits.booking_seconds:
            return False
        reason = "CapacityReservationTimeExpired"
        turn.say(request.uid, BOOKING_EXPIRED, "True", reason, RESERVATION_EXPIRED)
        turn.note(f"request {request.key}: its booking has run out")
        return True
    if turn.now_s - request.created_at_s <= turn.habits.request_expiry_seconds:
        return False
    turn.say(request.uid, FAILED, "True", "Expired", REQUEST_EXPIRED)
    return True


def _remove_if_old(turn: Turn, request: Request) -> None:
    """Of any class: a request whose answer is older than the expiry time is deleted."""
    answers = (request.condition(PROVISIONED), request.condition(FAILED))
    limit_s = turn.habits.request_expiry_seconds
    if any(c is not None and turn.now_s - c.changed_at_s > limit_s for c in answers):
        turn.forget(request)


def take_up(turn: Turn) -> list[Request]:
    """The requests that this loop answers: one, or a batch of check-capacity ones."""
    taken: list[Request] = []
    for request in sorted(turn.requests.values(), key=lambda r: (r.created_at_s, r.key)):
        batch = turn.habits.check_capacity_batch if taken else 1
        if len(taken) >= batch or not _is_due(turn, request):
            continue
        if taken and not taken[0].class_name == request.class_name == CHECK_CAPACITY:
            continue
        try:
            groups_of(turn, request)
        except MissingTemplates as missing:
            turn.say(request.uid, FAILED, "True", "FailedToCreatePods", str(missing))
            turn.note(f"request {request.key}: failed, {missing}")
            continue
        turn.say(request.uid, ACCEPTED, "True", "Accepted", IS_ACCEPTED)
        taken.append(turn.requests[request.uid])
    return taken


def is_open(turn: Turn, request: Request) -> bool:
    """Served, old enough to be looked at, and without a final answer."""
    if request.says(FAILED) or request.says(PROVISIONED) or not _is_served(turn, request):
        return False
    wait_s = turn.habits.answer_delay_seconds
    rule = rule_for(turn, request)
    if rule is not None:
        if rule.answer in ("Silent", "Failed"):
            return False
        wait_s = max(wait_s, rule.after_seconds if rule.answer == "NotFound" else 0)
    return turn.now_s - request.created_at_s >= wait_s


def _is_due(turn: Turn, request: Request) -> bool:
    """Open, and not resting after a refusal; the next rest is twice as long."""
    if not is_open(turn, request):
        return False
    refused = request.condition(PROVISIONED)
    if refused is None:
        return True
    rest_s = turn.memory.backoff_s.get(request.uid, turn.habits.initial_backoff_seconds)
    if turn.now_s - refused.changed_at_s <= rest_s:
        return False
    longer_s = min(rest_s * 2, turn.habits.max_backoff_seconds)
    turn.memory = replace(turn.memory, backoff_s={**turn.memory.backoff_s, request.uid: longer_s})
    return True


def book(turn: Turn) -> None:
    """Lay every live booking on the nodes, in full."""
    bound: dict[str, int] = {}
    for pod in turn.seen.pods:
        if pod.node and pod.consumes and not pod.has_ended:
            key = f"{pod.namespace}/{pod.consumes}"
            bound[key] = bound.get(key, 0) + 1
    for request in list(turn.requests.values()):
        if not request.is_booked or not _is_served(turn, request):
            continue
        if turn.habits.booking_consumed and bound.get(request.key, 0) >= request.pods:
            turn.say(request.uid, BOOKING_EXPIRED, "True", BOOKING_CONSUMED, RESERVATION_CONSUMED)
            turn.note(f"request {request.key}: its booking is used up by its pods")
            continue
        try:
            turn.snapshot.place_all(groups_of(turn, request))
        except MissingTemplates as missing:
            message = f"Couldn't create pods, err: {missing}"
            turn.say(request.uid, FAILED, "True", "FailedToBookCapacity", message)


def answer(turn: Turn, request: Request) -> None:
    """Say whether there is room; the room found is taken for the rest of the loop."""
    turn.again = True
    groups = groups_of(turn, request)
    rule = rule_for(turn, request)
    if rule is not None and rule.answer == "NotFound":
        _refuse(turn, request, rule.reason, rule.message)
        return
    trial = turn.snapshot.fork()
    left = trial.place_all(groups)
    if not left:
        turn.snapshot = trial
        turn.say(request.uid, PROVISIONED, "True", "CapacityIsFound", IS_FOUND)
        turn.note(f"request {request.key}: fits on existing and upcoming nodes")
        return
    if request.class_name == CHECK_CAPACITY and request.parameters.get("noRetry") == "true":
        turn.say(request.uid, FAILED, "True", "CapacityIsNotFound", IS_NOT_FOUND_FINALLY)
        turn.note(f"request {request.key}: no room, and noRetry is set")
        return
    if request.class_name == BEST_EFFORT_ATOMIC and _grow_one_pool(turn, left):
        turn.snapshot = trial
        turn.say(request.uid, PROVISIONED, "True", "CapacityIsProvisioned", IS_FOUND)
        return
    _refuse(turn, request)


def _refuse(turn: Turn, request: Request, reason: str = "", message: str = "") -> None:
    reason, message = reason or "CapacityIsNotFound", message or IS_NOT_FOUND
    turn.say(request.uid, PROVISIONED, "False", reason, message)
    turn.note(f"request {request.key}: no room")


def _grow_one_pool(turn: Turn, left: tuple[Group, ...]) -> bool:
    """All that is left must fit one pool: the one that needs the fewest nodes, then the first."""
    options: list[tuple[int, int, Pool]] = []
    for rank, pool in enumerate(turn.settings.pools):
        if turn.is_paused(pool):
            continue
        filling = fill(left, turn.templates[pool.name], pool.max - turn.target(pool))
        if not filling.left:
            options.append((filling.nodes, rank, pool))
    if not options:
        return False
    nodes, _, pool = min(options, key=lambda option: option[:2])
    return cloud.increase(turn, pool, nodes)


def answer_all_at_once(turn: Turn) -> None:
    """The instant autoscaler: yes to everything that no rule forbids."""
    for request in turn.seen.requests:
        if not is_open(turn, request):
            continue
        rule = rule_for(turn, request)
        if rule is None or rule.answer != "NotFound":
            turn.say(request.uid, ACCEPTED, "True", "Accepted", IS_ACCEPTED)
            turn.say(request.uid, PROVISIONED, "True", "CapacityIsProvisioned", IS_FOUND)
        elif request.condition(PROVISIONED) is None:
            _refuse(turn, request, rule.reason, rule.message)
