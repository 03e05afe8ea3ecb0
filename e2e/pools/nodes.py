"""The nodes of a pool: as the autoscaler imagines a new one, and as the object that is created.

A fake node carries the annotation by which kwok adopts it, at once or later; a process node
carries the one by which the project's own node agent does. When a node becomes Ready, and when
it advertises its accelerators, stands on the node itself, so that it survives a change of the
settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from e2e.pools.settings import Pool
from e2e.pools.state import (
    ADVERTISE_AFTER,
    HELD_ANNOTATION,
    KIND_ANNOTATION,
    KWOK_ANNOTATION,
    PODS,
    POOL_LABEL,
    READY_AFTER,
    Amounts,
    Node,
    NodeShape,
)
from taugrid_ray.kinds.resource import NODE, Obj
from taugrid_ray.quantity import parse as parse_quantity

PODS_PER_NODE = "110"
HOSTNAME = "kubernetes.io/hostname"
NOT_YET = {
    "type": "Ready",
    "status": "False",
    "reason": "Booting",
    "message": "the node has not been brought up yet",
}


def whole(resource: str, quantity: str) -> int:
    """As the scheduler counts: thousandths of a CPU, else whole units, rounded up."""
    amount = parse_quantity(quantity)
    return -(-(amount * 1000 if resource == "cpu" else amount) // 1)


def whole_amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """What is no quantity is left out: the API server would not have stored it."""
    amounts = {}
    for resource, quantity in quantities.items():
        try:
            amounts[resource] = whole(resource, quantity)
        except ValueError:
            continue
    return amounts


def accelerators(amounts: Mapping[str, int]) -> Amounts:
    """Device-plugin resources: their names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name and amount > 0}


def template(pool: Pool) -> NodeShape:
    """A new node of the pool as the autoscaler imagines it: complete and empty."""
    return NodeShape(_labels(pool), pool.node.taints, whole_amounts(_allocatable(pool)))


def _labels(pool: Pool) -> dict[str, str]:
    fixed = {POOL_LABEL: pool.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {**fixed, **pool.node.labels}


def _allocatable(pool: Pool) -> dict[str, str]:
    return {PODS: PODS_PER_NODE, **pool.node.allocatable}


def ready_after_s(node: Node) -> float | None:
    """Seconds from the node's creation until it is brought up; None: never, or not ours to do."""
    return _seconds(node.annotations.get(READY_AFTER))


def advertised_later(node: Node) -> dict[str, tuple[str, float | None]]:
    """Resources that the node hides at first: amount, and seconds after Ready (None: never)."""
    try:
        found = json.loads(node.annotations.get(ADVERTISE_AFTER, "{}"))
        return {k: (str(v["amount"]), _seconds(str(v["seconds"]))) for k, v in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def manifest(pool: Pool, name: str) -> Obj:
    """The Node object. It says that it is not Ready: one that says nothing gets pods bound."""
    allocatable = _allocatable(pool)
    capacity = {**allocatable, **pool.node.capacity}
    hidden: Amounts = {}
    if pool.without_accelerators is not None:
        hidden = accelerators(whole_amounts(allocatable))
    status: Obj = {
        "conditions": [NOT_YET],
        "allocatable": {k: v for k, v in allocatable.items() if k not in hidden},
        "capacity": {k: v for k, v in capacity.items() if k not in hidden},
    }
    if pool.kind == "fake":
        status["nodeInfo"] = _node_info()
    taints = [taint.model_dump(exclude_defaults=False) for taint in pool.node.taints]
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.kind,
        "metadata": {
            "name": name,
            "labels": {**_labels(pool), HOSTNAME: name},
            "annotations": {
                **pool.node.annotations,
                **_bring_up_annotations(pool),
                **_hidden_annotations(pool, {k: allocatable[k] for k in hidden}),
            },
        },
        "spec": {"providerID": f"e2e:///{pool.name}/{name}", "taints": taints},
        "status": status,
    }


def _bring_up_annotations(pool: Pool) -> dict[str, str]:
    if pool.kind == "process":
        return {KIND_ANNOTATION: "process", READY_AFTER: _text(pool.ready_seconds)}
    if pool.ready_seconds == 0:
        return {KWOK_ANNOTATION: "fake"}
    held = {HELD_ANNOTATION: "true", READY_AFTER: _text(pool.ready_seconds)}
    return {KWOK_ANNOTATION: "fake", **held}


def _hidden_annotations(pool: Pool, hidden: Mapping[str, str]) -> dict[str, str]:
    if not hidden or pool.without_accelerators is None:
        return {}
    seconds = pool.without_accelerators
    later = {name: {"amount": amount, "seconds": seconds} for name, amount in hidden.items()}
    return {ADVERTISE_AFTER: json.dumps(later, sort_keys=True)}


def _text(seconds: float | str) -> str:
    return seconds if isinstance(seconds, str) else f"{seconds:g}"


def _node_info() -> dict[str, str]:
    """What the API server insists on in a node's status; a fake node has no kubelet to ask."""
    told = (
        "kubeletVersion",
        "kubeProxyVersion",
        "osImage",
        "kernelVersion",
        "bootID",
        "systemUUID",
    )
    return {
        **dict.fromkeys((*told, "machineID", "containerRuntimeVersion"), "fake"),
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
