"""What goes wrong beside a growth: pods lost behind a refusal, pods never made, no autoscaler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.actions import Announce, SetCheck
from controllers.growth.asking import step_after
from taugrid_ray import names
from taugrid_ray.growth_memory import Clamp, GroupMemory, GrowthMemory, Limits
from taugrid_ray.kinds.raycluster import RayCluster, parse_raycluster
from taugrid_ray.kinds.workload import parse_workload
from tests.controllers.builders import (
    NOW_S,
    booked,
    condition,
    expired,
    failed,
    no_room,
    policy,
    revoked,
)
from tests.growth.builders import (
    Cluster,
    Group,
    counts,
    groups_set,
    head,
    released,
    words,
    worker,
)

GONE = ["delete ProvisioningRequest", "delete PodTemplate"]
DEADLINE_S = 60


def remembered(**small: Any) -> GrowthMemory:
    return GrowthMemory({"small": GroupMemory(**{"admitted": 1, **small})})


def held(until_s: float = NOW_S + 100, **before: int) -> Clamp:
    limits = Limits(before.get("most", 10), before.get("least", 0))
    return Clamp(limits, Limits(1, limits.least), NOW_S, until_s, "ProvisioningFailed", "no room")


WISH = Cluster(groups=(Group(replicas=4, gated=3),), memory=remembered(), kueue_holds=True)
LOWERED = WISH.but(
    groups=(Group(replicas=4, gated=3, most=1),), memory=remembered(failures=1, clamp=held())
)


def by_hand(cluster: Cluster) -> RayCluster:
    """The same RayCluster without an autoscaler."""
    obj = cluster.cluster()
    obj["spec"]["enableInTreeAutoscaling"] = False
    return parse_raycluster(obj)


# Behind a refusal


def test_a_lost_worker_does_not_wait_behind_a_refusal() -> None:
    """The autoscaler may need a while to withdraw, or never can: below minReplicas."""
    lost = LOWERED.but(
        groups=(Group(replicas=4, running=0, gated=4, most=1),),
    )
    assert words(lost.decides(NOW_S + 1)) == ["check Ready GrowthRefused", "tell GrowthRefused"]
    let = lost.but(kueue_holds=False, check="Ready", admitted=True)
    assert released(let.decides(NOW_S + 1)) == {"small-wait-0": ""}


def test_nor_does_a_head() -> None:
    """With the head, the autoscaler is gone: nobody else would withdraw."""
    lost = LOWERED.but(has_head=False, more_pods=(head(gates=[names.ELASTIC], node=""),))
    decision = lost.decides(NOW_S + 1)
    assert words(decision) == ["check Ready GrowthRefused", "tell GrowthRefused"]
    (entry,) = [a for a in decision.actions if isinstance(a, SetCheck)]
    assert entry.message == "no room"


def test_without_a_lost_one_a_refusal_is_waited_out() -> None:
    assert words(LOWERED.decides(NOW_S + 1)) == []


def test_booked_workers_go_beside_a_refused_group() -> None:
    groups = (Group(replicas=4, gated=3, most=1), Group("big", replicas=1, running=0, gated=1))
    cluster = LOWERED.but(groups=groups).asked().answered(booked())
    assert words(cluster.decides(NOW_S + 1)) == [
        "check Ready CapacityProvisioned",
        "tell CapacityProvisioned",
    ]
    let = cluster.but(kueue_holds=False, check="Ready", admitted=True)
    assert list(released(let.decides(NOW_S + 1))) == ["big-wait-0"]


# Pods that are not made


MAKING = WISH.but(groups=(Group(replicas=4, gated=1),)).asked()


def test_a_refusal_waits_for_the_pods_and_says_so() -> None:
    decision = MAKING.answered(failed()).decides(NOW_S + 3)
    assert words(decision) == ["check Pending ProvisioningFailed", "tell ProvisioningFailed"]
    assert decision.wake_after_s == 1.0


def test_pods_that_never_come_do_not_hold_it_up_for_ever() -> None:
    """A namespace's quota for pods is used up, say."""
    assert groups_set(MAKING.decides(NOW_S + DEADLINE_S + 4)) is None
    found = groups_set(MAKING.decides(NOW_S + DEADLINE_S + 5))
    assert found is not None
    assert [(g.name, g.max_replicas) for g in found.groups] == [("small", 1)]


