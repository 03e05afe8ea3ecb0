"""Cold admission, stage by stage (design section 5): what is asked, waited for and said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.actions import Announce, SetCheck
from taugrid_ray import names
from taugrid_ray.memory import Memory, Pause
from tests.controllers.builders import (
    CHECK,
    NOW_S,
    RESERVED_S,
    Gang,
    Set,
    booked,
    consumed,
    expired,
    failed,
    no_room,
    node,
    pod_template,
    policy,
    requests_of,
    revoked,
    shown,
)

ASK = ["create PodTemplate", "create ProvisioningRequest"]
BOOKED = ["check Ready CapacityProvisioned", "tell CapacityProvisioned"]
TWO_POOLS = Gang(sets=(Set("cpu", 2, "cpu"), Set("gpu", 1, "gpu", pod_template("1", 1))))
HEAD = Set("head", 1, "static", pod_template("500m"))
NODES_FIRST = policy(readyWhen="NodesReady", deadlines={"nodes": 100, "accelerators": 50})


def parked(reason: str, step: int = 1, attempt: int = 2) -> list[str]:
    return [f"park parked step {step} attempt {attempt} {reason}", f"tell {reason}"]


def one_booked() -> Gang:
    """Two pools; the first has capacity, the second none."""
    return TWO_POOLS.asked().answered(booked(), only=0).answered(no_room(), only=1)


@pytest.mark.parametrize(
    ("gang", "now_s", "want"),
    [
        pytest.param(Gang(), NOW_S, ASK, id="a new gang asks: template before request"),
        pytest.param(
            TWO_POOLS,
            NOW_S,
            ["create PodTemplate"] * 2 + ["create ProvisioningRequest"] * 2,
            id="two pools are asked at once",
        ),
        pytest.param(
            Gang(sets=(Set("a", 2), Set("b", 1))),
            NOW_S,
            ["create PodTemplate"] * 2 + ["create ProvisioningRequest"],
            id="pod sets of one pool share a request",
        ),
        pytest.param(Gang().asked(), NOW_S + 1, [], id="the first seconds are not worth a word"),
        pytest.param(
            Gang().asked(),
            NOW_S + 3,
            ["check Pending CapacityRequested", "tell CapacityRequested"],
            id="a request without an answer is told",
        ),
        pytest.param(
            Gang().asked(NOW_S, no_room()),
            NOW_S + 3,
            ["check Pending WaitingForCapacity", "tell WaitingForCapacity"],
            id="no room yet is told",
        ),
        pytest.param(Gang().asked(NOW_S, booked()), NOW_S + 1, BOOKED, id="booked is Ready"),
        pytest.param(
            TWO_POOLS.asked(NOW_S, booked()), NOW_S + 1, BOOKED, id="two pools booked are Ready"
        ),
        pytest.param(
            one_booked(),
            NOW_S + 3,
            ["check Pending WaitingForCapacity", "tell WaitingForCapacity"],
            id="one of two pools booked is not Ready",
        ),
        pytest.param(
            TWO_POOLS.asked().answered(booked(), only=0).answered(failed(), only=1),
            NOW_S + 1,
            parked("ProvisioningFailed"),
            id="one of two pools refused ends the attempt",
        ),
        pytest.param(
            Gang().asked(NOW_S, failed()), NOW_S, parked("ProvisioningFailed"), id="a final no"
        ),
        pytest.param(
            Gang().asked(NOW_S, booked(), revoked()),
            NOW_S,
            parked("CapacityRevoked"),
            id="the provider takes it back",
        ),
        pytest.param(
            Gang().asked(NOW_S, no_room()),
            NOW_S + 900,
            parked("ProvisioningTimedOut"),
            id="the provision deadline",
        ),
        pytest.param(
            Gang().asked(), NOW_S + 900, parked("ProvisioningTimedOut"), id="a class nobody serves"
        ),
        pytest.param(
            one_booked(),
            NOW_S + 900,
            parked("ProvisioningTimedOut"),
            id="half a gang is no gang at the deadline",
        ),
        pytest.param(
            Gang().asked(NOW_S, booked()),
            NOW_S + 900,
            BOOKED,
            id="an answer that was read late still counts",
        ),
        pytest.param(
            Gang().asked(NOW_S, booked(), expired()), NOW_S + 700, ASK, id="expired is asked again"
        ),
        pytest.param(
            Gang().asked(NOW_S, booked(), consumed()), NOW_S + 9, ASK, id="consumed by strangers"
        ),
        pytest.param(
            Gang().asked(NOW_S, booked(), expired()),
            NOW_S + 900,
            parked("ProvisioningTimedOut"),
            id="asking again does not stop the clock",
        ),
        pytest.param(
            Gang(sets=(Set(count=0),)),
            NOW_S,
            ["check Ready CapacityNotNeeded"],
            id="an empty pod set needs nothing",
        ),
        pytest.param(
            Gang().looks(policy=policy(managedResources=["nvidia.com/gpu"])),
            NOW_S,
            ["check Ready CapacityNotNeeded"],
            id="no managed resource, nothing to book",
        ),
        pytest.param(
            Gang(sets=(HEAD, Set("workers", 2))).looks(on_flavors=("pool",)),
            NOW_S,
            ASK,
            id="the head's flavor is outside the check",
        ),
        pytest.param(
            Gang(sets=(HEAD,)).looks(on_flavors=("pool",)),
            NOW_S,
            ["check Ready CapacityNotNeeded"],
            id="nothing on a covered flavor",
        ),
        pytest.param(
            Gang().looks(policy=None, policy_fault='CapacityPolicy "x" is missing'),
            NOW_S,
            ["check Pending PolicyInvalid", "tell PolicyInvalid"],
            id="an unusable policy is told, and nothing is asked",
        ),
        pytest.param(
            Gang().asked().looks(policy=None, policy_fault="broken"),
            NOW_S,
            [
                "delete ProvisioningRequest",
                "delete PodTemplate",
                "check Pending PolicyInvalid",
                "tell PolicyInvalid",
            ],
            id="a policy that breaks takes the requests with it",
        ),
        pytest.param(
            Gang().looks(flavors={}),
            NOW_S,
            ["park gaveUp step 1 attempt 1 GangInvalid", "tell GangInvalid"],
            id="a flavor that is not there",
        ),
        pytest.param(
            Gang(sets=(Set(template=pod_template("1", 0, **{names.CONSUME: "old"})),)),
            NOW_S,
            ["park gaveUp step 1 attempt 1 GangInvalid", "tell GangInvalid"],
            id="a template that names another booking",
        ),
        pytest.param(
            Gang(job={"spec": {"suspend": False}}),
            NOW_S,
            [],
            id="a job that runs is not started cold",
        ),
        pytest.param(
            Gang(job_annotations={names.PROVISION_DEADLINE: "60"}).asked(),
            NOW_S + 60,
            parked("ProvisioningTimedOut"),
            id="the job's own deadline",
        ),
        pytest.param(
            Gang(job_annotations={names.PROVISION_DEADLINE: "soon"}).asked(),
            NOW_S + 899,
            ["check Pending CapacityRequested", "tell CapacityRequested"],
            id="a deadline that is no number is the policy's",
        ),
        pytest.param(
            Gang(job_annotations={names.PROVISION_DEADLINE: "999999"})
            .looks(policy=policy(deadlines={"provision": 100, "maxProvision": 200}))
            .asked(),
            NOW_S + 200,
            parked("ProvisioningTimedOut"),
            id="the policy's limit on a job's deadline",
        ),
        pytest.param(
            Gang(workload_annotations={names.ELASTIC: "true"}).asked(NOW_S, booked()),
            NOW_S + 1,
            BOOKED,
            id="an elastic gang is booked the same",
        ),
    ],
)
def test_cold(gang: Gang, now_s: float, want: list[str]) -> None:
    assert shown(gang.decides(now_s).actions) == want


@pytest.mark.parametrize(
    ("gang", "now_s", "want_s"),
    [
        pytest.param(Gang().asked(), NOW_S + 1, 1.0, id="until it is worth a word"),
        pytest.param(Gang().asked(), NOW_S + 100, 800.0, id="until the deadline"),
        pytest.param(
            Gang(job_annotations={names.PROVISION_DEADLINE: "60"}).asked(),
            NOW_S + 10,
            50.0,
            id="until the job's own deadline",
        ),
        pytest.param(
            Gang().asked(NOW_S, booked()).looks(policy=NODES_FIRST),
            NOW_S + 10,
            90.0,
            id="until the nodes clock ends",
        ),
    ],
)
def test_cold_wakes(gang: Gang, now_s: float, want_s: float) -> None:
    assert gang.decides(now_s).wake_after_s == pytest.approx(want_s)


@pytest.mark.parametrize(
    ("gang", "now_s", "want"),
    [
        pytest.param(
            (), NOW_S + 3, ["check Pending WaitingForNodes", "tell WaitingForNodes"], id="no node"
        ),
        pytest.param(
            (node("n", ready_s=None),),
            NOW_S + 3,
            ["check Pending WaitingForNodes", "tell WaitingForNodes"],
            id="a node that is not Ready",
        ),
        pytest.param(
            (node("n", "other"),),
            NOW_S + 3,
            ["check Pending WaitingForNodes", "tell WaitingForNodes"],
            id="a node of another pool",
        ),
        pytest.param(
            (node("n"),),
            NOW_S + 3,
            ["check Pending WaitingForAccelerators", "tell WaitingForAccelerators"],
            id="a Ready node without its GPUs",
        ),
        pytest.param((), NOW_S + 100, parked("NodesTimedOut"), id="the nodes clock"),
        pytest.param(
            (node("n", ready_s=NOW_S + 40),),
            NOW_S + 90,
            parked("AcceleratorsTimedOut"),
            id="the accelerators clock starts with the last node",
        ),
        pytest.param(
            (node("n", **{"nvidia.com/gpu": "8"}),), NOW_S + 3, BOOKED, id="the gang fits"
        ),
    ],
)
def test_nodes_ready_first(gang: tuple[Any, ...], now_s: float, want: list[str]) -> None:
    asked = Gang(sets=(Set("gpu", 2, template=pod_template("1", 1)),)).asked(NOW_S, booked())
    seen = asked.looks(policy=NODES_FIRST, nodes=gang)
    assert shown(seen.decides(now_s).actions) == want


def test_a_request_names_whose_it_is() -> None:
    (request,) = requests_of(Gang())
    meta = request["metadata"]
    assert meta["labels"][names.MANAGED_BY] == names.MANAGED_BY_US
    assert meta["labels"][names.WORKLOAD_UID] == Gang().seen_now().workload.uid
    assert meta["labels"][names.ATTEMPT] == "1"
    assert [o["kind"] for o in meta["ownerReferences"]] == ["Job"]
    assert request["spec"]["podSets"][0]["count"] == 3


def test_a_job_that_bears_a_workloads_name_does_not_own_the_request() -> None:
    """Kueue's built-in controller collects requests owned by such a name (design section 3)."""
    gang = Gang()
    job = gang.seen_now().job
    assert job is not None
    (request,) = requests_of(gang.looks(job=replace(job, name_is_a_workloads=True)))
    assert "ownerReferences" not in request["metadata"]


