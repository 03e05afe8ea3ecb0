"""Actions to API calls: one match over the closed set, nothing decided here.

Every call may be repeated. A create that finds its object there, and ours, is done; a delete that
finds nothing is done. A guarded write that comes too late raises Conflict and changes nothing.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_never

from controllers.actions import (
    Action,
    Announce,
    Create,
    Delete,
    Forget,
    Park,
    PodRelease,
    Release,
    SetCheck,
    SetCondition,
    SetGroups,
    Target,
    Unpark,
    Unstamp,
)
from taugrid_ray import names
from taugrid_ray.errors import AlreadyExists, Conflict, NotFound, TaugridError
from taugrid_ray.growth_limits import Change, GroupChange, gate_off, pointer
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_micro_time, format_time, parse_meta
from taugrid_ray.kinds.resource import EVENT, POD, RAY_CLUSTER, WORKLOAD, Obj, Resource
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.memory import Memory, format_memory
from taugrid_ray.sentences import MESSAGE_MAX, printable

RELEASERS = 16
"""Pods of one cluster that are released at the same time."""


class ForeignObject(TaugridError):
    """An object of somebody else's bears the name that ours would have."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the object as it is now, or the uid that is gone. For the stores."""

    kind: Resource
    obj: Obj | None = None
    gone_uid: str = ""


def perform(action: Action, api: KubeApi, *, identity: str) -> tuple[Written, ...]:
    """Carry out one action. identity: this process, for events' reportingInstance."""
    match action:
        case Create():
            return (_create(action, api),)
        case Delete(kind, at):
            _delete(kind, at, api)
            return (Written(kind, gone_uid=at.uid),)
        case SetCheck():
            entry = _check_patch(action)
            at = action.workload
            done = api.patch(WORKLOAD, at.name, entry, at.namespace, how=Patch.JSON, sub="status")
            return (Written(WORKLOAD, done),)
        case Park(at, memory):
            return (Written(WORKLOAD, _set_active(at, memory, active=False, api=api)),)
        case Unpark(at, memory):
            return (Written(WORKLOAD, _set_active(at, memory, active=True, api=api)),)
        case Forget(at):
            body = {"metadata": _guarded(at) | {"annotations": {names.MEMORY: None}}}
            return (Written(WORKLOAD, api.patch(WORKLOAD, at.name, body, at.namespace)),)
        case Unstamp(at):
            off = {names.CONSUME: None, names.CONSUME_CLASS: None}
            body = {"metadata": _guarded(at) | {"annotations": off}}
            return (Written(POD, api.patch(POD, at.name, body, at.namespace)),)
        case Release(pods):
            return _release(pods, api)
        case SetGroups(at, groups, memory):
            change = Change(memory, groups)
            body_ops = change.patch(version=at.version, had_notes=action.had_notes)
            done = api.patch(RAY_CLUSTER, at.name, body_ops, at.namespace, how=Patch.JSON)
            return (Written(RAY_CLUSTER, done),)
        case SetCondition():
            return (Written(action.kind, _set_condition(action, api)),)
        case Announce():
            _announce(action, api, identity)
            return ()
    assert_never(action)


def _release(pods: tuple[PodRelease, ...], api: KubeApi) -> tuple[Written, ...]:
    """Side by side. A pod that changed or went meanwhile is left for the next look, the others are
    not held up by it."""

    def one(pod: PodRelease) -> Written | None:
        try:
            at = pod.pod
            done = api.patch(POD, at.name, _release_patch(pod), at.namespace, how=Patch.JSON)
            return Written(POD, done)
        except (Conflict, NotFound):
            return None

    with ThreadPoolExecutor(min(RELEASERS, len(pods)), thread_name_prefix="release") as pool:
        each = [pool.submit(one, pod) for pod in pods]
    # Another error is raised, but only once every pod has been tried.
    return tuple(w for found in each if (w := found.result()) is not None)


def _release_patch(pod: PodRelease) -> list[Obj]:
    notes = {names.CONSUME: pod.booking, names.CONSUME_CLASS: pod.class_name}
    stamped: list[Obj] = [
        {"op": "add", "path": f"/metadata/annotations/{pointer(key)}", "value": value}
        for key, value in notes.items()
        if pod.booking
    ]
    if stamped and not pod.had_notes:
        stamped.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.pod.version},
        *(gate_off(pod.gate_index) if pod.gate_index is not None else ()),
        {
            "op": "add",
            "path": f"/metadata/labels/{pointer(names.WORKLOAD_UID)}",
            "value": pod.workload_uid,
        },
        *stamped,
    ]


def _create(action: Create, api: KubeApi) -> Written:
    meta = parse_meta(action.obj)
    try:
        return Written(action.kind, api.create(action.kind, action.obj, meta.namespace))
    except AlreadyExists:
        there = api.get(action.kind, meta.name, meta.namespace)
        found = parse_meta(there)
        if found.is_terminating:
            raise Conflict(
                f'{action.kind.kind} "{meta.key}" is still being deleted', hint="it is made again"
            ) from None
        ours = found.labels.get(names.WORKLOAD_UID) == meta.labels.get(names.WORKLOAD_UID)
        same = found.annotations.get(names.SPEC_HASH) == meta.annotations.get(names.SPEC_HASH)
        if ours and same and _same_content(action.obj, there):
            return Written(action.kind, there)
        raise ForeignObject(
            f'{action.kind.kind} "{meta.key}" exists and is not ours', hint="it is left alone"
        ) from None