def test_lost_workers_come_back_while_a_refusal_waits_for_pods() -> None:
    cluster = Cluster(
        groups=(Group(replicas=6, running=1, gated=2),),
        memory=remembered(admitted=2),
        check="Ready",
        admitted=True,
    ).asked()
    late = cluster.answered(failed()).decides(NOW_S + 1)
    assert released(late) == {"small-wait-0": ""}


# Nobody else withdraws


def test_without_an_autoscaler_the_wish_is_withdrawn_with_the_limit() -> None:
    """KubeRay deletes any pods above the limit where no autoscaler is there to choose."""
    late = WISH.asked().looks(cluster=by_hand(WISH)).decides(NOW_S + DEADLINE_S)
    waiting = tuple(f"small-wait-{i}" for i in range(3))
    assert words(late) == [
        f"set small max=1, small replicas=1, small delete={waiting}",
        "tell GrowthRefused",
    ]


def test_below_the_minimum_nothing_is_withdrawn() -> None:
    group = Group(replicas=4, gated=3, least=4)
    late = WISH.but(groups=(group,)).asked()
    assert words(late.decides(NOW_S + DEADLINE_S)) == ["set small max=4", "tell GrowthRefused"]
    cooling = late.but(
        groups=(replace(group, most=4),), memory=remembered(clamp=held(least=4)), requests=()
    )
    assert words(cooling.but(templates=()).decides(NOW_S + 50)) == []
    again = cooling.but(memory=remembered(failures=1), templates=())
    assert counts(again.decides(NOW_S + 100)) == [{"small": 3}]


# Nobody can be asked


@pytest.mark.parametrize(
    "why",
    [
        pytest.param({"policy": None, "policy_fault": "gone"}, id="without a policy"),
        pytest.param({"flavors": {}}, id="without the flavor"),
    ],
)
def test_what_cannot_be_judged_is_not_left_waiting(why: dict[str, Any]) -> None:
    """Without a policy there is no deadline; nothing may wait without one (R8)."""
    blind = WISH.asked().answered(no_room()).looks(**why)
    assert words(blind.decides())[:2] == GONE
    assert released(blind.decides()) == {}


def test_what_is_booked_stays_booked_without_a_policy() -> None:
    blind = WISH.asked().answered(booked()).looks(policy=None, policy_fault="gone")
    assert [w for w in words(blind.decides()) if "delete" in w] == []


def test_lost_workers_come_back_without_a_policy() -> None:
    cluster = Cluster(
        groups=(Group(replicas=4, running=1, gated=3),),
        memory=remembered(admitted=2),
        check="Ready",
        admitted=True,
    )
    blind = cluster.looks(policy=None, policy_fault="gone")
    assert released(blind.decides()) == {"small-wait-0": ""}


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(LOWERED.looks(policy=None, policy_fault="gone"), id="no policy"),
        pytest.param(LOWERED.looks(check="", policy=None), id="no check of ours"),
        pytest.param(LOWERED.looks(on_flavors=("other",)), id="no longer covered"),
        pytest.param(LOWERED.but(groups=(Group(most=1),), check="Ready"), id="at rest"),
    ],
)
def test_whatever_else_limits_are_given_back_in_time(cluster: Cluster) -> None:
    """R6."""
    wake_s = cluster.decides(NOW_S + 1).wake_after_s
    assert wake_s is not None
    assert wake_s <= 99.0
    assert any("max=10" in w for w in words(cluster.decides(NOW_S + 100)))


# The end


def restore(over: dict[str, Any]) -> list[str]:
    return words(LOWERED.but(groups=(Group(most=1),)).looks(**over).decides())


