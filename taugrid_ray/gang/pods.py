"""What one pod asks for: hidden containers, defaults, and where each number came from.

Two orders of filling in missing requests are modelled, because they differ:

- the API server first copies limits to missing requests, then LimitRange defaults fill what is left
  (`SetDefaults_Pod`, then the LimitRanger plugin). That is the pod: `per_pod`.
- Kueue 0.19.2 merges the LimitRange first and copies limits last. A container with limits only,
  under a LimitRange with a smaller default request, is counted too low: `counted`.

Sources: kubernetes 1.36 pkg/apis/core/v1/defaults.go and plugin/pkg/admission/limitranger; kueue
0.19.2 pkg/workload/resources.go and pkg/controller/jobs/raycluster/common.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from taugrid_ray.gang.model import Part, Source
from taugrid_ray.kinds.pod_spec import Container, PodSpec, effective_requests
from taugrid_ray.kinds.strict import Field
from taugrid_ray.quantity import Resources, keep_first, largest


@dataclass(frozen=True, slots=True)
class NamespaceDefaults:
    """What the namespace and the cluster fill into pods."""

    limits: Resources = field(default_factory=dict)
    requests: Resources = field(default_factory=dict)
    overheads: dict[str, Resources] = field(default_factory=dict)
    """RuntimeClass name to its pod overhead."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What KubeRay and Kueue add to a pod template."""

    containers: tuple[Container, ...] = ()
    """Added by KubeRay, counted by Kueue: the autoscaler, the submitter in SidecarMode."""
    uncounted_init: tuple[Container, ...] = ()
    """Added by KubeRay, not counted by Kueue: the workers' wait for the head."""
    floor: Resources = field(default_factory=dict)
    """Kueue counts at least this for the first container: the Redis cleanup Job, which comes when
    the pod goes. The pod itself asks for no more than was written.
    """


@dataclass(frozen=True, slots=True)
class Sums:
    per_pod: Resources
    counted: Resources
    parts: tuple[Part, ...]


NOTHING_HIDDEN = Hidden()


def namespace_defaults(
    limit_ranges: Iterable[Field], runtime_classes: Iterable[Field]
) -> NamespaceDefaults:
    """From LimitRange and RuntimeClass objects; the first LimitRange to name a resource wins."""
    limits: dict[str, Fraction] = {}
    requests: dict[str, Fraction] = {}
    for limit_range in limit_ranges:
        for item in limit_range["spec"]["limits"].items():
            if item["type"].text() == "Container":
                default, request = _container_defaults(item)
                limits = keep_first(limits, default)
                requests = keep_first(requests, request)
    overheads: dict[str, Resources] = {
        runtime["metadata"]["name"].text(): runtime["overhead"]["podFixed"].quantities()
        for runtime in runtime_classes
    }
    return NamespaceDefaults(limits, requests, overheads)


def _container_defaults(item: Field) -> tuple[Resources, Resources]:
    """The API server completes a LimitRange when it is stored: max and min stand in."""
    default = keep_first(item["default"].quantities(), item["max"].quantities())
    request = keep_first(item["defaultRequest"].quantities(), default)
    return default, keep_first(request, item["min"].quantities())


def sums_of(pod: PodSpec, hidden: Hidden, defaults: NamespaceDefaults) -> Sums:
    pod = _with_overhead(pod, defaults)
    return Sums(
        per_pod=effective_requests(_as_api_server(pod, hidden, defaults)),
        counted=effective_requests(_as_kueue(pod, hidden, defaults)),
        parts=_parts(pod, hidden, defaults),
    )


def _with_overhead(pod: PodSpec, defaults: NamespaceDefaults) -> PodSpec:
    if pod.overhead or pod.runtime_class not in defaults.overheads:
        return pod
    return replace(pod, overhead=defaults.overheads[pod.runtime_class])


