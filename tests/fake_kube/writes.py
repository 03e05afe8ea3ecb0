"""What a write makes of an object before it is kept. Pure."""

from __future__ import annotations

import json
import uuid
from typing import TypeVar

from taugrid_ray.errors import NotFound
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.delta import Key

from . import rules
from .clock import as_timestamp
from .faults import Call

T = TypeVar("T")

_SERVERS = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)
"""Metadata that only the server sets."""


def copied(obj: T) -> T:
    copy: T = json.loads(json.dumps(obj))
    return copy


def stamp_new(kind: Resource, new: Obj, key: Key, *, serial: int, now_s: float) -> None:
    """Make what a client sent a new object: identity, time, no status of its own."""
    meta = new["metadata"]
    for name in ("generation", "deletionTimestamp", "managedFields", "selfLink"):
        meta.pop(name, None)
    _drop_empty(meta)
    meta["name"] = key.name
    meta["uid"] = str(uuid.UUID(int=serial))
    meta["creationTimestamp"] = as_timestamp(now_s)
    if rules.has_generation(kind):
        meta["generation"] = 1
    if rules.has_status(kind) and kind.kind != "Node":
        new.pop("status", None)
    if kind.kind == "Pod":
        new["status"] = {"phase": "Pending"}
    if kind.kind == "Namespace":
        new["status"] = {"phase": "Active"}


def settled(call: Call, live: Obj, new: Obj) -> Obj:
    """What of a write counts: the status by its subresource alone, all else without it."""
    kind = call.kind
    if call.sub == "status":
        new = {**copied(live), "status": new.get("status")}
        if new["status"] is None:
            del new["status"]
        return new
    if call.sub:
        raise NotFound("the server could not find the requested resource", reason="NotFound")
    if rules.has_status(kind):
        new.pop("status", None)
        if "status" in live:
            new["status"] = copied(live["status"])
    meta, old_meta = new.setdefault("metadata", {}), live["metadata"]
    for name in _SERVERS:
        meta.pop(name, None)
        if name in old_meta:
            meta[name] = old_meta[name]
    _drop_empty(meta)
    typed(new, kind)
    added = set(meta.get("finalizers") or ()) - set(old_meta.get("finalizers") or ())
    if added and "deletionTimestamp" in old_meta:
        raise rules.invalid(
            kind, meta["name"], "metadata.finalizers: no new finalizers can be added"
        )
    if rules.has_generation(kind) and body(new) != body(live):
        meta["generation"] = old_meta.get("generation", 0) + 1
    return new


def _drop_empty(meta: Obj) -> None:
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not meta.get(name):
            meta.pop(name, None)


def typed(obj: Obj, kind: Resource) -> Obj:
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


def body(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def is_over(obj: Obj) -> bool:
    """Deleted, and nothing holds it back any more."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


def grace_for_s(kind: Resource, live: Obj, asked_s: int | None) -> int:
    """Only a pod on a node is given time; its kubelet then deletes it with 0."""
    spec, status = live.get("spec") or {}, live.get("status") or {}
    if kind.kind != "Pod" or not spec.get("nodeName"):
        return 0
    if status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s)
