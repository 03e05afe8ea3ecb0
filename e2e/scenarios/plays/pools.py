"""Gangs over several pools, and pod sets that need no booking."""

from __future__ import annotations

from typing import Any

from e2e.scenarios.manifests import on, ray_job, worker_group
from e2e.scenarios.plays.timeouts import holds_no_quota, parked
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds.conditions import is_true
from taugrid_ray.kinds.resource import RAY_JOB, Obj
from taugrid_ray.kinds.workload import CheckState


def two_pool_queues(stage: Stage) -> None:
    stage.queues([("a", {"cpu": "50"}), ("b", {"cpu": "50"})])


def two_pool_ray_job(stage: Stage, **spec: Any) -> Obj:
    """Head and group `first` on pool a, group `second` on pool b."""
    a, b = ({"pool": stage.own(p)} for p in ("a", "b"))
    groups = [on(worker_group("first", 2), a), on(worker_group("second", 2), b)]
    made = ray_job("train", entrypoint="python -c 1", groups=groups, mode="HTTPMode", **spec)
    on(made["spec"]["rayClusterSpec"]["headGroupSpec"], a)
    return made


@scenario("two-pools", in_test=True)
def two_pools(stage: Stage) -> None:
    """Two worker groups on two pools: two requests, and nothing starts before both are booked."""
    stage.policy()
    two_pool_queues(stage)
    stage.pools(stage.pool("a"), stage.pool("b", max_=0))
    stage.create(RAY_JOB, two_pool_ray_job(stage))
    stage.wait_for("two requests exist", lambda: len(stage.requests()) == 2)
    counts = sorted(r.pods for r in stage.requests())
    stage.expect(counts == [2, 3], f"3 pods in one, 2 in the other, found {counts}")
    stage.wait_for("one of them is booked", lambda: len(_booked(stage)) == 1)
    stage.never("a pod starts on half a gang", stage.pods, 5)
    stage.pools(stage.pool("a"), stage.pool("b"))
    stage.wait_for("five pods run", lambda: _running(stage) == 5, 60)
    stage.wait_for("requests and templates are gone", stage.nothing_of_ours, 15)


@scenario("two-pools-one-short")
def one_short(stage: Stage) -> None:
    """When one pool has no room, neither booking is kept."""
    stage.policy(deadlines={"provision": 6}, backoff={"baseSeconds": 10})
    two_pool_queues(stage)
    stage.pools(stage.pool("a"), stage.pool("b", max_=0))
    stage.create(RAY_JOB, two_pool_ray_job(stage))
    stage.wait_for("one of two is booked", lambda: len(_booked(stage)) == 1)
    stage.wait_for("the gang is parked", lambda: parked(stage, "train", "ProvisioningTimedOut"))
    stage.wait_for("neither request is kept", stage.nothing_of_ours, 10)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "train"), 10)
    stage.expect(not stage.pods(), "no pod may have started")
    stage.wait_for("the booked nodes go", lambda: not stage.nodes("a"), 60)


def _booked(stage: Stage) -> list[str]:
    return [r.meta.name for r in stage.requests() if is_true(r.conditions, "Provisioned")]


def _running(stage: Stage) -> int:
    return sum(1 for p in stage.pods() if p.get("status", {}).get("phase") == "Running")


@scenario("booking-expires-while-waiting")
def booking_expires(stage: Stage) -> None:
    """A booking that runs out while a sibling waits is asked again in the same attempt."""
    stage.policy()
    two_pool_queues(stage)
    stage.pools(stage.pool("a"), stage.pool("b", max_=0), bookingSeconds=5)
    stage.create(RAY_JOB, two_pool_ray_job(stage))
    stage.wait_for("two requests exist", lambda: len(stage.requests()) == 2)
    again = stage.wait_for(
        "the expired booking is asked again",
        lambda: [r for r in stage.requests() if r.label(names.SERIAL) == "2"],
    )[0]
    stage.expect(again.label(names.ATTEMPT) == "1", "it must be the same attempt")
    marks = {r.meta.annotations[names.ASKED_AT] for r in stage.requests()}
    stage.expect(len(marks) == 1, f"the provision clock must go on, found {sorted(marks)}")
    stage.wait_for("the old request is gone", lambda: len(stage.requests()) == 2, 10)
    stage.pools(stage.pool("a"), stage.pool("b"), bookingSeconds=60)
    stage.wait_for("all is booked", lambda: _ready(stage, "train"), 30)


def _ready(stage: Stage, name: str) -> bool:
    check = stage.our_check(name)
    return check is not None and check.state is CheckState.READY


def static_head(stage: Stage) -> None:
    """A queue whose first flavor is static, and a check that applies to the other alone."""
    stage.queues(
        [("static", {"cpu": "4"}), ("cpu", {"cpu": "50"})],
        checks=[{"name": stage.check, "onFlavors": [stage.own("cpu")]}],
    )


def static_head_ray_job(stage: Stage) -> Obj:
    groups = [on(worker_group("workers", 2), {"pool": stage.own("cpu")})]
    return ray_job("train", entrypoint="python -c 1", groups=groups, mode="HTTPMode")


@scenario("static-head-flavor-not-covered")
def head_not_covered(stage: Stage) -> None:
    """A head on a flavor outside the check is not asked for, and waits for its workers' gang."""
    stage.policy()
    static_head(stage)
    stage.pools(stage.pool("cpu", max_=0), stage.pool("static", min=1))
    stage.create(RAY_JOB, static_head_ray_job(stage))
    request = stage.wait_for("one request exists", stage.requests)[0]
    stage.expect(request.pods == 2, f"the two workers alone, found {request.pods}")
    stage.never("the head starts before the gang is booked", stage.pods, 4)
    stage.pools(stage.pool("cpu"), stage.pool("static", min=1))
    stage.wait_for("head and workers run", lambda: _running(stage) == 3, 60)
    stage.wait_for("request and templates are gone", stage.nothing_of_ours, 15)


@scenario("onflavors-check", in_test=True)
def on_flavors(stage: Stage) -> None:
    """Kueue drops a check limited by onFlavors with the quota; attempts are not forgotten."""
    stage.policy(deadlines={"provision": 4}, backoff={"baseSeconds": 3})
    static_head(stage)
    stage.pools(stage.pool("cpu", max_=0))
    stage.create(RAY_JOB, static_head_ray_job(stage))
    stage.wait_for("the first attempt is parked", lambda: parked(stage, "train"))
    stage.wait_for("Kueue has dropped the check", lambda: stage.our_check("train") is None, 15)
    stage.wait_for(
        "the second attempt asks",
        lambda: [r.label(names.ATTEMPT) for r in stage.requests()] == ["2"],
        20,
    )
    stage.wait_for("two attempts are remembered", lambda: stage.memory("train").failures == 2, 20)
