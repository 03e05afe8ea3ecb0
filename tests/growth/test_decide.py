"""Tables of growth: what is asked, what is let go, what is lowered and given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taugrid_ray import names
from taugrid_ray.growth_memory import Clamp, GroupMemory, GrowthMemory, Limits
from taugrid_ray.kinds.workload import parse_workload
from tests.controllers.builders import (
    NOW_S,
    booked,
    condition,
    consumed,
    expired,
    failed,
    no_room,
    revoked,
)
from tests.growth.builders import (
    CLUSTER_UID,
    Cluster,
    Group,
    counts,
    groups_set,
    head,
    released,
    words,
    worker,
)

CREATES = ["create PodTemplate", "create ProvisioningRequest"]
GONE = ["delete ProvisioningRequest", "delete PodTemplate"]


def memory(**groups: GroupMemory) -> GrowthMemory:
    return GrowthMemory(groups)


RAN = memory(small=GroupMemory(admitted=1))
WISH = Cluster(groups=(Group(replicas=4, gated=3),), memory=RAN, kueue_holds=True)
"""One worker runs, three more are wanted; Kueue's gate is still on them."""
GRANTED = WISH.asked().answered(booked()).but(kueue_holds=False, check="Ready", admitted=True)
CLAMPED = memory(
    small=GroupMemory(
        admitted=1,
        failures=1,
        clamp=Clamp(Limits(10, 0), Limits(1, 0), NOW_S, NOW_S + 10, "ProvisioningTimedOut", "no"),
    )
)
LOWERED = Cluster(groups=(Group(replicas=4, gated=3, most=1),), memory=CLAMPED, kueue_holds=True)


# What is asked for


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        pytest.param(WISH, [{"small": 3}], id="the delta alone"),
        pytest.param(WISH.but(memory=None), [{"small": 3}], id="without a memory as well"),
        pytest.param(
            Cluster(groups=(Group(replicas=4, count=2, gated=3),), memory=RAN),
            [{"small": 1}],
            id="no more than there is quota for",
        ),
        pytest.param(
            Cluster(groups=(Group(replicas=2, count=4, gated=1),), memory=RAN),
            [{"small": 1}],
            id="no more than the cluster still wants",
        ),
        pytest.param(
            Cluster(
                groups=(
                    Group(replicas=3, gated=2),
                    Group(name="big", replicas=1, running=0, gated=1),
                ),
                memory=RAN,
            ),
            [{"small": 2, "big": 1}],
            id="two groups of a pool in one request",
        ),
        pytest.param(
            Cluster(
                groups=(
                    Group(replicas=3, gated=2),
                    Group(name="big", replicas=1, running=0, gated=1, flavor="other"),
                ),
                memory=RAN,
            ),
            [{"big": 1}, {"small": 2}],
            id="two pools, a request each",
        ),
        pytest.param(
            Cluster(
                groups=(Group(replicas=3, running=2, gated=1),),
                memory=memory(small=GroupMemory(admitted=3)),
                check="Ready",
                admitted=True,
            ),
            [],
            id="a lost worker is not asked for",
        ),
        pytest.param(
            Cluster(
                groups=(Group(replicas=5, running=2, gated=3),),
                memory=memory(small=GroupMemory(admitted=3)),
            ),
            [{"small": 2}],
            id="one lost, two new: two",
        ),
        pytest.param(
            Cluster(
                groups=(Group(replicas=2, running=2, gated=2, hosts=2),),
                memory=memory(small=GroupMemory(admitted=2)),
            ),
            [{"small": 2}],
            id="a replica of two hosts is two pods",
        ),
        pytest.param(LOWERED, [], id="nothing while the limit is lowered"),
        pytest.param(WISH.looks(check=""), [], id="nothing on a queue without our check"),
        pytest.param(WISH.looks(policy=None, policy_fault="gone"), [], id="nothing blindly"),
        pytest.param(
            Cluster(groups=(Group(replicas=1, running=0, gated=1),), check="Ready", admitted=True),
            [{"small": 1}],
            id="a new cluster under an admitted slice is a new gang",
        ),
    ],
)
def test_asks(cluster: Cluster, want: list[dict[str, int]]) -> None:
    assert counts(cluster.decides()) == want


