"""Trouble with ProvisioningRequests that others had (cases 2, 3, 5, 9 to 17 and 19), as decisions.

Values in, actions out: what the controller does when the API server shows this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from controllers.actions import Action, Create, Delete, SetCheck
from controllers.perform import ForeignObject, perform
from taugrid_ray import names
from taugrid_ray.gang import load_manifests
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST
from taugrid_ray.kinds.workload import CheckState
from taugrid_ray.memory import FRESH, Memory, Pause
from taugrid_ray.verdict import Verdict, answer_of
from tests.cases.folder import content
from tests.controllers.builders import (
    NOW_S,
    RESERVED_S,
    Gang,
    Set,
    booked,
    condition,
    consumed,
    expired,
    failed,
    no_room,
    pod,
    pod_template,
    policy,
    requests_of,
    revoked,
    shown,
)
from tests.fake_kube.clock import ManualClock
from tests.fake_kube.fake import FakeKube

GONE = ["delete ProvisioningRequest", "delete PodTemplate"]
RUNNING: dict[str, Any] = {"spec": {"suspend": False}}


def test_2_growth_of_what_runs_is_not_asked_as_if_nothing_ran() -> None:
    """A pending check on a slice of a job that runs: asking for the whole count would be wrong."""
    grown = Gang(sets=(Set("head", 1), Set("workers", 10)), job_kind="RayJob", job=RUNNING)
    assert shown(grown.decides().actions) == []


def test_3_pods_and_not_templates_name_the_booking() -> None:
    """Kueue puts the name on a plain gang's pods; an elastic one's template must stay clean."""
    plain = Gang().asked().answered(booked())
    updates = [a.updates for a in plain.decides().actions if isinstance(a, SetCheck)]
    request = plain.requests[0]["metadata"]["name"]
    assert [u["annotations"][names.CONSUME] for u in updates[0]] == [request]
    elastic = Gang(workload_annotations={names.ELASTIC: "true"}).asked().answered(booked())
    assert [a.updates for a in elastic.decides().actions if isinstance(a, SetCheck)] == [()]


def test_3_a_template_that_names_a_booking_by_hand_is_refused() -> None:
    template = pod_template("1", 0, **{names.CONSUME: "somebody-elses"})
    gang = Gang(sets=(Set(template=template),))
    assert shown(gang.decides().actions) == [
        "park gaveUp step 1 attempt 1 GangInvalid",
        "tell GangInvalid",
    ]


def test_3_a_replaced_pod_may_be_helped_again() -> None:
    """The booking is over, and a new pod waits with its name on it."""
    gang = Gang().asked().answered(booked()).ready().answered(booked(), expired())
    name = gang.requests[0]["metadata"]["name"]
    replaced = gang.looks(pods=(pod("new", name),))
    assert "unstamp new" in shown(replaced.decides(NOW_S + 1).actions)


def test_5_a_job_that_turns_invalid_after_all_keeps_no_request() -> None:
    invalid = {**RUNNING, "status": {"jobDeploymentStatus": "ValidationFailed"}}
    for stage in (Gang().asked(), Gang().asked().answered(booked()).ready()):
        after = stage.but(job_kind="RayJob", job=invalid)
        assert shown(after.decides(NOW_S + 1).actions) == GONE


@pytest.mark.parametrize("end", [consumed(), expired()], ids=["used", "run out"])
def test_9_a_booking_that_ended_hurts_nothing_that_runs(end: Any) -> None:
    gang = Gang().asked().answered(booked()).ready()
    bound = pod("p", gang.requests[0]["metadata"]["name"], node="n", phase="Running")
    running = gang.looks(pods=(bound,) * 3).answered(booked(), end)
    assert shown(running.decides(NOW_S + 1).actions) == GONE


@pytest.mark.parametrize("end", [consumed(), expired()], ids=["used", "run out"])
def test_9_a_booking_that_ended_before_anything_ran_is_asked_again(end: Any) -> None:
    gang = Gang().asked().answered(booked(), end)
    assert "create ProvisioningRequest" in shown(gang.decides(NOW_S + 1).actions)


STATES = {
    "no-conditions": Verdict.SILENT,
    "accepted-only": Verdict.SILENT,
    "not-found-yet": Verdict.NO_ROOM,
    "provisioned": Verdict.BOOKED,
    "consumed": Verdict.CONSUMED,
    "expired-before-use": Verdict.EXPIRED,
    "failed-expired": Verdict.FAILED,
    "failed-and-provisioned": Verdict.FAILED,
    "revoked": Verdict.REVOKED,
    "unknown-condition": Verdict.SILENT,
    "gke-out-of-resources": Verdict.FAILED,
}


def test_9_every_state_that_a_request_was_seen_in() -> None:
    found = map(parse_provisioning_request, load_manifests(content("odd/38-provreq-status-zoo")))
    assert {r.meta.name: answer_of(r).verdict for r in found} == STATES


def test_10_a_booking_that_ran_out_while_another_check_held_the_job() -> None:
    gang = Gang().asked().answered(booked()).ready(admitted_s=None)
    assert shown(gang.decides(NOW_S + 599).actions) == []
    over = gang.answered(booked(), expired(NOW_S + 600))
    assert shown(over.decides(NOW_S + 601).actions) == [
        "park parked step 1 attempt 2 BookingExpired",
        "tell BookingExpired",
    ]


def test_11_capacity_that_the_provider_took_back() -> None:
    """Waiting: the attempt has failed, in the provider's words. Running: nothing is evicted."""
    waiting = Gang().asked().answered(booked(), revoked())
    assert shown(waiting.decides(NOW_S + 1).actions) == [
        "park parked step 1 attempt 2 CapacityRevoked",
        "tell CapacityRevoked",
    ]
    running = Gang().asked().answered(booked()).ready()
    name = running.requests[0]["metadata"]["name"]
    pods = tuple(pod(f"p{i}", name, node="n", phase="Running", ready=True) for i in range(3))
    taken = running.looks(pods=pods).answered(booked(), revoked())
    assert shown(taken.decides(NOW_S + 1).actions) == GONE


