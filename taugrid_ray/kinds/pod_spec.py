"""A pod's spec: what it asks for, and where it may go.

`effective_requests` is the sum the scheduler and Kueue use. It is a maximum over time: while the
i-th init container runs, the native sidecars started before it run too; afterwards all sidecars run
beside the containers. Pod-level requests then replace the sum (cpu, memory and huge pages only),
and the runtime class's overhead comes on top.

Source: kubernetes/component-helpers, resource/helpers.go, v0.36; KEP-753, KEP-2837.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from taugrid_ray.kinds.strict import Field
from taugrid_ray.quantity import Resources, largest, total

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    requests: Resources = field(default_factory=dict)
    limits: Resources = field(default_factory=dict)
    is_sidecar: bool = False
    """A native sidecar: an init container with restartPolicy Always."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Names and plain values; a value from elsewhere is ""."""
    image: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    requests: Resources = field(default_factory=dict)
    """Pod-level requests (`spec.resources`), beside those of the containers."""
    limits: Resources = field(default_factory=dict)
    overhead: Resources = field(default_factory=dict)
    runtime_class: str = ""
    scheduler: str = ""
    restart_policy: str = ""
    priority_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerated_keys: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


def parse_pod_spec(spec: Field) -> PodSpec:
    """Read a pod's spec. Raises FieldError where a type or a quantity is wrong."""
    return PodSpec(
        containers=tuple(_container(c) for c in spec["containers"].items()),
        init_containers=tuple(_container(c) for c in spec["initContainers"].items()),
        requests=spec["resources"]["requests"].quantities(),
        limits=spec["resources"]["limits"].quantities(),
        overhead=spec["overhead"].quantities(),
        runtime_class=spec["runtimeClassName"].text(),
        scheduler=spec["schedulerName"].text(),
        restart_policy=spec["restartPolicy"].text(),
        priority_class=spec["priorityClassName"].text(),
        node_selector=spec["nodeSelector"].string_map(),
        tolerated_keys=tuple(t["key"].text() for t in spec["tolerations"].items()),
        gates=tuple(g["name"].text() for g in spec["schedulingGates"].items()),
    )


def _container(item: Field) -> Container:
    env = {e["name"].text(): e["value"].text() for e in item["env"].items()}
    return Container(
        name=item["name"].text(),
        requests=item["resources"]["requests"].quantities(),
        limits=item["resources"]["limits"].quantities(),
        is_sidecar=item["restartPolicy"].text() == "Always",
        env=env,
        image=item["image"].text(),
    )


def effective_requests(pod: PodSpec) -> dict[str, Fraction]:
    """What the pod as a whole asks for. Limits do not count here: defaults come before."""
    return total([_without_overhead(pod), pod.overhead])


def _without_overhead(pod: PodSpec) -> dict[str, Fraction]:
    sidecars: dict[str, Fraction] = {}
    while_starting: dict[str, Fraction] = {}
    for init in pod.init_containers:
        now = total([sidecars, init.requests])
        if init.is_sidecar:
            sidecars = now
        while_starting = largest(while_starting, now)
    running = total([sidecars, *(c.requests for c in pod.containers)])
    summed = largest(running, while_starting)
    return {**summed, **{n: a for n, a in pod.requests.items() if _is_pod_level(n)}}


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")
