"""Beyond the rules that never break: what a life must look like when the policy is kept.

Judged on the whole record, like the rules: each answers the breaches as sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from e2e.scenarios.record import Seen, of_kind
from taugrid_ray import names
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds import provisioning_request as pr
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.conditions import is_true, parse_conditions
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.memory import FRESH, Memory, Pause, parse_memory

SOON_S = 10.0
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Story:
    changes: tuple[Seen, ...]
    policy: CapacityPolicySpec
    ended_at_s: float
    excused_s: Callable[[float, float], float]
    """How long the controller was away between two moments."""


def memory_of(workload: Obj | None) -> Memory:
    if workload is None:
        return FRESH
    return parse_memory((workload["metadata"].get("annotations") or {}).get(names.MEMORY))


def judge(story: Story) -> list[str]:
    return [
        breach
        for look in (
            _stops,
            _attempts,
            _words,
            _asked_for,
            _own_deadlines,
            _lingering,
            _nodes_first,
        )
        for breach in look(story)
    ]


def _stops(story: Story) -> Iterator[str]:
    """R1 for every covered pod, also those that do not say whose they are."""
    covered = ("gpu",) if story.policy.managed_resources == (GPU,) else ("cpu", "gpu")
    running: dict[str, set[str]] = {}
    for seen in story.changes:
        if seen.kind == kinds.POD and seen.some["spec"]["set"] in covered:
            runs = (
                seen.obj is not None
                and seen.obj["status"].get("phase") == "Running"
                and "deletionTimestamp" not in seen.obj["metadata"]
            )
            members = running.setdefault(_owner(seen.some), set())
            (members.add if runs else members.discard)(seen.key.name)
        elif seen.kind == kinds.WORKLOAD and seen.obj is not None:
            now, before = memory_of(seen.obj), memory_of(seen.before)
            stops = now != before and now.pause in (Pause.PARKED, Pause.GAVE_UP)
            if stops and running.get(_owner(seen.obj)):
                yield f"{seen.key.name} was parked while {running[_owner(seen.obj)]} ran"


def _attempts(story: Story) -> Iterator[str]:
    """Each park counts one more failure, pauses as the policy says, and gives up at the end."""
    total = sum(step.attempts for step in story.policy.steps)
    for seen in of_kind(story.changes, kinds.WORKLOAD):
        before, now = memory_of(seen.before), memory_of(seen.obj)
        if seen.obj is None or now == before or now.reason == "GangInvalid":
            continue
        if now.pause in (Pause.PARKED, Pause.GAVE_UP) and now.failures != before.failures + 1:
            yield f"{seen.key.name}: failure {now.failures} after {before.failures}"
        if now.pause is Pause.PARKED and now.resume_at_s is not None:
            pause_s = now.resume_at_s - now.at_s
            if abs(pause_s - story.policy.backoff.pause_s(now.failures)) > 1:
                yield f"{seen.key.name}: a pause of {pause_s} s after failure {now.failures}"
        if now.pause is Pause.PARKED and now.failures >= total:
            yield f"{seen.key.name}: another pause after failure {now.failures} of {total}"
        if now.pause is Pause.GAVE_UP and now.failures != total:
            yield f"{seen.key.name}: gave up after failure {now.failures} of {total}"


def _words(story: Story) -> Iterator[str]:
    """Kueue's final words are only used by a policy that asks for them."""
    park = story.policy.on_give_up == "Park"
    for seen in of_kind(story.changes, kinds.WORKLOAD):
        if seen.obj is None:
            continue
        states = {c["state"] for c in (seen.obj.get("status") or {}).get("admissionChecks", ())}
        if "Retry" in states or (park and "Rejected" in states):
            yield f"{seen.key.name}: {sorted(states)}"
        if not park and memory_of(seen.obj).pause is Pause.GAVE_UP:
            yield f"{seen.key.name}: parked for good under a policy that rejects"


def _asked_for(story: Story) -> Iterator[str]:
    """Only covered pod sets are asked for, and elastic pods carry no booking."""
    only_gpus = story.policy.managed_resources == (GPU,)
    elastic: set[str] = set()
    for seen in story.changes:
        if seen.obj is None:
            continue
        notes = seen.obj["metadata"].get("annotations") or {}
        if seen.kind == kinds.PROVISIONING_REQUEST:
            pool = notes[names.POOL]
            if pool == "static" or (only_gpus and pool != "gpu"):
                yield f"{seen.key.name} asks for pool {pool}"
        elif seen.kind in (kinds.JOB, kinds.RAY_JOB) and notes.get(names.ELASTIC):
            elastic.add(seen.obj["metadata"]["uid"])
        elif seen.kind == kinds.POD and names.CONSUME in notes and _owner(seen.obj) in elastic:
            yield f"elastic pod {seen.key.name} names a booking"


