"""The garbage collector's part, as one step: dependents whose owners are all gone."""

from __future__ import annotations

from collections.abc import Callable

from taugrid_ray.kinds.resource import NAMESPACE, Obj, Resource
from taugrid_ray.kube.delta import Key

Objects = dict[Resource, dict[Key, Obj]]


def collect(
    objects: Objects,
    delete: Callable[[Resource, Key], None],
    keep: Callable[[Resource, Key, Obj], None],
    in_namespaces: bool,
) -> int:
    """Repeat until nothing more goes. Objects with finalizers are only marked."""
    gone = 0
    while True:
        before = gone
        uids = {o["metadata"]["uid"] for found in objects.values() for o in found.values()}
        for kind, found in list(objects.items()):
            for key, obj in list(found.items()):
                if _is_orphan(obj, uids) or (in_namespaces and _is_homeless(kind, key, objects)):
                    gone += _end(kind, key, obj, delete, keep)
                elif _is_waiting_for_dependents(obj):
                    gone += _foreground(kind, key, obj, objects, delete, keep)
        if gone == before:
            return gone


def _is_orphan(obj: Obj, uids: set[str]) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return bool(owners) and not any(owner["uid"] in uids for owner in owners)


def _is_homeless(kind: Resource, key: Key, objects: Objects) -> bool:
    return kind.namespaced and Key("", key.namespace) not in objects.get(NAMESPACE, {})


def _is_waiting_for_dependents(obj: Obj) -> bool:
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and "foregroundDeletion" in (meta.get("finalizers") or ())


def _end(
    kind: Resource,
    key: Key,
    obj: Obj,
    delete: Callable[[Resource, Key], None],
    keep: Callable[[Resource, Key, Obj], None],
) -> int:
    meta = obj["metadata"]
    if not meta.get("finalizers"):
        delete(kind, key)
        return 1
    if "deletionTimestamp" in meta:
        return 0
    marked = {"deletionTimestamp": meta["creationTimestamp"], "deletionGracePeriodSeconds": 0}
    keep(kind, key, obj | {"metadata": meta | marked})
    return 1


def _foreground(
    kind: Resource,
    key: Key,
    owner: Obj,
    objects: Objects,
    delete: Callable[[Resource, Key], None],
    keep: Callable[[Resource, Key, Obj], None],
) -> int:
    """Dependents go first; then the finalizer, and with it the owner."""
    uid = owner["metadata"]["uid"]
    gone, left = 0, 0
    for child_kind, found in list(objects.items()):
        for child_key, child in list(found.items()):
            owners = child["metadata"].get("ownerReferences") or ()
            if any(ref["uid"] == uid for ref in owners):
                gone += _end(child_kind, child_key, child, delete, keep)
                left += child_key in objects[child_kind]
    if left:
        return gone
    rest = [name for name in owner["metadata"]["finalizers"] if name != "foregroundDeletion"]
    if rest:
        keep(kind, key, owner | {"metadata": owner["metadata"] | {"finalizers": rest}})
    else:
        delete(kind, key)
    return gone + 1