def test_12_long_names_are_cut_before_what_makes_them_unique() -> None:
    """A hundred passes over a gang with a long name create its objects once."""
    long = "train-the-very-large-model-with-a-very-long-name-train-the-very"
    set_name = "g" * 63
    gang = Gang(sets=(Set(set_name), Set(set_name[:-1])))
    seen = gang.seen_now()
    assert seen.job is not None
    named = gang.looks(job=replace(seen.job, ref=replace(seen.job.ref, name=long)))
    created = [a for a in named.decides().actions if isinstance(a, Create)]
    bodies = [a.obj for a in created]
    assert [a.kind for a in created] == [POD_TEMPLATE, POD_TEMPLATE, PROVISIONING_REQUEST]
    assert len({b["metadata"]["name"] for b in bodies}) == 3
    for body in bodies:
        assert len(body["metadata"]["name"]) <= names.NAME_MAX
        assert all(len(v) <= names.LABEL_MAX for v in body["metadata"]["labels"].values())
    there = named.asked()
    for second in range(100):
        later = there.decides(NOW_S + second).actions
        assert not [a for a in later if isinstance(a, Create | Delete)]


@pytest.mark.parametrize("state", list(CheckState))
def test_13_no_state_of_a_gang_is_without_a_next_step_or_a_deadline(state: CheckState) -> None:
    """Retry is never written; what waits for us always says when we look again."""
    for evicted, reserved, active in product((False, True), repeat=3):
        conditions = (condition(wl.EVICTED, RESERVED_S),) if evicted else ()
        gang = Gang(
            reserved_s=RESERVED_S if reserved else None,
            conditions=conditions,
            active=active,
            check={"state": state.value, "message": ""},
        )
        for stage in (gang, gang.but(requests=Gang().asked().requests)):
            decision = stage.decides()
            states = [a.state for a in decision.actions if isinstance(a, SetCheck)]
            assert CheckState.RETRY not in states
            assert CheckState.REJECTED not in states
            ours = reserved and active and not evicted and state is CheckState.PENDING
            if ours:
                assert decision.actions or decision.wake_after_s is not None
                assert decision.wake_after_s is not None
            elif state in (CheckState.RETRY, CheckState.REJECTED):
                assert {type(a) for a in decision.actions} <= {Delete}


def test_14_the_next_attempt_comes_by_itself_and_is_another_request() -> None:
    gang = Gang().asked().answered(failed())
    park = gang.decides(NOW_S + 1)
    assert shown(park.actions) == [
        "park parked step 1 attempt 2 ProvisioningFailed",
        "tell ProvisioningFailed",
    ]
    assert park.wake_after_s == 60
    memory = Memory(Pause.PARKED, 1, 2, 1, at_s=NOW_S + 1, resume_at_s=NOW_S + 61)
    parked = gang.but(reserved_s=None).remembers(memory, active=False)
    assert shown(parked.decides(NOW_S + 2).actions) == GONE
    over = parked.but(requests=(), templates=()).decides(NOW_S + 61)
    assert shown(over.actions)[0] == "unpark step 1 attempt 2"
    again = Gang(reserved_s=NOW_S + 65).remembers(replace(memory, pause=Pause.RESUMED))
    first = gang.requests[0]["metadata"]
    second = requests_of(again, NOW_S + 66)[0]["metadata"]
    assert second["name"] != first["name"]
    assert (first["labels"][names.ATTEMPT], second["labels"][names.ATTEMPT]) == ("1", "2")


def test_15_a_provider_that_takes_one_pod_set_can_be_asked_for_the_accelerators_alone() -> None:
    head, workers = Set("head", 1), Set("workers", 4, template=pod_template("4", 8))
    both = Gang(sets=(head, workers))
    assert [len(r["spec"]["podSets"]) for r in requests_of(both)] == [2]
    alone = both.looks(policy=policy(managedResources=["nvidia.com/gpu"]))
    assert [[p["count"] for p in r["spec"]["podSets"]] for r in requests_of(alone)] == [[4]]


