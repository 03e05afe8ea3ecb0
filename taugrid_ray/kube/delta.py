"""What a reflector tells a store: which object changed, and that a list is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from taugrid_ray.kinds.resource import Obj, Resource

T = TypeVar("T")


class Key(NamedTuple):
    """An object's place. `namespace` is "" for cluster-scoped kinds."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """One object changed. `old` and `new` are parsed values; None means absent or of no interest.

    An object that was deleted and made anew under the same name comes as two: its end, then the
    other one's beginning.
    """

    kind: Resource
    key: Key
    uid: str
    old: T | None
    new: T | None
    resource_version: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A whole list was handed over: after the first one the store is complete.

    keys: all objects of interest that the list held, so that the store can drop what it took over
    from our own writes and what was deleted before any list or watch showed it.
    """

    kind: Resource
    keys: frozenset[Key]
    resource_version: int


def key_of(obj: Obj) -> Key:
    meta = obj["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


def version_of(obj: Obj) -> int:
    """The resourceVersion as a number: since Kubernetes 1.35 they may be compared, within a
    kind."""
    return int(obj["metadata"]["resourceVersion"])
