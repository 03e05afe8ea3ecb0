"""The part of server-side apply that this project uses: an owner for each leaf.

Who applies a configuration owns its leaves. A leaf that somebody else owns with another value is a
conflict, unless forced. A leaf that a manager owned and no longer applies is removed, unless
someone else owns it too. Lists are atomic, but for those below, whose items are found by a key. A
write that is not an apply takes the ownership of the leaves that it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taugrid_ray.errors import Conflict
from taugrid_ray.kinds.resource import Obj

LIST_KEYS = {
    "conditions": "type",
    "admissionChecks": "name",
    "podSets": "name",
    "podSetAssignments": "name",
    "reclaimablePods": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ownerReferences": "uid",
}

Path = tuple[str | tuple[str, str], ...]
"""Field names, and ("name", "x") for the item of a keyed list whose name is x."""

Owners = dict[str, set[Path]]
"""manager -> leaves"""

_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def apply(live: Obj, config: Obj, *, owners: Owners, manager: str, force: bool) -> Obj:
    """`live` (a copy that the caller owns) with `config` merged in; `owners` is brought up to
    date."""
    wanted = dict(leaves(config))
    have = dict(leaves(live))
    others = [(name, paths) for name, paths in owners.items() if name != manager]
    for path, value in wanted.items():
        holders = [name for name, paths in others if path in paths]
        if holders and (path not in have or have[path] != value):
            if not force:
                raise Conflict(
                    f"Apply failed with 1 conflict: conflict with {holders[0]!r}: .{_shown(path)}",
                    reason="Conflict",
                )
            for _, paths in others:
                paths.discard(path)
    result: Obj = _merged(live, config)
    for path in owners.get(manager, set()) - set(wanted):
        if not any(path in paths for _, paths in others):
            _drop(result, path, [paths for _, paths in others])
    owners[manager] = set(wanted)
    return result


def take_over(before: Obj, after: Obj, *, owners: Owners, manager: str) -> None:
    """A write that is no apply: the leaves that it changed are the writer's, and nobody else's."""
    had, has = dict(leaves(before)), dict(leaves(after))
    changed = {path for path, value in has.items() if path not in had or had[path] != value}
    gone = set(had) - set(has)
    for name, paths in owners.items():
        paths -= gone if name == manager else gone | changed
    owners.setdefault(manager, set()).update(changed)


def leaves(value: Any, path: Path = (), field: str = "") -> Iterator[tuple[Path, Any]]:
    if path in _IDENTITY:
        return
    key = LIST_KEYS.get(field)
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*path, name), name)
    elif isinstance(value, list) and value and _is_keyed(value, key):
        for item in value:
            yield from leaves(item, (*path, (str(key), item[key])))
    else:
        yield path, value


def _is_keyed(items: list[Any], key: str | None) -> bool:
    return key is not None and all(isinstance(item, dict) and key in item for item in items)


def _merged(live: Any, config: Any, field: str = "") -> Any:
    if isinstance(live, dict) and isinstance(config, dict):
        result = dict(live)
        for name, value in config.items():
            result[name] = _merged(live.get(name), value, name)
        return result
    key = LIST_KEYS.get(field)
    if isinstance(live, list) and isinstance(config, list) and _is_keyed(live + config, key):
        items = {item[key]: item for item in live}
        for item in config:
            items[item[key]] = _merged(items.get(item[key]), item)
        return list(items.values())
    if field == "finalizers" and isinstance(live, list):
        return live + [name for name in config if name not in live]
    return config


def _drop(obj: Any, path: Path, others: list[set[Path]]) -> None:
    at, parents = obj, []
    for step in path[:-1]:
        parents.append((at, step))
        at = _inner(at, step)
        if at is None:
            return
    last = path[-1]
    holder = path[-2] if len(path) > 1 else None
    if isinstance(holder, tuple) and holder[0] == last:
        # The key of a list's item: with it goes the item, where nobody else owns a part of it.
        prefix = path[:-1]
        if not any(p[: len(prefix)] == prefix for paths in others for p in paths):
            parents[-1][0].remove(at)
    elif isinstance(at, dict):
        at.pop(last, None)


def _inner(at: Any, step: str | tuple[str, str]) -> Any:
    if isinstance(step, tuple):
        return next((item for item in at if item.get(step[0]) == step[1]), None)
    return at.get(step) if isinstance(at, dict) else None


def _shown(path: Path) -> str:
    return ".".join(step if isinstance(step, str) else f"[{step[0]}={step[1]}]" for step in path)
