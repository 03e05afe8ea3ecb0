"""Wishes that change while they wait."""

from __future__ import annotations

from e2e.scenarios.grower import (
    asked,
    asked_now,
    is_booked,
    same_pods,
    start,
    start_on_two_pools,
)
from e2e.scenarios.manifests import elastic_group
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage


@scenario("wish-replaced-while-waiting")
def wish_replaced(stage: Stage) -> None:
    """A larger wish while one waits: the old request goes, one for the whole delta comes."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=6)
        stage.wait_for("five are asked for", lambda: asked_now(stage) == [5], 20)
        grower.wish(small=8)
        stage.wait_for("seven are asked for", lambda: asked_now(stage) == [7], 20)
        stage.pools(stage.pool(max_=5))
        stage.wait_for("eight workers run", lambda: grower.running("small") == 8, 60)
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("wish-replaced-after-booking")
def replaced_after_booking(stage: Stage) -> None:
    """What is booked counts: a larger wish asks only for what is not booked yet."""
    grower = start_on_two_pools(stage)
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for(
            "the first pool is booked", lambda: any(map(is_booked, stage.requests())), 20
        )
        requests = asked(stage)
        grower.wish(small=5, big=2)
        stage.wait_for("the new wish is asked for", lambda: sorted(requests()) == [2, 2], 20)
        stage.pools(stage.pool("a"), stage.pool("b"))
        stage.wait_for(
            "all run", lambda: grower.running("small") == 5 and grower.running("big") == 2, 60
        )
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("wish-withdrawn")
def wish_withdrawn(stage: Stage) -> None:
    """A wish taken back while it waits leaves no request and no quota behind."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=6)
        stage.wait_for("five are asked for", lambda: asked_now(stage) == [5], 20)
        waiting = [p.meta.name for p in grower.gated("small")]
        grower.shrink("small", waiting, 1)
        stage.wait_for("nothing is left of it", grower.is_settled, 20)
        stage.expect(grower.slices()[0].pod_sets[1].count == 1, "the slice must have shrunk")


@scenario("one-group-up-one-down")
def up_and_down(stage: Stage) -> None:
    """One group grows while another shrinks: the growth alone is asked for."""
    groups = (elastic_group("small", 2), elastic_group("big", 0, cpu="2"))
    grower = start(stage, *groups, running={"small": 2})
    requests = asked(stage)
    idle = grower.pods("small")[0].meta.name
    grower.patch(
        [
            *grower.terminate(0, [idle], 1),
            {"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": 2},
        ]
    )
    stage.wait_for("big runs", lambda: grower.running("big") == 2, 60)
    stage.wait_for("small is one less", lambda: grower.running("small") == 1, 30)
    stage.expect(requests() == [2], f"one request for 2 pods, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)