def _owner(obj: Obj) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["uid"])


def _own_deadlines(story: Story) -> Iterator[str]:
    """R8 with the deadline of each job, not the longest of all."""
    limits_s: dict[str, float] = {}
    born_s: dict[str, tuple[float, float]] = {}
    for seen in story.changes:
        if seen.kind in (kinds.JOB, kinds.RAY_JOB):
            meta = seen.some["metadata"]
            text = (meta.get("annotations") or {}).get(names.PROVISION_DEADLINE, "")
            limits_s[meta["uid"]] = story.policy.provision_s(int(text) if text.isdigit() else None)
        elif seen.kind == kinds.PROVISIONING_REQUEST:
            owner = _owner(seen.some)
            name = seen.key.name
            born_s.setdefault(name, (seen.at_s, limits_s[owner]))
            over = seen.obj is None or is_true(parse_conditions(seen.some), pr.PROVISIONED)
            if over and name in born_s:
                from_s, limit_s = born_s.pop(name)
                late_s = seen.at_s - from_s - story.excused_s(from_s, seen.at_s) - limit_s
                if seen.before is not None and not _was_booked(seen) and late_s > SOON_S:
                    yield f"{name} waited {late_s:.0f} s longer than its job allows"


def _was_booked(seen: Seen) -> bool:
    return seen.before is not None and is_true(parse_conditions(seen.before), pr.PROVISIONED)


def _lingering(story: Story) -> Iterator[str]:
    """What is final is acted upon soon: a refused request goes, and so does the memory of a gang
    that somebody started afresh."""
    since_s: dict[tuple[str, str], float] = {}
    for seen in (*story.changes, None):
        at_s = story.ended_at_s if seen is None else seen.at_s
        for place, from_s in list(since_s.items()):
            if at_s - from_s - story.excused_s(from_s, at_s) > SOON_S:
                yield f"{' '.join(place)} for more than {SOON_S:.0f} s"
                del since_s[place]
        if seen is None:
            return
        for what, holds in _final(seen):
            place = (seen.key.name, what)
            if holds:
                since_s.setdefault(place, at_s)
            else:
                since_s.pop(place, None)


def _final(seen: Seen) -> Iterator[tuple[str, bool]]:
    if seen.kind == kinds.PROVISIONING_REQUEST:
        said = parse_conditions(seen.obj or {})
        # One that was booked before may stay as the mark that the nodes clock still runs.
        refused = is_true(said, pr.FAILED) and not is_true(said, pr.PROVISIONED)
        yield "is there although it failed", refused
    elif seen.kind == kinds.WORKLOAD:
        pause = memory_of(seen.obj).pause
        active = seen.obj is not None and seen.obj["spec"]["active"] is not False
        finished = seen.obj is not None and is_true(parse_conditions(seen.obj), "Finished")
        stale = pause in (Pause.PARKED, Pause.GAVE_UP)
        yield "is active and remembers a pause", active and stale and not finished


def _nodes_first(story: Story) -> Iterator[str]:
    """readyWhen NodesReady: when our check turns Ready, each of its pools has a Ready node."""
    if story.policy.ready_when != "NodesReady":
        return
    ready: dict[str, set[str]] = {}
    for seen in story.changes:
        if seen.kind == kinds.NODE:
            pool = seen.some["metadata"]["labels"].get("pool", "")
            members = ready.setdefault(pool, set())
            (members.add if _serves(seen.obj, pool) else members.discard)(seen.key.name)
        elif seen.kind == kinds.WORKLOAD and seen.obj is not None:
            pools = _turned_ready(seen)
            empty = [pool for pool in pools if not ready.get(pool)]
            if empty:
                yield f"{seen.key.name}: Ready without a node in {empty}"


def _serves(node: Obj | None, pool: str) -> bool:
    if node is None:
        return False
    has_gpus = pool != "gpu" or GPU in node["status"].get("allocatable", {})
    return has_gpus and is_true(parse_conditions(node), "Ready")


def _turned_ready(seen: Seen) -> list[str]:
    """The pools of a Workload whose check has just turned Ready with a booking."""
    assert seen.obj is not None

    def booked(obj: Obj | None) -> list[str]:
        checks = ((obj or {}).get("status") or {}).get("admissionChecks", ())
        return [
            update["name"]
            for check in checks
            if check["state"] == "Ready"
            for update in check.get("podSetUpdates", ())
        ]

    # A pod set bears the name of its pool here.
    return booked(seen.obj) if not booked(seen.before) else []