def test_what_is_asked_belongs_to_the_cluster() -> None:
    (request,) = WISH.asked().requests
    assert request["metadata"]["labels"][names.CLUSTER_UID] == CLUSTER_UID
    assert [o["kind"] for o in request["metadata"]["ownerReferences"]] == ["RayCluster"]


def test_what_was_asked_is_not_asked_again() -> None:
    assert counts(WISH.asked().decides(NOW_S + 1)) == []


def test_a_shrunk_slice_ends_what_was_admitted_above_it() -> None:
    """Three were admitted, the slice was shrunk to one before it was replaced: two are new."""
    grown = Cluster(
        groups=(Group(replicas=3, gated=2),), memory=memory(small=GroupMemory(admitted=3))
    )
    old = parse_workload(Cluster().workload())
    assert counts(grown.looks(replaced=old).decides()) == [{"small": 2}]


def test_a_larger_wish_counts_what_is_booked() -> None:
    larger = WISH.asked().answered(booked()).but(groups=(Group(replicas=6, gated=5),))
    decision = larger.decides()
    assert counts(decision) == [{"small": 2}]
    assert not any("delete" in w for w in words(decision))


def test_a_larger_wish_takes_the_place_of_one_that_waits() -> None:
    larger = WISH.asked().answered(no_room()).but(groups=(Group(replicas=6, gated=5),))
    decision = larger.decides()
    assert counts(decision) == [{"small": 5}]
    assert [w for w in words(decision) if "delete" in w] == GONE


def test_a_wish_taken_back_leaves_nothing() -> None:
    back = WISH.asked().answered(no_room()).but(groups=(Group(),))
    assert words(back.decides()) == [*GONE, "check Ready GrowthSettled", "tell GrowthSettled"]


def test_a_booking_that_ran_out_is_asked_again_on_the_same_clock() -> None:
    over = WISH.asked().answered(booked(), expired())
    (again,) = [o for o in over.asked(NOW_S + 30).requests if o not in over.requests]
    assert again["metadata"]["labels"][names.SERIAL] == "2"
    (first,) = WISH.asked().requests
    assert (
        again["metadata"]["annotations"][names.ASKED_AT]
        == first["metadata"]["annotations"][names.ASKED_AT]
    )


# While it waits


@pytest.mark.parametrize(
    ("cluster", "after_s", "want"),
    [
        pytest.param(WISH.asked(), 1, [], id="at first nothing is said"),
        pytest.param(
            WISH.asked(), 3, ["check Pending Growing", "tell Growing"], id="then that it grows"
        ),
        pytest.param(
            WISH.asked().answered(no_room()),
            3,
            ["check Pending Growing", "tell Growing"],
            id="or that there is no room yet",
        ),
        pytest.param(
            WISH.asked().but(has_head=False, more_pods=(head(gates=[names.ELASTIC], node=""),)),
            3,
            ["check Ready Growing", "tell Growing"],
            id="a head that came back does not wait behind it",
        ),
        pytest.param(
            Cluster(
                groups=(Group(replicas=4, running=1, gated=3),),
                memory=memory(small=GroupMemory(admitted=2)),
                kueue_holds=True,
            ).asked(),
            3,
            ["check Ready Growing", "tell Growing"],
            id="nor does a lost worker",
        ),
        pytest.param(
            WISH.looks(policy=None, policy_fault="gone"),
            3,
            ["check Pending PolicyInvalid", "tell PolicyInvalid"],
            id="a missing policy is told",
        ),
        pytest.param(
            WISH.looks(refused="webhook says no"),
            3,
            ["check Pending RequestRefused", "tell RequestRefused"],
            id="so is a request that cannot be made",
        ),
    ],
)
def test_says(cluster: Cluster, after_s: float, want: list[str]) -> None:
    assert words(cluster.decides(NOW_S + after_s)) == want