def _same_content(wanted: Obj, there: Obj) -> bool:
    """Is all that we would write there? What the API server added by default is fine."""
    return all(_within(wanted.get(part), there.get(part)) for part in ("spec", "template"))


def _within(wanted: Any, there: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(
            _within(value, there.get(key)) for key, value in wanted.items() if value is not None
        )
    if isinstance(wanted, list):
        return (
            isinstance(there, list)
            and len(wanted) == len(there)
            and all(map(_within, wanted, there))
        )
    # Text may come back in another form: quantities are made canonical ("1000m" as "1").
    return bool(wanted == there) or isinstance(wanted, str)


def _delete(kind: Resource, at: Target, api: KubeApi) -> None:
    try:
        api.delete(kind, at.name, at.namespace, uid=at.uid)
    except NotFound:
        return
    except Conflict:
        try:
            there = parse_meta(api.get(kind, at.name, at.namespace))
        except NotFound:
            return
        if there.uid == at.uid:
            raise
        # Ours is gone, and what bears its name now is not ours to delete.


def _guarded(at: Target) -> dict[str, Any]:
    return {"resourceVersion": at.version, "uid": at.uid}


def _set_active(at: Target, memory: Memory, *, active: bool, api: KubeApi) -> Obj:
    body = {
        "metadata": _guarded(at) | {"annotations": {names.MEMORY: format_memory(memory)}},
        "spec": {"active": active},
    }
    return api.patch(WORKLOAD, at.name, body, at.namespace)


def _check_patch(action: SetCheck) -> list[Obj]:
    entry: Obj = {
        "name": action.check,
        "state": action.state.value,
        "lastTransitionTime": format_time(action.now_s),
        "message": printable(action.message, limit=MESSAGE_MAX),
        # Kueue keeps a delay across its resets, and one that is left out is not cleared.
        "requeueAfterSeconds": 0,
    }
    if action.updates:
        entry["podSetUpdates"] = list(action.updates)
    place = f"/status/admissionChecks/{action.index}"
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": action.workload.version},
        {"op": "test", "path": f"{place}/name", "value": action.check},
        {"op": "replace", "path": place, "value": entry},
    ]


def _set_condition(action: SetCondition, api: KubeApi) -> Obj:
    """Patch one condition; the list is read first, since a merge patch replaces it whole."""
    at = action.target
    there = api.get(action.kind, at.name)
    others = [
        c for c in fields.objects(there, "status", "conditions") if c.get("type") != action.type
    ]
    condition = {
        "type": action.type,
        "status": "True" if action.is_true else "False",
        "reason": action.reason,
        "message": printable(action.message, limit=MESSAGE_MAX),
        "observedGeneration": action.generation,
        "lastTransitionTime": format_time(action.now_s),
    }
    body = {
        "metadata": {"resourceVersion": fields.text(there, "metadata", "resourceVersion")},
        "status": {"conditions": [*others, condition]},
    }
    return api.patch(action.kind, at.name, body, sub="status")


def _announce(action: Announce, api: KubeApi, identity: str) -> None:
    about = action.about
    event = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{names.safe(about.name, length=60)}.{names.digest(action.key, length=16)}",
            "namespace": action.namespace,
            "labels": {names.MANAGED_BY: names.MANAGED_BY_US},
        },
        "eventTime": format_micro_time(action.now_s),
        "reportingController": names.CONTROLLER,
        "reportingInstance": printable(identity, limit=128),
        "action": "BookCapacity",
        "reason": action.reason.value,
        "regarding": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": action.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "note": printable(action.note, limit=MESSAGE_MAX),
        "type": "Warning" if action.warning else "Normal",
    }
    try:
        api.create(EVENT, event, action.namespace)
    except AlreadyExists:
        return
    except NotFound:
        # The namespace is on its way out; there is nobody left to tell.
        return


def as_log(action: Action) -> str:
    """One action for the log line: what, on which object, and why; user text only escaped."""
    match action:
        case Create(kind, obj):
            return f"Create {kind.kind} {json.dumps(obj['metadata']['name'])}"
        case Delete(kind, at):
            return f"Delete {kind.kind} {json.dumps(at.name)}"
        case SetCheck():
            return f"SetCheck {action.state.value} ({action.reason.value})"
        case Park(_, memory):
            until = format_time(memory.resume_at_s) if memory.resume_at_s else "somebody resumes it"
            return f"Park until {until} ({memory.reason}, {memory.failures} failed)"
        case Unpark(_, memory):
            return f"Unpark (step {memory.step}, attempt {memory.attempt})"
        case Forget():
            return "Forget attempts"
        case Unstamp(at):
            return f"Unstamp pod {json.dumps(at.name)}"
        case Release(pods):
            booked = sum(1 for p in pods if p.booking)
            return f"Release {len(pods)} pods, {booked} with a booking"
        case SetGroups(_, groups):
            return f"SetGroups {', '.join(map(_change_as_log, groups)) or 'memory alone'}"
        case SetCondition():
            return f"SetCondition {action.type}={action.is_true} ({action.reason})"
        case Announce():
            return f"Announce {action.reason.value}"
    assert_never(action)


def _change_as_log(group: GroupChange) -> str:
    numbers = {
        "max": group.max_replicas,
        "min": group.min_replicas,
        "replicas": group.replicas,
        "deletes": len(group.workers_to_delete) if group.workers_to_delete is not None else None,
    }
    told = " ".join(f"{key}={value}" for key, value in numbers.items() if value is not None)
    return f"{json.dumps(group.name)} {told}"