def test_the_same_moment_asks_by_the_same_name() -> None:
    assert requests_of(Gang()) == requests_of(Gang())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Gang(reserved_s=RESERVED_S + 1), id="another reservation"),
        pytest.param(Gang(sets=(Set(count=4),)), id="another count"),
        pytest.param(
            Gang().remembers(Memory(pause=Pause.RESUMED, attempt=2, failures=1)),
            id="another attempt",
        ),
        pytest.param(Gang().looks(salt=1), id="a name that is taken"),
        pytest.param(
            Gang().looks(policy=policy(steps=[{"provisioningClassName": "other"}])),
            id="another class",
        ),
    ],
)
def test_another_asking_has_another_name(other: Gang) -> None:
    (first,), (second,) = requests_of(Gang()), requests_of(other)
    assert first["metadata"]["name"] != second["metadata"]["name"]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(Gang(reserved_s=RESERVED_S + 1), id="preempted while provisioning"),
        pytest.param(Gang(sets=(Set(count=4),)), id="the count changed"),
    ],
)
def test_what_was_asked_before_is_dropped(later: Gang) -> None:
    before = Gang().asked()
    seen = later.but(requests=before.requests, templates=before.templates)
    words = shown(seen.decides(NOW_S + 1).actions)
    assert words == ["delete ProvisioningRequest", "delete PodTemplate", *ASK]


