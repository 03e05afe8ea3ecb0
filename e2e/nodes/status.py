"""The status that a pod shows, out of what happened to its containers.

Pure. Phase and conditions follow the kubelet: a main container that waits for its restart counts as
stopped, one that was never started keeps the pod Pending, and a pod that is being deleted reaches
Succeeded or Failed once all its containers have ended.

Source: kubernetes, pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from e2e.nodes.lifecycle import (
    Ended,
    Plan,
    Record,
    Records,
    Restart,
    Role,
    has_failed,
    is_complete,
    is_initialized,
    will_start,
)
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_time, time_at
from taugrid_ray.kinds.resource import Obj

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the node knows of one pod."""

    pod: Obj
    line: tuple[Plan, ...]
    records: Records
    pod_ip: str = ""
    host_ip: str = ""
    start_time_s: float = 0.0
    ending: bool = False
    failure: tuple[str, str] | None = None
    """Reason and message of a pod that the node itself ended, such as DeadlineExceeded."""
    trouble: tuple[str, str] = ("", "")
    """Reason and message why no container can be created yet."""


def phase(facts: Facts) -> str:
    if facts.failure and not _any_running(facts):
        return FAILED
    if has_failed(facts.line, facts.records) and not _any_running(facts):
        return FAILED
    mains = [plan for plan in facts.line if plan.role is Role.MAIN]
    records = [facts.records.get(plan.name, Record()) for plan in mains]
    if facts.ending and not _any_running(facts):
        done = all(record.has_ended_well for record in records)
        return SUCCEEDED if done else FAILED
    if any(record.attempts == 0 and record.last is None for record in records):
        return PENDING
    if not is_complete(facts.line, facts.records) or _any_running(facts):
        return RUNNING
    return SUCCEEDED if all(record.has_ended_well for record in records) else FAILED


def _any_running(facts: Facts) -> bool:
    return any(record.is_running for record in facts.records.values())


def pod_status(facts: Facts, now_s: float) -> Obj:
    """The whole of `status` that the node writes."""
    now_phase = phase(facts)
    status: Obj = {
        "phase": now_phase,
        "startTime": format_time(facts.start_time_s),
        "conditions": _conditions(facts, now_phase, now_s),
        "containerStatuses": [
            container_status(facts, plan) for plan in facts.line if plan.role is Role.MAIN
        ],
    }
    if facts.host_ip:
        status |= {"hostIP": facts.host_ip, "hostIPs": [{"ip": facts.host_ip}]}
    if facts.pod_ip:
        status |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
    inits = [container_status(facts, plan) for plan in facts.line if plan.role is not Role.MAIN]
    if inits:
        status["initContainerStatuses"] = inits
    if facts.failure:
        status["reason"], status["message"] = facts.failure
    return status


def container_status(facts: Facts, plan: Plan) -> Obj:
    record = facts.records.get(plan.name, Record())
    spec = _spec(facts.pod, plan.name)
    state, previous = _state(facts, plan, record)
    shown: Obj = {
        "name": plan.name,
        "image": fields.text(spec, "image"),
        "imageID": "",
        "ready": record.has_ended_well if plan.role is Role.INIT else record.ready,
        "started": record.started,
        "restartCount": max(0, record.attempts - 1),
        "state": state,
        "lastState": {"terminated": _terminated(previous)} if previous else {},
    }
    if record.attempts:
        uid = fields.text(facts.pod, "metadata", "uid")
        shown["containerID"] = _container_id(uid, plan.name, record.attempts)
    return shown


def _container_id(uid: str, name: str, attempt: int) -> str:
    return f"process://{uid}/{name}/{attempt}"


def _state(facts: Facts, plan: Plan, record: Record) -> tuple[Obj, Ended | None]:
    """The state now, and how the attempt before it ended."""
    if record.is_running:
        return {"running": {"startedAt": format_time(record.running_since_s or 0.0)}}, record.last
    if record.waiting_reason:
        return _waiting(record.waiting_reason, record.waiting_message), record.last
    if record.last is None:
        reason, message = facts.trouble
        if not reason:
            has_init = any(each.role is not Role.MAIN for each in facts.line)
            reason = "PodInitializing" if has_init else "ContainerCreating"
        return _waiting(reason, message), None
    in_backoff = record.restart_at_s > record.last.finished_at_s
    if in_backoff and will_start(plan, record) and not facts.ending and not facts.failure:
        wait_s = record.restart_at_s - record.last.finished_at_s
        name = fields.text(facts.pod, "metadata", "name")
        message = f"back-off {wait_s:g}s restarting failed container={plan.name} pod={name}"
        return _waiting("CrashLoopBackOff", message), record.last
    return {"terminated": _terminated(record.last)}, record.before_last


def _waiting(reason: str, message: str) -> Obj:
    waiting = {"reason": reason}
    if message:
        waiting["message"] = message
    return {"waiting": waiting}