def _as_api_server(pod: PodSpec, hidden: Hidden, defaults: NamespaceDefaults) -> PodSpec:
    containers = [*pod.containers, *hidden.containers]
    init = [*pod.init_containers, *hidden.uncounted_init]
    from_limits = [_requests_from_limits(c) for c in containers]
    init_from_limits = [_requests_from_limits(c) for c in init]
    before = replace(
        pod,
        containers=tuple(from_limits),
        init_containers=tuple(init_from_limits),
        requests={},
        overhead={},
    )
    return replace(
        pod,
        containers=tuple(_requests_from_range(c, defaults) for c in from_limits),
        init_containers=tuple(_requests_from_range(c, defaults) for c in init_from_limits),
        requests=_pod_level(pod, effective_requests(before)),
    )


def _pod_level(pod: PodSpec, of_containers: Resources) -> dict[str, Fraction]:
    """Pod-level limits without requests: the containers' sum where there is one, else the limit."""
    if not pod.limits:
        return dict(pod.requests)
    summed = {n: a for n, a in of_containers.items() if n in ("cpu", "memory")}
    return keep_first(keep_first(pod.requests, summed), pod.limits)


def _as_kueue(pod: PodSpec, hidden: Hidden, defaults: NamespaceDefaults) -> PodSpec:
    containers = [*_raised(list(pod.containers), hidden.floor), *hidden.containers]
    return replace(
        pod,
        containers=tuple(_counted_container(c, defaults) for c in containers),
        init_containers=tuple(_counted_container(c, defaults) for c in pod.init_containers),
        requests=keep_first(pod.requests, pod.limits),
    )


def _counted_container(container: Container, defaults: NamespaceDefaults) -> Container:
    limits = keep_first(container.limits, defaults.limits)
    requests = keep_first(container.requests, defaults.requests)
    return replace(container, requests=keep_first(requests, limits), limits=limits)


def _requests_from_limits(container: Container) -> Container:
    return replace(container, requests=keep_first(container.requests, container.limits))


def _requests_from_range(container: Container, defaults: NamespaceDefaults) -> Container:
    return replace(container, requests=keep_first(container.requests, defaults.requests))


def _raised(containers: list[Container], floor: Resources) -> tuple[Container, ...]:
    if not floor or not containers:
        return tuple(containers)
    first = replace(containers[0], requests=largest(containers[0].requests, floor))
    return (first, *containers[1:])


def _parts(pod: PodSpec, hidden: Hidden, defaults: NamespaceDefaults) -> tuple[Part, ...]:
    parts = [
        _part("sidecar" if c.is_sidecar else "init container", c, defaults)
        for c in pod.init_containers
    ]
    parts += [_added(c.name, c) for c in hidden.uncounted_init]
    parts += [_part("container", c, defaults) for c in pod.containers]
    parts += [_added(c.name, c) for c in hidden.containers]
    if hidden.floor:
        parts.append(
            Part("redis cleanup", "", hidden.floor, dict.fromkeys(hidden.floor, Source.KUEUE))
        )
    level = _pod_level(pod, {})
    if level:
        parts.append(Part("pod", "", level, dict.fromkeys(level, Source.POD_LEVEL)))
    if pod.overhead:
        sources = dict.fromkeys(pod.overhead, Source.OVERHEAD)
        parts.append(Part("overhead", pod.runtime_class, pod.overhead, sources))
    return tuple(parts)


def _part(what: str, container: Container, defaults: NamespaceDefaults) -> Part:
    sources = {
        **dict.fromkeys(defaults.requests, Source.LIMIT_RANGE),
        **dict.fromkeys(container.limits, Source.LIMITS),
        **dict.fromkeys(container.requests, Source.REQUESTS),
    }
    filled = _requests_from_range(_requests_from_limits(container), defaults)
    return Part(what, container.name, filled.requests, sources)


def _added(what: str, container: Container) -> Part:
    filled = _requests_from_limits(container).requests
    return Part(what, container.name, filled, dict.fromkeys(filled, Source.KUBERAY))