def test_an_expired_request_goes_once_the_next_is_there() -> None:
    gang = Gang().asked(NOW_S, booked(), expired())
    again = gang.asked(NOW_S + 601)
    assert [r["metadata"]["labels"][names.SERIAL] for r in again.requests] == ["1", "2"]
    notes = [r["metadata"]["annotations"][names.ASKED_AT] for r in again.requests]
    assert notes[0] == notes[1]
    words = shown(again.decides(NOW_S + 602).actions)
    assert words[:2] == ["delete ProvisioningRequest", "delete PodTemplate"]


def test_ready_carries_the_booking_for_each_pod_set() -> None:
    (entry, *_) = TWO_POOLS.asked(NOW_S, booked()).decides(NOW_S + 1).actions
    assert isinstance(entry, SetCheck)
    assert entry.check == CHECK
    by_set = {u["name"]: u["annotations"] for u in entry.updates}
    made = {r["metadata"]["annotations"][names.POOL]: r for r in requests_of(TWO_POOLS)}
    assert {s: notes[names.CONSUME] for s, notes in by_set.items()} == {
        "cpu": made["cpu"]["metadata"]["name"],
        "gpu": made["gpu"]["metadata"]["name"],
    }


def test_ready_of_an_elastic_gang_carries_nothing() -> None:
    gang = Gang(workload_annotations={names.ELASTIC: "true"}).asked(NOW_S, booked())
    (entry, *_) = gang.decides(NOW_S + 1).actions
    assert isinstance(entry, SetCheck)
    assert entry.updates == ()