# Granted


def test_ready_once_all_is_booked() -> None:
    decision = WISH.asked().answered(booked()).decides()
    assert words(decision) == ["check Ready CapacityProvisioned", "tell CapacityProvisioned"]


def test_workers_get_the_name_of_their_booking() -> None:
    name = GRANTED.requests[0]["metadata"]["name"]
    assert released(GRANTED.decides()) == {f"small-wait-{i}": name for i in range(3)}


def test_of_two_pools_none_starts_before_both_are_booked() -> None:
    groups = (
        Group(replicas=2, gated=1),
        Group(name="big", replicas=1, running=0, gated=1, flavor="other"),
    )
    half = Cluster(groups=groups, memory=RAN, check="Ready", admitted=True).asked()
    half = half.answered(booked(), only=0).answered(no_room(), only=1)
    assert released(half.decides()) == {}
    assert len(released(half.answered(booked()).decides())) == 2


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        pytest.param(
            Cluster(
                groups=(Group(replicas=4, running=2, gated=2),),
                memory=memory(small=GroupMemory(admitted=3)),
                check="Ready",
                admitted=True,
            ),
            {"small-wait-0": ""},
            id="a lost worker's successor at once, the oldest first, without a name",
        ),
        pytest.param(
            Cluster(
                groups=(Group(replicas=3, running=2, gated=1),),
                memory=memory(small=GroupMemory(admitted=3)),
                kueue_holds=True,
            ),
            {},
            id="not what Kueue still holds",
        ),
        pytest.param(
            WISH.but(kueue_holds=False).looks(on_flavors=("other",)),
            {f"small-wait-{i}": "" for i in range(3)},
            id="what the check does not cover goes",
        ),
        pytest.param(
            WISH.but(kueue_holds=False).looks(check="", policy=None),
            {f"small-wait-{i}": "" for i in range(3)},
            id="so does all on a queue without our check",
        ),
    ],
)
def test_lets_go(cluster: Cluster, want: dict[str, str]) -> None:
    assert released(cluster.decides()) == want


def test_a_head_gets_its_cold_booking_by_name() -> None:
    start = Cluster(groups=(Group(running=0, gated=1),), has_head=False, check="Ready")
    start = start.but(admitted=True, more_pods=(head(node="", phase="Pending"),)).asked()
    (request,) = start.requests
    notes = {**request["metadata"]["annotations"], names.COUNTS: '{"head": 1, "small": 1}'}
    labels = {k: v for k, v in request["metadata"]["labels"].items() if k != names.CLUSTER_UID}
    cold = {**request, "metadata": {**request["metadata"], "labels": labels, "annotations": notes}}
    name = request["metadata"]["name"]
    got = released(start.but(requests=(cold,)).answered(booked()).decides())
    assert got == {"small-wait-0": name, "head": name}


def bound(cluster: Cluster, *, node: str = "n2", **more: Any) -> Cluster:
    """The three new workers with their booking's name."""
    name = cluster.requests[0]["metadata"]["name"]
    pods = tuple(worker(f"new-{i}", "small", booking=name, node=node, **more) for i in range(3))
    return cluster.but(groups=(Group(replicas=4),), more_pods=pods)


def test_a_used_booking_goes_and_what_started_is_remembered() -> None:
    decision = bound(GRANTED).decides()
    assert words(decision) == ["set memory", *GONE]
    found = groups_set(decision)
    assert found is not None
    assert found.memory.group("small") == GroupMemory(admitted=4)


def test_a_booking_stays_until_its_pods_have_nodes() -> None:
    assert words(bound(GRANTED, node="").decides()) == ["set memory"]


def test_a_name_of_a_booking_that_is_over_is_taken_off() -> None:
    late = bound(GRANTED, node="").answered(booked(), expired())
    assert [w for w in words(late.decides()) if "unstamp" in w] == [
        f"unstamp new-{i}" for i in range(3)
    ]