@pytest.mark.parametrize(
    "over",
    [
        pytest.param({"current": None}, id="no slice holds quota"),
        pytest.param({"job": None}, id="the job is unknown"),
    ],
)
def test_nothing_grows_so_all_is_given_back(over: dict[str, Any]) -> None:
    assert restore(over) == ["set small max=10"]


def test_an_inactive_slice_keeps_nothing() -> None:
    obj = WISH.workload()
    obj["spec"]["active"] = False
    assert words(WISH.asked().looks(current=parse_workload(obj)).decides()) == GONE


def test_a_suspended_cluster_keeps_nothing() -> None:
    cluster = WISH.asked()
    obj = cluster.cluster()
    obj["spec"]["suspend"] = True
    assert words(cluster.looks(cluster=parse_raycluster(obj)).decides()) == GONE


def test_a_cluster_that_is_not_elastic_is_left_alone() -> None:
    obj = WISH.cluster()
    obj["metadata"]["annotations"] = {}
    assert WISH.looks(cluster=parse_raycluster(obj)).decides().actions == ()


def test_a_cluster_that_is_being_deleted_keeps_nothing() -> None:
    obj = WISH.cluster()
    obj["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert words(WISH.asked().looks(cluster=parse_raycluster(obj)).decides()) == GONE


def test_limits_and_a_waiting_wish_at_the_end_of_the_job_go_one_after_the_other() -> None:
    ended = LOWERED.but(job={"status": {"jobDeploymentStatus": "Complete"}})
    assert words(ended.decides()) == ["set small max=10"]
    then = ended.but(groups=WISH.groups, memory=remembered(failures=1))
    waiting = tuple(f"small-wait-{i}" for i in range(3))
    assert words(then.decides()) == [f"set small replicas=1, small delete={waiting}"]


# Memory


@pytest.mark.parametrize(
    ("most", "least", "want"),
    [
        pytest.param(1, 0, (10, None), id="as we left them"),
        pytest.param(7, 0, (None, None), id="an admin raised the maximum"),
        pytest.param(0, 0, (None, None), id="an admin lowered it further"),
        pytest.param(7, 5, (None, None), id="both are the admin's"),
        pytest.param(1, 1, (10, None), id="only the minimum is the admin's"),
    ],
)
def test_what_is_given_back(most: int, least: int, want: tuple[int | None, int | None]) -> None:
    group = Group(most=most, least=least)
    cluster = Cluster(groups=(group,), memory=remembered(clamp=held(NOW_S)), admitted=True)
    found = groups_set(cluster.but(check="Ready").decides())
    assert found is not None
    (change,) = found.groups or (None,)
    assert ((change.max_replicas, change.min_replicas) if change else (None, None)) == want
    assert found.memory.group("small").clamp is None


def test_a_group_that_is_gone_is_forgotten() -> None:
    old = GrowthMemory({"small": GroupMemory(admitted=1), "old": GroupMemory(clamp=held(NOW_S))})
    found = groups_set(Cluster(memory=old, check="Ready", admitted=True).decides())
    assert found is not None
    assert found.groups == ()
    assert list(found.memory.groups) == ["small"]


def test_one_refusal_counts_once_however_often_it_is_looked_at() -> None:
    """The limit was lowered, and the watch has not told us yet: the same patch, refused as late."""
    late = WISH.asked()
    assert groups_set(late.decides(NOW_S + 60)) == groups_set(late.decides(NOW_S + 60))


def test_what_has_started_is_not_noted_while_one_still_waits() -> None:
    cluster = Cluster(
        groups=(Group(replicas=2, running=2), Group("big", replicas=1, running=0, gated=1)),
        memory=remembered(),
        check="Ready",
        admitted=True,
    )
    assert groups_set(cluster.decides()) is None


def test_what_is_not_admitted_is_not_noted() -> None:
    assert groups_set(Cluster(check="Ready").decides()) is None
    assert groups_set(Cluster(check="Ready", admitted=True).decides()) is not None


def test_a_smaller_slice_is_noted_and_forgives_nothing() -> None:
    before = remembered(admitted=3, failures=2)
    found = groups_set(Cluster(memory=before, check="Ready", admitted=True).decides())
    assert found is not None
    assert found.memory.group("small") == GroupMemory(admitted=1, failures=2)


# The gang's own first booking


def cold(cluster: Cluster, *answers: Any) -> Cluster:
    """The requests of this cluster as if they had been asked for while nothing ran."""

    def of_gang(obj: Any) -> Any:
        labels = {k: v for k, v in obj["metadata"]["labels"].items() if k != names.CLUSTER_UID}
        return {**obj, "metadata": {**obj["metadata"], "labels": labels}}

    found = tuple(map(of_gang, cluster.requests))
    return cluster.but(requests=found).answered(*answers)


START = Cluster(groups=(Group(running=0, gated=1),), check="Ready", admitted=True)


def test_the_first_booking_is_for_the_first_workers() -> None:
    start = cold(START.asked(), booked())
    assert released(start.decides()) == {"small-wait-0": start.requests[0]["metadata"]["name"]}


@pytest.mark.parametrize(
    ("answers", "given", "want"),
    [
        pytest.param((booked(),), True, GONE, id="used"),
        pytest.param((booked(), expired()), False, GONE, id="run out"),
        pytest.param((booked(),), False, [], id="not used yet"),
        pytest.param((no_room(),), False, [], id="of a gang that waits"),
    ],
)
def test_the_first_booking_is_ours_to_delete_once_it_is_used(
    answers: tuple[Any, ...], given: bool, want: list[str]
) -> None:
    asked = START.asked()
    name = asked.requests[0]["metadata"]["name"] if given else ""
    pod = worker("first", "small", booking=name, node="n", phase="Running")
    start = cold(asked, *answers).but(
        groups=(Group(running=0),), more_pods=(pod,), memory=remembered()
    )
    assert words(start.decides()) == want


# Steps and clocks


@pytest.mark.parametrize(
    ("failures", "want"), [(0, "a"), (1, "a"), (2, "b"), (3, "c"), (4, "c"), (99, "c")]
)
def test_steps(failures: int, want: str) -> None:
    steps = [
        {"provisioningClassName": "a", "attempts": 2},
        {"provisioningClassName": "b", "attempts": 1},
        {"provisioningClassName": "c", "attempts": 1},
    ]
    assert step_after(policy(steps=steps), failures).provisioning_class_name == want


def test_the_next_attempt_is_another_request() -> None:
    first = WISH.asked().requests[0]["metadata"]
    second = WISH.but(memory=remembered(failures=1)).asked().requests[0]["metadata"]
    assert first["name"] != second["name"]
    assert second["labels"][names.ATTEMPT] == "2"


def test_a_new_slice_has_a_clock_of_its_own() -> None:
    late = WISH.asked(NOW_S)
    obj = late.workload()
    obj["metadata"]["uid"] = "next-slice"
    larger = late.looks(current=parse_workload(obj))
    assert groups_set(larger.decides(NOW_S + DEADLINE_S)) is None
    assert counts(larger.decides(NOW_S + DEADLINE_S)) == [{"small": 3}]
    assert [w for w in words(larger.decides(NOW_S + DEADLINE_S)) if "delete" in w] == GONE


def test_a_shrunk_wish_is_asked_anew_on_the_same_clock() -> None:
    """The slice shrinks in place; its request is for too many."""
    late = WISH.asked(NOW_S)
    fewer = late.but(groups=(Group(replicas=3, gated=2),))
    assert counts(fewer.decides(NOW_S + 10)) == [{"small": 2}]
    again = fewer.asked(NOW_S + 10).requests[-1]
    assert again["metadata"]["annotations"][names.ASKED_AT].endswith("Z")
    assert (
        again["metadata"]["annotations"][names.ASKED_AT]
        == late.requests[0]["metadata"]["annotations"][names.ASKED_AT]
    )
    assert groups_set(fewer.asked(NOW_S + 10).decides(NOW_S + DEADLINE_S)) is not None


def test_a_mark_that_somebody_spoiled_is_taken_from_the_object() -> None:
    late = WISH.asked(NOW_S)
    (request,) = late.requests
    notes = {**request["metadata"]["annotations"], names.ASKED_AT: "soon"}
    odd = {**request, "metadata": {**request["metadata"], "annotations": notes}}
    assert groups_set(late.but(requests=(odd,)).decides(NOW_S + DEADLINE_S)) is not None


def test_what_was_given_away_is_asked_for_by_another_name() -> None:
    """A booked pod is gone with its name still counted: the same number is wanted again."""
    name = WISH.asked().requests[0]["metadata"]["name"]
    ended = tuple(
        worker(f"old-{i}", "small", booking=name, node="n", phase="Failed") for i in range(3)
    )
    again = WISH.asked().answered(booked()).but(more_pods=ended)
    (more,) = [r for r in again.asked().requests if r["metadata"]["name"] != name]
    assert more["metadata"]["labels"][names.SERIAL] == "2"


def test_a_taken_name_gives_way_to_another() -> None:
    first = WISH.asked().requests[0]["metadata"]["name"]
    assert WISH.looks(salt=1).asked().requests[0]["metadata"]["name"] != first


# Words


def test_the_same_is_not_said_twice() -> None:
    waiting = WISH.asked()
    said = next(a for a in waiting.decides(NOW_S + 3).actions if isinstance(a, SetCheck))
    assert words(waiting.but(message=said.message).decides(NOW_S + 9)) == []


def test_a_refusal_of_the_api_server_is_tried_again() -> None:
    denied = WISH.looks(refused="webhook says no")
    said = next(a for a in denied.decides(NOW_S + 3).actions if isinstance(a, SetCheck))
    again = denied.but(message=said.message).decides(NOW_S + 33)
    assert words(again) == ["create PodTemplate", "create ProvisioningRequest"]
    assert again.wake_after_s is not None
    assert again.wake_after_s <= 30.0


def test_a_refusal_tells_why_how_many_and_until_when() -> None:
    late = WISH.asked().answered(no_room()).decides(NOW_S + DEADLINE_S)
    (told,) = [a for a in late.actions if isinstance(a, Announce)]
    assert told.warning
    for part in ('"small"', "3 workers", "goes on with 1", "60 s", "Capacity is not found"):
        assert part in told.note


def test_each_lowered_group_is_told() -> None:
    groups = (Group(replicas=2, gated=1), Group("big", replicas=1, running=0, gated=1))
    late = WISH.but(groups=groups).asked().answered(failed()).decides(NOW_S + 3)
    assert words(late) == ["set small max=1, big max=0", "tell GrowthRefused", "tell GrowthRefused"]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((booked(), expired()), id="run out"),
        pytest.param((booked(), revoked()), id="taken back"),
    ],
)
def test_a_pod_on_a_node_keeps_the_name_of_its_booking(answers: tuple[Any, ...]) -> None:
    asked = WISH.asked()
    name = asked.requests[0]["metadata"]["name"]
    pods = tuple(worker(f"new-{i}", "small", booking=name, node="n") for i in range(3))
    over = asked.but(
        groups=(Group(replicas=4),), more_pods=pods, check="Ready", admitted=True
    ).answered(*answers)
    assert words(over.decides()) == ["set memory", *GONE]


def test_nothing_is_ever_said_that_evicts() -> None:
    """R1, over all that the tables of this file hold."""
    evicted = condition("Evicted", NOW_S)
    for cluster in (WISH, LOWERED, MAKING, MAKING.answered(failed()), WISH.asked(NOW_S, evicted)):
        for at_s in (0, 3, 59, 60, 65, 100, 1000):
            for action in cluster.decides(NOW_S + at_s).actions:
                assert not isinstance(action, SetCheck) or action.state.value in (
                    "Pending",
                    "Ready",
                )
