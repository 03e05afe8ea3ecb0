"""One action of a loop as one call to the API server."""

from __future__ import annotations

from typing_extensions import assert_never

from e2e.pools import nodes
from e2e.pools.state import (
    HELD_ANNOTATION,
    Action,
    Advertise,
    BringUp,
    CreateNode,
    DeleteNode,
    DeleteRequest,
    Request,
    SetConditions,
)
from taugrid_ray.errors import AlreadyExists, NotFound
from taugrid_ray.kinds.resource import NODE, PROVISIONING_REQUEST, Obj
from taugrid_ray.kube.api import KubeApi

MANAGER = "cluster-autoscaler"
"""Whoever looks at managedFields sees the name that the real one would leave."""


def perform(api: KubeApi, action: Action) -> Obj | None:
    """Returns the object as it now is; None where it is gone or somebody else made it.

    Raises Conflict where a request has changed since it was read: the next loop decides again.
    """
    match action:
        case CreateNode(pool, name):
            try:
                return api.create(NODE, nodes.manifest(pool, name))
            except AlreadyExists:
                return None
        case BringUp(name, uid):
            mark = {"uid": uid, "annotations": {HELD_ANNOTATION: None}}
            return api.patch(NODE, name, {"metadata": mark}, manager=MANAGER)
        case Advertise(name, amounts):
            status = {"capacity": dict(amounts), "allocatable": dict(amounts)}
            return api.patch(NODE, name, {"status": status}, sub="status", manager=MANAGER)
        case DeleteNode(name, uid):
            try:
                api.delete(NODE, name, uid=uid)
            except NotFound:
                return None
        case SetConditions(request):
            return _set_conditions(api, request)
        case DeleteRequest(request):
            try:
                api.delete(PROVISIONING_REQUEST, request.name, request.namespace, uid=request.uid)
            except NotFound:
                return None
        case _:
            assert_never(action)
    return None


def _set_conditions(api: KubeApi, request: Request) -> Obj:
    body = {
        "metadata": {"resourceVersion": request.version},
        "status": {"conditions": conditions_body(request)},
    }
    return api.patch(
        PROVISIONING_REQUEST,
        request.name,
        body,
        request.namespace,
        sub="status",
        manager=MANAGER,
    )


def conditions_body(request: Request) -> list[Obj]:
    """The whole list; entries that did not change stay as their writers left them."""
    before = {str(entry.get("type")): entry for entry in request.written}
    body: list[Obj] = []
    for condition in request.conditions:
        told = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": condition.changed_at,
        }
        old = before.get(condition.type, {})
        is_same = all(old.get(key) == value for key, value in told.items())
        body.append(old if is_same else {**told, "observedGeneration": request.generation})
    return body