def test_success_ends_the_row_of_refusals() -> None:
    twice = memory(small=GroupMemory(admitted=1, failures=2))
    found = groups_set(bound(GRANTED.but(memory=twice)).decides())
    assert found is not None
    assert found.memory.group("small").failures == 0


# Refused


@pytest.mark.parametrize(
    ("cluster", "after_s"),
    [
        pytest.param(WISH.asked().answered(no_room()), 60, id="no room in time"),
        pytest.param(WISH.asked(), 60, id="no answer in time"),
        pytest.param(WISH.asked().answered(failed()), 1, id="a final no"),
        pytest.param(WISH.asked().answered(booked(), revoked()), 1, id="taken back"),
        pytest.param(WISH.looks(refused="no"), 60, id="never made"),
    ],
)
def test_a_refusal_lowers_the_limit_and_nothing_else(cluster: Cluster, after_s: float) -> None:
    decision = cluster.decides(NOW_S + after_s)
    assert words(decision) == ["set small max=1", "tell GrowthRefused"]
    found = groups_set(decision)
    assert found is not None
    held = found.memory.group("small").clamp
    assert held is not None
    assert (held.before, held.lowered) == (Limits(10, 0), Limits(1, 0))
    assert held.until_s == NOW_S + after_s + 10


def test_each_pause_is_longer() -> None:
    before = memory(small=GroupMemory(admitted=1, failures=2))
    found = groups_set(WISH.but(memory=before).asked().decides(NOW_S + 60))
    assert found is not None
    held = found.memory.group("small").clamp
    assert held is not None
    assert held.until_s - held.at_s == 40


def test_the_limit_is_not_lowered_before_all_pods_are_made() -> None:
    """Ray cannot take back what it has asked for and not seen yet."""
    making = WISH.asked().but(groups=(Group(replicas=4, gated=2),))
    assert groups_set(making.decides(NOW_S + 60)) is None


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(Group(replicas=4, gated=3, least=2), "set small max=2", id="never below min"),
        pytest.param(
            Group(replicas=3, running=3, gated=3, hosts=2),
            "set small max=2",
            id="in replicas, rounded up",
        ),
    ],
)
def test_how_far_it_is_lowered(group: Group, want: str) -> None:
    running = memory(small=GroupMemory(admitted=group.running))
    cluster = Cluster(groups=(group,), memory=running, kueue_holds=True).asked()
    assert words(cluster.decides(NOW_S + 60))[0] == want


def test_only_the_pool_without_room_is_lowered() -> None:
    groups = (
        Group(replicas=2, gated=1),
        Group(name="big", replicas=1, running=0, gated=1, flavor="other"),
    )
    cluster = Cluster(groups=groups, memory=RAN, kueue_holds=True).asked()
    late = cluster.answered(no_room(), only=0).answered(booked(), only=1)
    assert words(late.decides(NOW_S + 60)) == ["set big max=0", "tell GrowthRefused"]


def test_a_group_that_still_waits_is_not_lowered_with_another() -> None:
    groups = (
        Group(replicas=2, gated=1),
        Group(name="big", replicas=1, running=0, gated=1, flavor="other"),
    )
    cluster = Cluster(groups=groups, memory=RAN, kueue_holds=True).asked()
    one = cluster.answered(no_room(), only=0).answered(failed(), only=1)
    assert words(one.decides(NOW_S + 1)) == ["set small max=1", "tell GrowthRefused"]


def test_the_request_of_a_refused_wish_goes() -> None:
    late = WISH.asked().answered(no_room()).but(memory=CLAMPED, groups=LOWERED.groups)
    assert words(late.decides(NOW_S + 1)) == GONE


def test_while_lowered_it_waits_for_the_autoscaler() -> None:
    decision = LOWERED.decides(NOW_S + 1)
    assert words(decision) == []
    assert decision.wake_after_s == pytest.approx(9.0)


