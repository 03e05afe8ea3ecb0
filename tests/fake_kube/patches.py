"""Merge patch (RFC 7396) and JSON patch (RFC 6902) as the API server applies them.

Both work on a copy that the caller owns. Where the server's library departs from the RFC, so does
this: `replace` of a missing map key adds it.
"""

from __future__ import annotations

from typing import Any

from taugrid_ray.errors import ApiError, Conflict, Invalid

_UNFIT = "the patch does not fit the object as it is now"
_MISSING = object()


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(obj: Any, operations: list[dict[str, Any]]) -> Any:
    if not isinstance(operations, list):
        raise ApiError("a JSON patch is a list of operations", status=400, reason="BadRequest")
    try:
        for operation in operations:
            obj = _apply(obj, operation)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        # One answer for all that cannot be applied; where something was tested, it reads as
        # "the object has changed" (see answers.py).
        has_test = any(operation.get("op") == "test" for operation in operations)
        raise (Conflict if has_test else Invalid)(_UNFIT, status=422, reason="Invalid") from error
    return obj


def _apply(obj: Any, operation: dict[str, Any]) -> Any:
    op, path = operation["op"], _steps(operation["path"])
    if op == "test":
        if _find(obj, path, missing=None) != operation.get("value"):
            raise ValueError("test failed")
        return obj
    if op in ("add", "replace"):
        return _put(obj, path, operation["value"], insert=op == "add")
    if op == "remove":
        _remove(obj, path)
        return obj
    if op in ("move", "copy"):
        source = _steps(operation["from"])
        value = _find(obj, source)
        if op == "move":
            _remove(obj, source)
        return _put(obj, path, value, insert=True)
    raise ValueError(f"no such operation: {op}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _find(obj: Any, path: list[str], *, missing: Any = _MISSING) -> Any:
    for place, step in enumerate(path):
        if isinstance(obj, list):
            obj = obj[_index(step, len(obj) - 1)]
        elif step in obj:
            obj = obj[step]
        elif missing is not _MISSING and place == len(path) - 1:
            return missing
        else:
            raise KeyError(step)
    return obj


def _index(step: str, last: int) -> int:
    index = int(step)
    if not 0 <= index <= last:
        raise IndexError(step)
    return index


def _put(obj: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    parent = _find(obj, path[:-1])
    step = path[-1]
    if isinstance(parent, dict):
        parent[step] = value
    elif not isinstance(parent, list):
        raise TypeError(step)
    elif not insert:
        parent[_index(step, len(parent) - 1)] = value
    elif step == "-":
        parent.append(value)
    else:
        parent.insert(_index(step, len(parent)), value)
    return obj


def _remove(obj: Any, path: list[str]) -> None:
    parent = _find(obj, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        del parent[path[-1]]
