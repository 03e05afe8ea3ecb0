"""Label and field selectors, as strings on the wire."""

from __future__ import annotations

import re
from collections.abc import Callable

from taugrid_ray.errors import ApiError
from taugrid_ray.kinds.resource import Obj, Resource

Match = Callable[[Obj], bool]

FIELDS = {
    "Pod": ("spec.nodeName", "status.phase", "spec.restartPolicy", "spec.schedulerName"),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Job": ("status.successful",),
    "Secret": ("type",),
    "Event": ("reason", "type", "reportingController", "regarding.kind", "regarding.name",
              "regarding.namespace", "regarding.uid"),
}  # fmt: skip
"""Which fields a kind can be selected by, beside its name and namespace. The server indexes few."""

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_SPLIT = re.compile(r",(?![^(]*\))")


def label_match(selector: str) -> Match:
    tests = [_label_test(part.strip()) for part in _SPLIT.split(selector) if part.strip()]

    def match(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return match


def _label_test(part: str) -> Callable[[dict[str, str]], bool]:
    among = _SET.match(part)
    if among:
        key, word, listed = among.groups()
        values = {value.strip() for value in listed.split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if "!=" in part:
        key, value = (side.strip() for side in part.split("!=", 1))
        return lambda labels: labels.get(key) != value
    if "=" in part:
        key, value = (side.strip() for side in part.replace("==", "=").split("=", 1))
        return lambda labels: labels.get(key) == value
    if part.startswith("!"):
        return lambda labels: part[1:].strip() not in labels
    if " " in part:
        raise ApiError(f"unable to parse label selector {part!r}", status=400, reason="BadRequest")
    return lambda labels: part in labels


def field_match(selector: str, kind: Resource) -> Match:
    tests: list[Match] = []
    for part in filter(None, (part.strip() for part in selector.split(","))):
        negated = "!=" in part
        path, _, value = (side.strip() for side in re.sub("!?==?", "=", part).partition("="))
        _check_field(path, kind)
        tests.append(_field_test(path, value, negated))
    return lambda obj: all(test(obj) for test in tests)


def _field_test(path: str, value: str, negated: bool) -> Match:
    return lambda obj: (_field(obj, path) == value) is not negated


def _check_field(path: str, kind: Resource) -> None:
    namespaced = ("metadata.namespace",) if kind.namespaced else ()
    if path not in ("metadata.name", *namespaced, *FIELDS.get(kind.kind, ())):
        raise ApiError(f"field label not supported: {path}", status=400, reason="BadRequest")


def _field(obj: Obj, path: str) -> str:
    at: object = obj
    for step in path.split("."):
        at = at.get(step) if isinstance(at, dict) else None
    if isinstance(at, bool):
        return "true" if at else "false"
    return "" if at is None else str(at)