def test_withdrawn_the_slice_is_let_go_at_what_it_had() -> None:
    back = LOWERED.but(groups=(Group(most=1),))
    assert words(back.decides(NOW_S + 1)) == ["check Ready GrowthSettled", "tell GrowthSettled"]


def test_nobody_withdraws_so_the_controller_does() -> None:
    held = CLAMPED.group("small").clamp
    assert held is not None
    long = replace(held, until_s=NOW_S + 100)
    dead = LOWERED.but(memory=memory(small=replace(CLAMPED.group("small"), clamp=long)))
    assert words(dead.decides(NOW_S + 29)) == []
    names_ = tuple(f"small-wait-{i}" for i in range(3))
    assert words(dead.decides(NOW_S + 31)) == [
        f"set small replicas=1, small delete={names_}",
        "tell GrowthWithdrawn",
    ]


# Given back


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(Group(most=1), "set small max=10", id="after the pause"),
        pytest.param(Group(most=4), "set memory", id="not over what an admin wrote"),
    ],
)
def test_gives_back(group: Group, want: str) -> None:
    decision = LOWERED.but(groups=(group,)).decides(NOW_S + 10)
    assert want in words(decision)
    found = groups_set(decision)
    assert found is not None
    assert found.memory.group("small").clamp is None
    assert found.memory.group("small").failures == 1


@pytest.mark.parametrize(
    "over",
    [
        pytest.param({"spec": {"suspend": True}}, id="suspended"),
        pytest.param({"status": {"jobDeploymentStatus": "Complete"}}, id="finished"),
    ],
)
def test_at_the_end_all_is_given_back_at_once(over: dict[str, Any]) -> None:
    ended = LOWERED.but(job=over, groups=(Group(most=1),), admitted=True)
    assert words(ended.decides()) == ["set small max=10"]


def test_a_job_that_ends_while_its_growth_waits_lets_the_slice_shrink() -> None:
    ended = WISH.asked().but(job={"status": {"jobDeploymentStatus": "Complete"}})
    names_ = tuple(f"small-wait-{i}" for i in range(3))
    assert words(ended.decides()) == [
        f"set small replicas=1, small delete={names_}",
        *GONE,
    ]


def test_minimum_and_replicas_are_given_back_together() -> None:
    """Kueue counts `replicas`, KubeRay makes `minReplicas`."""
    held = Clamp(Limits(4, 2), Limits(0, 0), NOW_S, NOW_S, "", "")
    group = Group(replicas=0, running=0, most=0, least=0)
    cluster = Cluster(groups=(group,), memory=memory(small=GroupMemory(clamp=held)))
    assert words(cluster.decides())[0] == "set small max=4, small min=2, small replicas=2"


# Nothing to decide


def test_a_cluster_that_is_gone_leaves_nothing() -> None:
    assert words(WISH.asked().looks(cluster=None, current=None, job=None).decides()) == GONE


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(Cluster(memory=RAN, check="Ready", admitted=True), id="at rest"),
        pytest.param(WISH.looks(current=None), id="no slice holds quota"),
        pytest.param(Cluster(memory=RAN, check="Ready"), id="not admitted yet"),
    ],
)
def test_at_rest_nothing_is_done(cluster: Cluster) -> None:
    decision = cluster.decides()
    assert decision.actions == ()


def test_an_evicted_slice_is_left_to_the_cold_path() -> None:
    evicted = parse_workload(
        {
            **WISH.workload(),
            "status": {
                **WISH.workload()["status"],
                "conditions": [
                    condition("QuotaReserved", NOW_S - 5),
                    condition("Evicted", NOW_S),
                ],
            },
        }
    )
    assert words(WISH.asked().looks(current=evicted).decides()) == GONE


def test_a_consumed_booking_goes() -> None:
    assert words(bound(GRANTED).answered(booked(), consumed()).decides()) == ["set memory", *GONE]
