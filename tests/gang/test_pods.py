"""What one pod asks for: init containers, sidecars, defaults, overhead, and Kueue's other order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import Gang, NoteCode, Source, gang_of
from taugrid_ray.kinds.pod_spec import Container, PodSpec, effective_requests
from tests.gang.objects import GPU, Obj, amounts, container, group, job, pod, raycluster

RANGE: Obj = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "defaults", "namespace": "team-a"},
    "spec": {
        "limits": [
            {"type": "Pod", "max": {"cpu": "64"}},
            {
                "type": "Container",
                "defaultRequest": {"cpu": "1", "memory": "1Gi"},
                "default": {"cpu": "4", "memory": "4Gi"},
            },
        ]
    },
}
SANDBOX: Obj = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandbox"},
    "handler": "sandbox",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
}


def of(*containers: Obj, init: tuple[Obj, ...] = (), **spec: Any) -> Obj:
    return job(pod(*containers, initContainers=list(init), **spec))


def both(gang: Gang) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    main = gang.group("main")
    return dict(main.per_pod), dict(main.counted.per_pod)


def side(cpu: str) -> Obj:
    return container("side", {"cpu": cpu}, restartPolicy="Always")


def init(cpu: str) -> Obj:
    return container("init", {"cpu": cpu})


@pytest.mark.parametrize(
    ("first", "apps", "want"),
    [
        pytest.param((), ("1", "2"), "3", id="containers add up"),
        pytest.param((init("2"),), ("1",), "2", id="an init container alone may be the most"),
        pytest.param((init("1"), init("1")), ("500m",), "1", id="init containers do not add up"),
        pytest.param((side("100m"), init("200m")), ("100m",), "300m", id="init beside a sidecar"),
        pytest.param((init("200m"), side("100m")), ("100m",), "200m", id="init before a sidecar"),
        pytest.param((side("1"), side("1")), ("1",), "3", id="sidecars stay"),
        pytest.param((side("1"), init("5"), side("1")), ("1",), "6", id="the most is in between"),
    ],
)
def test_init_containers_and_sidecars(
    first: tuple[Obj, ...], apps: tuple[str, ...], want: str
) -> None:
    gang = gang_of(of(*(container(f"app{i}", {"cpu": c}) for i, c in enumerate(apps)), init=first))
    assert both(gang) == (amounts(cpu=want), amounts(cpu=want))


def test_the_most_is_taken_for_each_resource_by_itself() -> None:
    gang = gang_of(
        of(
            container("app", {"cpu": "4", "memory": "1Gi"}),
            init=(container("load", {"cpu": "1", "memory": "8Gi"}),),
        )
    )
    assert gang.total == amounts(cpu="4", memory="8Gi")


def test_limits_become_requests() -> None:
    gang = gang_of(of(container("app", {"cpu": "1"}, {"cpu": "2", "memory": "2Gi", GPU: "1"})))
    assert both(gang) == (amounts(cpu="1", memory="2Gi", gpu="1"),) * 2
    part = gang.group("main").parts[0]
    assert part.sources == {"cpu": Source.REQUESTS, "memory": Source.LIMITS, GPU: Source.LIMITS}


def test_a_request_of_zero_is_written() -> None:
    gang = gang_of(of(container("app", {"cpu": "0"}, {"cpu": "2"})))
    assert gang.total == {}


class TestLimitRange:
    def test_limits_come_before_its_defaults_in_the_pod_and_after_in_kueue(self) -> None:
        gang = gang_of(
            of(container("app", limits={"cpu": "3", "memory": "6Gi"})), limit_ranges=[RANGE]
        )
        assert both(gang) == (amounts(cpu="3", memory="6Gi"), amounts(cpu="1", memory="1Gi"))
        assert gang.notes_of(NoteCode.KUEUE_COUNTS_DIFFERENTLY)

    def test_it_fills_in_what_nobody_wrote(self) -> None:
        gang = gang_of(of(container("app")), limit_ranges=[RANGE])
        assert both(gang) == (amounts(cpu="1", memory="1Gi"),) * 2
        assert set(gang.group("main").parts[0].sources.values()) == {Source.LIMIT_RANGE}

    def test_its_limits_are_requests_where_it_has_no_requests(self) -> None:
        only: Obj = {"spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}}
        gang = gang_of(of(container("app")), limit_ranges=[only])
        assert gang.total == amounts(cpu="2")

    def test_the_least_allowed_is_a_default_too(self) -> None:
        least: Obj = {"spec": {"limits": [{"type": "Container", "min": {"cpu": "300m"}}]}}
        gang = gang_of(of(container("app")), limit_ranges=[least])
        assert gang.total == amounts(cpu="300m")

    def test_the_most_allowed_is_a_default_limit(self) -> None:
        most: Obj = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}
        gang = gang_of(of(container("app")), limit_ranges=[most])
        assert gang.total == amounts(cpu="2")

    def test_requests_are_left_alone(self) -> None:
        gang = gang_of(of(container("app", {"cpu": "100m", "memory": "5Mi"})), limit_ranges=[RANGE])
        assert gang.total == amounts(cpu="100m", memory="5Mi")

    def test_init_containers_get_it_too(self) -> None:
        asks = container("app", {"cpu": "100m", "memory": "5Mi"})
        gang = gang_of(of(asks, init=(container("load"),)), limit_ranges=[RANGE])
        assert gang.total == amounts(cpu="1", memory="1Gi")

    def test_one_that_cannot_be_read_is_named(self) -> None:
        bad: Obj = {"spec": {"limits": [{"type": "Container", "default": {"cpu": "lots"}}]}}
        with pytest.raises(ManifestError, match="'lots' is not a quantity"):
            gang_of(of(container("app")), limit_ranges=[bad])


class TestOverhead:
    def test_written_in_the_pod(self) -> None:
        gang = gang_of(of(container("app", {"cpu": "1"}), overhead={"cpu": "250m"}))
        assert both(gang) == (amounts(cpu="1250m"),) * 2
        assert Source.OVERHEAD in gang.group("main").parts[-1].sources.values()

    def test_of_its_runtime_class(self) -> None:
        obj = of(container("app", {"cpu": "1", "memory": "1Gi"}), runtimeClassName="sandbox")
        gang = gang_of(obj, runtime_classes=[SANDBOX])
        assert gang.total == amounts(cpu="1250m", memory="1144Mi")
        assert not gang.notes_of(NoteCode.OVERHEAD_UNKNOWN)

    def test_of_a_runtime_class_nobody_knows(self) -> None:
        gang = gang_of(of(container("app", {"cpu": "1"}), runtimeClassName="other"))
        assert gang.total == amounts(cpu="1")
        assert gang.notes_of(NoteCode.OVERHEAD_UNKNOWN)

    def test_comes_on_top_of_the_most(self) -> None:
        gang = gang_of(of(container("app", {"cpu": "1"}), init=(init("3"),), overhead={"cpu": "1"}))
        assert gang.total == amounts(cpu="4")


class TestPodLevel:
    """Requests of the pod as a whole (spec.resources)."""

    def test_replace_the_sum(self) -> None:
        gang = gang_of(of(container("app", {"cpu": "1"}), resources={"requests": {"cpu": "5"}}))
        assert both(gang) == (amounts(cpu="5"),) * 2

    def test_leave_devices_to_the_containers(self) -> None:
        asks = container("app", {"cpu": "1", GPU: "2"}, {GPU: "2"})
        gang = gang_of(of(asks, resources={"requests": {"cpu": "5"}}))
        assert gang.total == amounts(cpu="5", gpu="2")

    def test_limits_alone_leave_the_containers_sum(self) -> None:
        asks = container("app", {"cpu": "1"})
        gang = gang_of(of(asks, resources={"limits": {"cpu": "8", "memory": "8Gi"}}))
        assert gang.group("main").per_pod == amounts(cpu="1", memory="8Gi")


def test_the_redis_cleanup_is_counted_by_kueue_and_asked_for_by_nobody() -> None:
    spec: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    tiny = pod(container("ray", {"cpu": "100m", "memory": "1Gi"}))
    head = gang_of(raycluster(group(), head=tiny, **spec)).group("head")
    assert head.per_pod == amounts(cpu="100m", memory="1Gi")
    assert head.counted.per_pod == amounts(cpu="200m", memory="1Gi")


def test_kueue_takes_the_redis_cleanup_for_the_request_of_a_head_with_limits_only() -> None:
    spec: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    head = pod(container("ray", limits={"cpu": "4", "memory": "8Gi"}))
    gang = gang_of(raycluster(group(), head=head, **spec))
    assert gang.group("head").per_pod == amounts(cpu="4", memory="8Gi")
    assert gang.group("head").counted.per_pod == amounts(cpu="200m", memory="256Mi")
    assert gang.notes_of(NoteCode.KUEUE_COUNTS_DIFFERENTLY)


def test_workers_wait_for_the_head_in_a_container_that_kueue_does_not_see() -> None:
    tiny = pod(container("ray", {"cpu": "50m", "memory": "1Gi"}))
    made = gang_of(raycluster(group("w", 2, tiny))).group("w")
    assert made.per_pod == amounts(cpu="200m", memory="1Gi")
    assert made.counted.per_pod == amounts(cpu="50m", memory="1Gi")


def test_devices_claimed_otherwise_are_told() -> None:
    claims = [{"name": "net", "resourceClaimTemplateName": "two"}]
    gang = gang_of(of(container("app", {"cpu": "1"}), resourceClaims=claims))
    assert gang.notes_of(NoteCode.CLAIMS_NOT_COUNTED)


_amount = st.integers(0, 64).map(Fraction)
_container = st.builds(
    Container,
    name=st.just("c"),
    requests=st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), _amount),
    is_sidecar=st.booleans(),
)
_plain = _container.filter(lambda c: not c.is_sidecar)


@settings(deadline=None)
@given(st.lists(_container, max_size=5), st.lists(_plain, min_size=1, max_size=3))
def test_a_pod_asks_for_the_most_that_ever_runs_at_once(
    first: list[Container], apps: list[Container]
) -> None:
    """Against a pod that is started step by step."""
    moments: list[list[Container]] = []
    running: list[Container] = []
    for one in first:
        moments.append([*running, one])
        if one.is_sidecar:
            running.append(one)
    moments.append([*running, *apps])
    want: dict[str, Fraction] = {}
    for moment in moments:
        for resource in ("cpu", "memory", GPU):
            now = sum((c.requests.get(resource, Fraction(0)) for c in moment), Fraction(0))
            want[resource] = max(want.get(resource, Fraction(0)), now)
    found = effective_requests(PodSpec(containers=tuple(apps), init_containers=tuple(first)))
    assert {r: a for r, a in found.items() if a} == {r: a for r, a in want.items() if a}