def test_15_a_providers_refusal_reaches_the_user_in_its_own_words() -> None:
    words = "admission webhook denied the request: one pod set only"
    gang = Gang(sets=(Set("head", 1), Set("workers", 4))).looks(refused=words)
    told = [a.message for a in gang.decides().actions if isinstance(a, SetCheck)]
    assert [words in message for message in told] == [True]


def test_16_templates_come_first_and_none_stays_without_its_request() -> None:
    gang = Gang(sets=(Set("a", 1), Set("b", 2)))
    created = [a.kind for a in gang.decides().actions if isinstance(a, Create)]
    assert created == [POD_TEMPLATE, POD_TEMPLATE, PROVISIONING_REQUEST]
    # Ended between the two creates: the rest is made, nothing twice.
    half = gang.but(templates=gang.asked().templates)
    assert shown(half.decides().actions) == ["create ProvisioningRequest"]
    # Cancelled there: what is left is swept.
    cancelled = half.looks(workload=None, job=None)
    assert shown(cancelled.decides().actions) == ["delete PodTemplate", "delete PodTemplate"]


def test_16_a_missing_request_of_a_waiting_gang_is_made_again_and_its_old_templates_go() -> None:
    other = Gang(sets=(Set("main", 7),)).asked()
    gang = Gang().but(templates=other.templates)
    assert shown(gang.decides().actions) == [
        "delete PodTemplate",
        "create PodTemplate",
        "create ProvisioningRequest",
    ]


def test_17_an_object_of_somebody_else_is_left_alone_and_another_name_is_taken() -> None:
    api = FakeKube(ManualClock(NOW_S), namespaces=["team"])
    (template, request) = [a for a in Gang().decides().actions if isinstance(a, Create)]
    foreign = {**template.obj, "metadata": {**template.obj["metadata"], "labels": {}}}
    foreign["template"] = {"spec": {"containers": [{"name": "theirs", "image": "theirs"}]}}
    planted = api.create(POD_TEMPLATE, foreign, "team")
    with pytest.raises(ForeignObject):
        perform(template, api, identity="me")
    salted = [a for a in Gang().looks(salt=1).decides().actions if isinstance(a, Create)]
    for action in salted:
        perform(action, api, identity="me")
    there = api.get(POD_TEMPLATE, planted["metadata"]["name"], "team")
    assert there["template"] == planted["template"]
    assert _names(salted).isdisjoint(_names([template, request]))


def test_17_our_own_object_of_an_earlier_pass_is_taken_as_made() -> None:
    api = FakeKube(ManualClock(NOW_S), namespaces=["team"])
    for _ in range(2):
        for action in Gang().decides().actions:
            perform(action, api, identity="me")
    assert [len(api.objects(kind)) for kind in (POD_TEMPLATE, PROVISIONING_REQUEST)] == [1, 1]


def _names(actions: Sequence[Action]) -> set[str]:
    return {a.obj["metadata"]["name"] for a in actions if isinstance(a, Create)}


ASKED = Gang().asked()


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(ASKED.but(active=False, reserved_s=None), id="deactivated by the user"),
        pytest.param(ASKED.but(conditions=(condition(wl.EVICTED, NOW_S),)), id="evicted"),
        pytest.param(ASKED.but(reserved_s=None), id="preempted"),
        pytest.param(ASKED.but(conditions=(condition(wl.FINISHED, NOW_S),)), id="finished"),
        pytest.param(ASKED.looks(workload=None, job=None), id="deleted"),
        pytest.param(ASKED.looks(job=None), id="its job deleted"),
        pytest.param(ASKED.but(check=None), id="moved to a flavor or queue without our check"),
        pytest.param(
            ASKED.remembers(Memory(Pause.PARKED, 1, 2, 1, resume_at_s=NOW_S + 60), active=False),
            id="timed out",
        ),
    ],
)
def test_19_nothing_stays_booked_for_a_gang_that_no_longer_waits(ended: Gang) -> None:
    actions = ended.decides(NOW_S + 1).actions
    assert [a for a in shown(actions) if a.startswith("delete")] == GONE
    assert not [a for a in actions if isinstance(a, Create)]


def test_19_the_attempts_go_on_after_an_eviction() -> None:
    memory = Memory(Pause.RESUMED, 1, 2, 1)
    again = Gang(reserved_s=NOW_S + 10).remembers(memory)
    assert requests_of(again, NOW_S + 11)[0]["metadata"]["labels"][names.ATTEMPT] == "2"
    assert memory != FRESH


def test_no_word_and_no_room_are_waited_out() -> None:
    """What every waiting gang has in common with cases 13 and 14: the deadline ends it."""
    for waiting in (ASKED, ASKED.answered(no_room())):
        assert "park parked step 1 attempt 2" in shown(waiting.decides(NOW_S + 900).actions)[0]
