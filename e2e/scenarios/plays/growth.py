"""Growth granted and refused, on fake nodes."""

from __future__ import annotations

from e2e.scenarios.grower import (
    Grower,
    asked,
    is_booked,
    same_pods,
    start,
    start_on_two_pools,
)
from e2e.scenarios.manifests import elastic_group
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage


@scenario("growth-delta-only", in_test=True)
def growth(stage: Stage) -> None:
    """One worker runs, four are wanted: one request for the three that are new."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=4)
        stage.wait_for("four workers run", lambda: grower.running("small") == 4, 60)
        stage.expect(requests() == [3], f"one request for 3 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-timeout", in_test=True)
def refused(stage: Stage) -> None:
    """No room for more: the limit is lowered, the wish withdrawn, and what ran runs on."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1}, deadline=4)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=8)
        stage.wait_for("it says that it grows", lambda: stage.events("Growing"), 20)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
        most = grower.most()
        stage.expect(most == 1, f"maxReplicas lowered to what runs, found {most}")
        stage.wait_for("it says so", lambda: stage.events("GrowthRefused"), 10)
        grower.withdraw()
        stage.wait_for("the slice is admitted at what it had", grower.is_settled, 30)
        stage.expect(grower.slices()[0].pod_sets[1].count == 1, "the slice must have shrunk")
        stage.wait_for("maxReplicas is given back", lambda: grower.most() == 10, 20)
        stage.expect(not grower.memory().group("small").clamp, "the memory must know")


@scenario("growth-two-groups-one-request")
def two_groups(stage: Stage) -> None:
    """Two groups of one pool grow in one wish: one request for both."""
    groups = (elastic_group("small", 1), elastic_group("big", 0, cpu="2"))
    grower = start(stage, *groups, running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for("the small ones run", lambda: grower.running("small") == 3, 60)
        stage.wait_for("the big ones run", lambda: grower.running("big") == 2, 60)
        stage.expect(requests() == [4], f"one request for 2 + 2 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-two-pools")
def two_pools(stage: Stage) -> None:
    """Two groups of two pools grow in one wish: a request each, and none starts before both."""
    grower = start_on_two_pools(stage)
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for("two requests exist", lambda: len(stage.requests()) == 2, 20)
        stage.wait_for("one of them is booked", lambda: any(map(is_booked, stage.requests())), 20)
        stage.never(
            "a worker starts before both are booked", lambda: grower.running("small") > 1, 5
        )
        stage.pools(stage.pool("a"), stage.pool("b"))
        stage.wait_for(
            "all run", lambda: grower.running("small") == 3 and grower.running("big") == 2, 60
        )
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-from-head-only")
def from_head_only(stage: Stage) -> None:
    """A cluster that starts as a head alone grows from zero workers."""
    grower = start(stage, elastic_group("small", 0), running={})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=2)
        stage.wait_for("two workers run", lambda: grower.running("small") == 2, 60)
        stage.expect(requests() == [2], f"one request for 2 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-again-after-cooldown")
def again(stage: Stage) -> None:
    """Refused once, a second wish after the cool-down is a new attempt, and succeeds."""
    grower = _refused_once(stage)
    stage.pools(stage.pool(max_=5))
    stage.wait_for("maxReplicas is given back", lambda: grower.most() == 10, 20)
    grower.wish(small=3)
    stage.wait_for("three workers run", lambda: grower.running("small") == 3, 60)
    stage.wait_for("nothing is left of it", grower.is_settled, 20)
    stage.wait_for(
        "success ends the row of refusals", lambda: grower.memory().group("small").failures == 0, 10
    )


def _refused_once(stage: Stage) -> Grower:
    grower = start(stage, elastic_group("small", 1), running={"small": 1}, deadline=3)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    grower.wish(small=8)
    stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
    grower.withdraw()
    stage.wait_for("the slice is what it was", grower.is_settled, 30)
    return grower


@scenario("max-replicas-given-back")
def given_back(stage: Stage) -> None:
    """The lowered limit is given back after the cool-down, and the next pause is longer."""
    grower = _refused_once(stage)
    stage.wait_for("maxReplicas is given back", lambda: grower.most() == 10, 20)
    grower.wish(small=8)
    stage.wait_for("it is lowered again", grower.needs_withdrawal, 30)
    held = grower.memory().group("small").clamp
    stage.expect(held is not None and held.until_s - held.at_s == 6, f"6 s this time: {held}")
    grower.withdraw()
    stage.wait_for("and given back again", lambda: grower.most() == 10, 30)
    stage.wait_for("the slice is what it was", grower.is_settled, 30)


@scenario("admin-edits-max-during-clamp")
def admin_edits(stage: Stage) -> None:
    """What an admin writes while the limit is lowered stays; ours is not written over it."""
    grower = _refused_once(stage)
    stage.expect(grower.most() == 1, "still lowered")
    place = "/spec/workerGroupSpecs/0/maxReplicas"
    grower.patch([{"op": "replace", "path": place, "value": 4}])
    stage.wait_for("we forget the clamp", lambda: not grower.memory().group("small").clamp, 20)
    stage.expect(grower.most() == 4, f"the admin's 4, found {grower.most()}")