def _terminated(ended: Ended) -> Obj:
    shown: Obj = {
        "exitCode": ended.exit_code,
        "reason": ended.reason or ("Error" if ended.exit_code else "Completed"),
        "startedAt": format_time(ended.started_at_s),
        "finishedAt": format_time(ended.finished_at_s),
    }
    if ended.signal:
        shown["signal"] = ended.signal
    if ended.message:
        shown["message"] = ended.message
    return shown


def _conditions(facts: Facts, now_phase: str, now_s: float) -> list[Obj]:
    over = now_phase in (SUCCEEDED, FAILED)
    initialized = is_initialized(facts.line, facts.records) or now_phase == SUCCEEDED
    uninitialized = [p.name for p in facts.line if p.role is Role.INIT and not _well(facts, p)]
    serving = [plan for plan in facts.line if plan.role is not Role.INIT]
    unready = [p.name for p in serving if not facts.records.get(p.name, Record()).ready]
    all_ready = not over and initialized and not unready
    gates = _gates_open(facts.pod)
    reason, message = "ContainersNotReady", _naming("containers with unready status", unready)
    if over:
        reason, message = ("PodCompleted" if now_phase == SUCCEEDED else "PodFailed"), ""
    want = [
        ("PodScheduled", True, "", ""),
        ("PodReadyToStartContainers", bool(facts.pod_ip) and not over, "", ""),
        (
            "Initialized",
            initialized,
            "ContainersNotInitialized",
            _naming("containers with incomplete status", uninitialized),
        ),
        ("ContainersReady", all_ready, reason, message),
        (
            "Ready",
            all_ready and gates,
            reason if not all_ready else "ReadinessGatesNotReady",
            message,
        ),
    ]
    if now_phase == SUCCEEDED:
        want[2] = ("Initialized", True, "PodCompleted", "")
    before = {fields.text(c, "type"): c for c in fields.objects(facts.pod, "status", "conditions")}
    return [_condition(before.get(kind), kind, *rest, now_s=now_s) for kind, *rest in want]


def _well(facts: Facts, plan: Plan) -> bool:
    return facts.records.get(plan.name, Record()).has_ended_well


def _naming(words: str, names: Iterable[str]) -> str:
    return f"{words}: [{' '.join(names)}]"


def _gates_open(pod: Obj) -> bool:
    true = {
        fields.text(condition, "type")
        for condition in fields.objects(pod, "status", "conditions")
        if fields.text(condition, "status") == "True"
    }
    gates = fields.objects(pod, "spec", "readinessGates")
    return all(fields.text(gate, "conditionType") in true for gate in gates)


def _condition(
    before: Obj | None, kind: str, holds: object, reason: object, message: object, *, now_s: float
) -> Obj:
    """The time moves only when the status flips."""
    status = "True" if holds else "False"
    since_s = now_s
    if before is not None and fields.text(before, "status") == status:
        since_s = time_at(before, "lastTransitionTime") or now_s
    shown: Obj = {"type": kind, "status": status, "lastTransitionTime": format_time(since_s)}
    keeps_reason = not holds or reason == "PodCompleted"
    shown["reason"] = reason if keeps_reason and reason else None
    shown["message"] = message if keeps_reason and message else None
    return shown


def _spec(pod: Obj, name: str) -> Obj:
    for which in ("containers", "initContainers"):
        for container in fields.objects(pod, "spec", which):
            if fields.text(container, "name") == name:
                return container
    return {}


def records_from(pod: Obj) -> dict[str, Record]:
    """What an earlier run of the node wrote into the pod's status."""
    found: dict[str, Record] = {}
    for which in ("initContainerStatuses", "containerStatuses"):
        for shown in fields.objects(pod, "status", which):
            restarts = fields.integer(shown, "restartCount") or 0
            running_s = time_at(shown, "state", "running", "startedAt")
            last = _ended(fields.mapping(shown, "state", "terminated")) or _ended(
                fields.mapping(shown, "lastState", "terminated")
            )
            if running_s is None and last is None:
                continue
            found[fields.text(shown, "name")] = Record(
                attempts=restarts + 1, running_since_s=running_s, last=last, started=bool(running_s)
            )
    return found


def _ended(shown: Obj) -> Ended | None:
    if not shown:
        return None
    return Ended(
        exit_code=fields.integer(shown, "exitCode") or 0,
        started_at_s=time_at(shown, "startedAt") or 0.0,
        finished_at_s=time_at(shown, "finishedAt") or 0.0,
        reason=fields.text(shown, "reason"),
        message=fields.text(shown, "message"),
    )


def waits(pod: Obj, container: str) -> bool:
    """Does the pod's status show the container as waiting, for its start or its restart?"""
    return any(
        fields.text(shown, "name") == container and bool(fields.mapping(shown, "state", "waiting"))
        for which in ("initContainerStatuses", "containerStatuses")
        for shown in fields.objects(pod, "status", which)
    )


def restart_policy(pod: Obj) -> Restart:
    return Restart(fields.text(pod, "spec", "restartPolicy") or "Always")