def test_the_sentence_is_said_once() -> None:
    gang = Gang().asked()
    (entry, _) = gang.decides(NOW_S + 3).actions
    assert isinstance(entry, SetCheck)
    told = gang.but(check={"state": "Pending", "message": entry.message})
    assert told.decides(NOW_S + 4).actions == ()
    assert told.decides(NOW_S + 400).actions == ()


# What the API server refuses


def test_a_refusal_is_told_before_it_is_tried_again() -> None:
    """News of a decision is told when its writes have worked, so the write that will fail again
    must not stand in the same decision."""
    gang = Gang().looks(refused="no PodTemplates here, says the webhook")
    decision = gang.decides(NOW_S)
    assert shown(decision.actions) == ["check Pending RequestRefused", "tell RequestRefused"]
    (entry, news) = decision.actions
    assert isinstance(entry, SetCheck)
    assert isinstance(news, Announce)
    assert "says the webhook" in news.note
    told = gang.but(check={"state": "Pending", "message": entry.message})
    assert shown(told.decides(NOW_S).actions) == ASK


def test_what_is_refused_for_ever_runs_out_of_time() -> None:
    """Without any request there is no mark of the first asking: the reservation is the mark."""
    gang = Gang(reserved_s=NOW_S - 900).looks(refused="no")
    assert shown(gang.decides(NOW_S).actions) == parked("RequestRefused")


def test_a_reservation_from_before_a_restart_is_no_lost_time() -> None:
    assert shown(Gang(reserved_s=NOW_S - 4000).decides(NOW_S).actions) == ASK
