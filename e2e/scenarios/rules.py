"""The rules of the design, checked on what the API server told: pure functions over the record.

Each gets all changes of one scenario and answers the breaches it found, as sentences. A breach
while the controller was down on purpose does not count (`down`: the spans in which it was).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.scenarios.record import Seen, of_kind
from taugrid_ray import names
from taugrid_ray.growth_memory import GrowthMemory, parse_growth_memory
from taugrid_ray.kinds import fields
from taugrid_ray.kinds import provisioning_request as pr
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import find, is_true, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.pod import RUNNING, Pod, parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.raycluster import RayCluster, parse_raycluster
from taugrid_ray.kinds.resource import POD, PROVISIONING_REQUEST, RAY_CLUSTER, WORKLOAD, Obj
from taugrid_ray.kinds.workload import CheckState, parse_workload
from taugrid_ray.memory import Pause, parse_memory

SLACK_S = 10.0
"""R3 and R4 give this much; R8 gives one loop, which is far less."""


@dataclass(frozen=True, slots=True)
class Account:
    """What happened, and what must be known to judge it."""

    changes: tuple[Seen, ...]
    ended_at_s: float
    check: str
    """Name of our AdmissionCheck."""
    provision_s: float
    down: tuple[tuple[float, float], ...] = ()

    def excused_s(self, from_s: float, to_s: float) -> float:
        """How much of a span the controller was down; a restart needs a moment to list."""
        return sum(max(0.0, min(to_s, b + 3.0) - max(from_s, a)) for a, b in self.down)


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    says: str
    breaches: tuple[str, ...]

    @property
    def held(self) -> bool:
        return not self.breaches


def check_all(account: Account) -> tuple[Finding, ...]:
    return tuple(Finding(rule, says, tuple(judge(account))) for rule, says, judge in RULES)


def _r1(account: Account) -> list[str]:
    """No Retry, Rejected or park by us while a covered pod runs."""
    running: dict[str, set[str]] = {}
    breaches = []
    for seen in account.changes:
        if seen.kind == POD:
            pod = parse_pod(seen.some)
            uid = pod.meta.labels.get(names.WORKLOAD_UID, "")
            runs = seen.obj is not None and pod.phase == RUNNING and not pod.meta.is_terminating
            members = running.setdefault(uid, set())
            (members.add if runs else members.discard)(pod.meta.name)
        elif seen.kind == WORKLOAD and seen.obj is not None:
            found = running.get(parse_meta(seen.obj).uid)
            if found and _hurts(seen, account.check):
                breaches.append(f"{seen.key.name}: stopped while {sorted(found)} ran")
    return breaches


def _hurts(seen: Seen, check: str) -> bool:
    assert seen.obj is not None
    now = parse_workload(seen.obj)
    before = parse_workload(seen.before) if seen.before is not None else None
    entry, was = now.check(check), before.check(check) if before else None
    bad = (CheckState.RETRY, CheckState.REJECTED)
    if entry is not None and entry.state in bad and (was is None or was.state not in bad):
        return True
    memory = parse_memory(now.meta.annotations.get(names.MEMORY))
    ours = memory.pause in (Pause.PARKED, Pause.GAVE_UP)
    return ours and not now.active and (before is None or before.active)


def _r2(account: Account) -> list[str]:
    """All or nothing: Ready only when every request of the reservation is Provisioned."""
    requests: dict[str, dict[str, Obj]] = {}
    breaches = []
    for seen in account.changes:
        if seen.kind == PROVISIONING_REQUEST:
            request = parse_provisioning_request(seen.some)
            of_gang = requests.setdefault(request.workload_uid, {})
            if seen.obj is None:
                of_gang.pop(request.meta.name, None)
            else:
                of_gang[request.meta.name] = seen.obj
        elif seen.kind == WORKLOAD and seen.obj is not None:
            breaches += _too_early(seen, account.check, requests)
        elif seen.kind == POD and seen.before is None:
            breaches += _pod_before_booking(seen, requests)
    return breaches


def _too_early(seen: Seen, check: str, requests: dict[str, dict[str, Obj]]) -> list[str]:
    assert seen.obj is not None
    now = parse_workload(seen.obj)
    before = parse_workload(seen.before) if seen.before is not None else None
    entry, was = now.check(check), before.check(check) if before else None
    if entry is None or entry.state is not CheckState.READY or not entry.updates:
        return []
    if was is not None and was.state is CheckState.READY:
        return []
    named = {fields.text(update, "annotations", names.CONSUME) for update in entry.updates}
    mine = requests.get(now.uid, {})
    reservation = now.reservation.changed_at if now.reservation else ""
    late = [
        name
        for name, obj in mine.items()
        if not is_true(parse_conditions(obj), pr.PROVISIONED)
        and parse_meta(obj).annotations.get(names.RESERVATION) == reservation
    ]
    gone = sorted(named - set(mine))
    return [f"{seen.key.name}: Ready while {name} was not booked" for name in late] + [
        f"{seen.key.name}: Ready with booking {name}, which is not there" for name in gone
    ]


def _pod_before_booking(seen: Seen, requests: dict[str, dict[str, Obj]]) -> list[str]:
    pod = parse_pod(seen.some)
    booked = requests.get(pod.meta.labels.get(names.WORKLOAD_UID, ""), {}).get(pod.booking)
    if booked is None or is_true(parse_conditions(booked), pr.PROVISIONED):
        return []
    return [f"pod {pod.meta.name} made before {pod.booking} was booked"]


def _r3(account: Account) -> list[str]:
    """Requests and templates are gone 10 s after nobody needs them."""
    needed_until: dict[str, float] = {}
    bound: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    born: dict[tuple[str, str], tuple[str, float]] = {}
    gone: dict[tuple[str, str], float] = {}
    for seen in account.changes:
        if seen.kind in (WORKLOAD, RAY_CLUSTER):
            uid = parse_meta(seen.some).uid
            over = seen.obj is None or _is_over(seen)
            if over:
                needed_until.setdefault(uid, seen.at_s)
            else:
                needed_until.pop(uid, None)
        elif seen.kind.kind in ("ProvisioningRequest", "PodTemplate"):
            meta = parse_meta(seen.some)
            place = (seen.kind.kind, meta.name)
            if meta.labels.get(names.MANAGED_BY) != names.MANAGED_BY_US:
                continue
            if seen.obj is None:
                gone[place] = seen.at_s
            else:
                # What growth asked for belongs to its cluster, whatever slice stands for it.
                owner = meta.labels.get(names.CLUSTER_UID) or meta.labels.get(names.WORKLOAD_UID)
                born.setdefault(place, (owner or "", seen.at_s))
                if seen.kind == PROVISIONING_REQUEST:
                    counts[meta.name] = parse_provisioning_request(seen.some).pods
        elif seen.kind == POD:
            pod = parse_pod(seen.some)
            if not pod.node or not pod.booking:
                continue
            members = bound.setdefault(pod.booking, set())
            if seen.obj is None and not pod.has_ended:
                # Lost with its node: the pod that replaces it may still need the booking.
                members.discard(pod.meta.name)
                needed_until.pop(f"booking/{pod.booking}", None)
                continue
            members.add(pod.meta.name)
            if len(members) >= counts.get(pod.booking, 1 << 30):
                needed_until.setdefault(f"booking/{pod.booking}", seen.at_s)
    breaches = []
    for (kind, name), (uid, born_s) in born.items():
        moments = [needed_until[k] for k in (uid, f"booking/{name}") if k in needed_until]
        if not moments:
            continue
        from_s = max(min(moments), born_s)
        to_s = gone.get((kind, name), account.ended_at_s)
        late_s = to_s - from_s - account.excused_s(from_s, to_s)
        if late_s > SLACK_S:
            breaches.append(f"{kind} {name} stayed {late_s:.1f} s after it was no longer needed")
    return breaches


def _is_over(seen: Seen) -> bool:
    if seen.kind == RAY_CLUSTER:
        cluster = parse_raycluster(seen.some)
        return cluster.suspend or cluster.meta.is_terminating
    workload = parse_workload(seen.some)
    finished = find(workload.conditions, wl.FINISHED)
    replaced = finished is not None and finished.reason == wl.SLICE_REPLACED
    return (
        not workload.active
        or (workload.is_true(wl.FINISHED) and not replaced)
        or workload.is_true(wl.EVICTED)
        or workload.meta.is_terminating
    )


def _r4(account: Account) -> list[str]:
    """A cold gang that is parked or gave up holds no quota 10 s later."""
    parked_at: dict[str, float] = {}
    breaches = []

    def judge(name: str, to_s: float) -> None:
        held_s = to_s - parked_at.pop(name)
        if held_s > SLACK_S:
            breaches.append(f"{name} held quota for {held_s:.1f} s after it was parked")

    for seen in of_kind(account.changes, WORKLOAD):
        name = seen.key.name
        if seen.obj is None:
            if name in parked_at:
                judge(name, seen.at_s)
            continue
        workload = parse_workload(seen.obj)
        ours = parse_memory(workload.meta.annotations.get(names.MEMORY)).pause
        holds = workload.reservation is not None
        if not workload.active and ours in (Pause.PARKED, Pause.GAVE_UP) and holds:
            parked_at.setdefault(name, seen.at_s)
        elif name in parked_at:
            judge(name, seen.at_s)
    for name in tuple(parked_at):
        judge(name, account.ended_at_s)
    return breaches


def _r8(account: Account) -> list[str]:
    """No unbooked request is older than its deadline plus one loop."""
    born: dict[str, float] = {}
    breaches = []

    def judge(name: str, to_s: float) -> None:
        from_s = born.pop(name)
        age_s = to_s - from_s - account.excused_s(from_s, to_s)
        if age_s > account.provision_s + SLACK_S:
            breaches.append(f"{name} was {age_s:.1f} s old, unbooked")

    for seen in of_kind(account.changes, PROVISIONING_REQUEST):
        name = seen.key.name
        if parse_meta(seen.some).labels.get(names.MANAGED_BY) != names.MANAGED_BY_US:
            continue
        over = seen.obj is None or is_true(parse_conditions(seen.obj), pr.PROVISIONED)
        if not over:
            born.setdefault(name, seen.at_s)
        elif name in born:
            judge(name, seen.at_s)
    for name in tuple(born):
        judge(name, account.ended_at_s)
    return breaches


def _r5(account: Account) -> list[str]:
    """Growth asks for no more than is wanted beyond what runs, and for one wish at a time."""
    clusters: dict[str, RayCluster] = {}
    pods: dict[str, Pod] = {}
    waiting: dict[str, dict[str, str]] = {}
    breaches = []
    for seen in account.changes:
        meta = parse_meta(seen.some)
        if seen.kind == RAY_CLUSTER:
            clusters[meta.uid] = parse_raycluster(seen.some)
        elif seen.kind == POD:
            pods[meta.name] = parse_pod(seen.some)
            if seen.obj is None:
                pods.pop(meta.name)
        elif seen.kind == PROVISIONING_REQUEST and names.CLUSTER_UID in meta.labels:
            uid = meta.labels[names.CLUSTER_UID]
            marks = waiting.setdefault(uid, {})
            conditions = parse_conditions(seen.some)
            if seen.obj is None or is_true(conditions, pr.PROVISIONED):
                marks.pop(meta.name, None)
            else:
                marks[meta.name] = meta.annotations.get(names.RESERVATION, "")
            if seen.before is None and uid in clusters:
                breaches += _too_many(meta, clusters[uid], list(pods.values()))
                if len(set(marks.values())) > 1:
                    breaches.append(f"{meta.name}: asked beside another wish, {sorted(marks)}")
    return breaches


def _too_many(request: ObjectMeta, cluster: RayCluster, pods: list[Pod]) -> list[str]:
    counts = json.loads(request.annotations.get(names.COUNTS, "{}"))
    breaches = []
    for group in cluster.groups:
        run = sum(
            1
            for p in pods
            if p.is_live
            and names.GATE not in p.gates
            and p.meta.labels.get(names.RAY_CLUSTER_LABEL) == cluster.meta.name
            and p.meta.labels.get(names.RAY_GROUP_LABEL) == group.name
        )
        wanted, asked = group.counted_pods, counts.get(group.pod_set, 0)
        if asked > max(0, wanted - run):
            breaches.append(
                f'{request.name}: {asked} pods of "{group.name}" asked for; '
                f"{wanted} are wanted and {run} run"
            )
    return breaches


def _r6(account: Account) -> list[str]:
    """A lowered limit is given back when its time is over."""
    due: dict[tuple[str, str], float] = {}
    breaches = []

    def judge(key: tuple[str, str], to_s: float) -> None:
        from_s = due.pop(key)
        late_s = to_s - from_s - account.excused_s(from_s, to_s)
        if late_s > SLACK_S:
            breaches.append(f'"{key[1]}" of {key[0]} stayed lowered {late_s:.1f} s too long')

    for seen in of_kind(account.changes, RAY_CLUSTER):
        cluster = parse_raycluster(seen.some)
        notes = cluster.meta.annotations.get(names.GROWTH)
        memory = parse_growth_memory(notes) or GrowthMemory()
        for group in cluster.groups:
            key = (cluster.meta.name, group.name)
            held = memory.group(group.name).clamp
            if held is not None and seen.obj is not None:
                due[key] = held.until_s
            elif key in due:
                judge(key, seen.at_s)
    for key in tuple(due):
        judge(key, account.ended_at_s)
    return breaches


RULES: Sequence[tuple[str, str, Callable[[Account], list[str]]]] = (
    ("R1", "nothing that runs is stopped by us", _r1),
    ("R2", "a gang starts only when all of it is booked", _r2),
    ("R3", "requests and templates are gone 10 s after their use", _r3),
    ("R4", "a parked gang holds no quota after 10 s", _r4),
    ("R5", "growth asks for its delta, one wish at a time", _r5),
    ("R6", "lowered limits are given back", _r6),
    ("R8", "no unbooked request outlives its deadline", _r8),
)
