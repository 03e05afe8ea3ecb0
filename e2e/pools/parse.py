"""JSON of the API server to the values of `state.py`. Nothing here raises on odd input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from e2e.pools.nodes import whole_amounts
from e2e.pools.settings import Taint
from e2e.pools.state import (
    PODS,
    Node,
    NodeShape,
    Pod,
    PodSet,
    PodShape,
    Request,
    Requirement,
    Toleration,
)
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Condition, find, parse_conditions
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.names import CONSUME

CONSUME_OLD = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
LIFECYCLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""They follow the Ready condition some moments later; the condition is what counts here."""


def parse_node(obj: Obj) -> Node:
    meta = parse_meta(obj)
    ready = find(parse_conditions(obj), "Ready") or Condition("Ready", "Unknown")
    taints = tuple(
        taint
        for taint in map(_taint, fields.objects(obj, "spec", "taints"))
        if taint is not None and taint.key not in LIFECYCLE_TAINTS
    )
    allocatable = whole_amounts(fields.string_map(obj, "status", "allocatable"))
    return Node(
        name=meta.name,
        uid=meta.uid,
        shape=NodeShape(meta.labels, taints, allocatable),
        ready=ready.is_true,
        created_at_s=meta.created_at_s or 0.0,
        ready_since_s=ready.changed_at_s,
        annotations=meta.annotations,
        cordoned=fields.is_true(obj, "spec", "unschedulable"),
    )


def _taint(obj: Obj) -> Taint | None:
    try:
        return Taint.model_validate({k: v for k, v in obj.items() if k in Taint.model_fields})
    except ValidationError:
        return None


def parse_pod(obj: Obj) -> Pod:
    meta = parse_meta(obj)
    owner = meta.controller_owner
    scheduled = find(parse_conditions(obj), "PodScheduled")
    notes = meta.annotations
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        shape=parse_pod_shape(fields.mapping(obj, "spec")),
        node=fields.text(obj, "spec", "nodeName"),
        has_ended=fields.text(obj, "status", "phase") in ("Succeeded", "Failed"),
        is_daemon=owner is not None and owner.kind == "DaemonSet",
        is_unschedulable=(
            scheduled is not None
            and scheduled.status == "False"
            and scheduled.reason == "Unschedulable"
            and not fields.objects(obj, "spec", "schedulingGates")
            and not meta.is_terminating
        ),
        consumes=notes.get(CONSUME) or notes.get(CONSUME_OLD) or "",
    )


def parse_template(obj: Obj) -> PodShape:
    return parse_pod_shape(fields.mapping(obj, "template", "spec"))


def parse_pod_shape(spec: Obj) -> PodShape:
    return PodShape(
        requests=tuple(sorted({**_requests(spec), PODS: 1}.items())),
        node_selector=tuple(sorted(fields.string_map(spec, "nodeSelector").items())),
        terms=_terms(spec),
        tolerations=tuple(
            Toleration(
                key=fields.text(t, "key"),
                operator=fields.text(t, "operator") or "Equal",
                value=fields.text(t, "value"),
                effect=fields.text(t, "effect"),
            )
            for t in fields.objects(spec, "tolerations")
        ),
    )


def _requests(spec: Obj) -> dict[str, int]:
    """What the scheduler counts for the whole pod.

    Containers and restartable init containers (sidecars) run together. Any other init container
    runs beside the sidecars that were started before it, and only the largest moment counts.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in fields.objects(spec, "initContainers"):
        asked = _container_requests(container)
        if fields.text(container, "restartPolicy") == "Always":
            running = _sum((running, asked))
        else:
            peak = _larger(peak, _sum((running, asked)))
    containers = [_container_requests(c) for c in fields.objects(spec, "containers")]
    whole = _larger(_sum((running, *containers)), peak)
    return _sum((whole, whole_amounts(_quantities(spec, "overhead"))))


def _container_requests(container: Obj) -> dict[str, int]:
    """A limit without a request is a request."""
    limits = _quantities(container, "resources", "limits")
    return whole_amounts({**limits, **_quantities(container, "resources", "requests")})


def _quantities(obj: Obj, *path: str) -> dict[str, str]:
    """Templates written by hand have plain numbers too."""
    found = fields.mapping(obj, *path)
    return {
        name: str(value)
        for name, value in found.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
    }


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _larger(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def _terms(spec: Obj) -> tuple[tuple[Requirement, ...], ...]:
    """Required node affinity. A term with fields instead of labels is kept and never holds."""
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(
        tuple(
            Requirement(
                key=fields.text(expression, "key"),
                operator=fields.text(expression, "operator"),
                values=fields.strings(expression, "values"),
            )
            for expression in (
                *fields.objects(term, "matchExpressions"),
                *({"operator": "Field"} for _ in fields.objects(term, "matchFields")),
            )
        )
        for term in fields.objects(spec, *path, "nodeSelectorTerms")
    )


def parse_request(obj: Obj) -> Request:
    meta = parse_meta(obj)
    return Request(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        class_name=fields.text(obj, "spec", "provisioningClassName"),
        pod_sets=tuple(
            PodSet(fields.integer(s, "count") or 0, fields.text(s, "podTemplateRef", "name"))
            for s in fields.objects(obj, "spec", "podSets")
        ),
        created_at_s=meta.created_at_s or 0.0,
        conditions=parse_conditions(obj),
        written=fields.objects(obj, "status", "conditions"),
        parameters=fields.string_map(obj, "spec", "parameters"),
        labels=meta.labels,
    )
