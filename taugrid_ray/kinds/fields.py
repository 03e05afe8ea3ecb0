"""Reading JSON of which nobody promised the shape.

What the API server stored under a schema has the right types; what people write into files,
annotations and custom resources without one has not. These readers never raise: a value of the
wrong type reads as a missing one. Where a wrong type must be named to a person (manifests),
`taugrid_ray.gang` looks first and refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taugrid_ray.kinds.resource import Obj


def _value(obj: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(step)
    return obj


def text(obj: Any, *path: str) -> str:
    """The string at `path`, or ""."""
    found = _value(obj, path)
    return found if isinstance(found, str) else ""


def integer(obj: Any, *path: str) -> int | None:
    """The whole number at `path`, or None. `true` is not a number; 2.0 is 2, as for the API
    server.
    """
    found = _value(obj, path)
    if isinstance(found, float) and found.is_integer():
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def is_true(obj: Any, *path: str) -> bool:
    return _value(obj, path) is True


def mapping(obj: Any, *path: str) -> Obj:
    """The object at `path`, or an empty one."""
    found = _value(obj, path)
    return found if isinstance(found, dict) else {}


def objects(obj: Any, *path: str) -> tuple[Obj, ...]:
    """The objects in the list at `path`; other items are left out."""
    found = _value(obj, path)
    return tuple(i for i in found if isinstance(i, dict)) if isinstance(found, list) else ()


def strings(obj: Any, *path: str) -> tuple[str, ...]:
    """The strings in the list at `path`; other items are left out."""
    found = _value(obj, path)
    return tuple(i for i in found if isinstance(i, str)) if isinstance(found, list) else ()


def string_map(obj: Any, *path: str) -> dict[str, str]:
    """The string-to-string pairs of the object at `path`."""
    found = mapping(obj, *path)
    return {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, str)}
