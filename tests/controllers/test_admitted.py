"""After Ready (design sections 5.5, 5.7, 5.8): keep the booking, let it go, watch the clocks."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.actions import Delete, Unstamp
from taugrid_ray import names
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.workload import CheckState
from taugrid_ray.memory import Memory, Pause
from tests.controllers.builders import (
    CHECK,
    NOW_S,
    Gang,
    Set,
    booked,
    condition,
    consumed,
    expired,
    failed,
    node,
    pod,
    pod_template,
    revoked,
    shown,
)

GONE = ["delete ProvisioningRequest", "delete PodTemplate"]
ADMITTED = Gang().asked(NOW_S, booked()).ready()
HELD = Gang().asked(NOW_S, booked()).ready(admitted_s=None)
BOOKING = ADMITTED.requests[0]["metadata"]["name"]
GPU = Gang(sets=(Set("gpu", 2, template=pod_template("1", 1)),)).asked(NOW_S, booked()).ready()
RESUMED = Memory(pause=Pause.RESUMED, attempt=2, failures=1)


def pods(count: int, **more: Any) -> tuple[Any, ...]:
    return tuple(pod(f"p{i}", BOOKING, **more) for i in range(count))


@pytest.mark.parametrize(
    ("gang", "now_s", "want"),
    [
        pytest.param(ADMITTED, NOW_S + 1, [], id="the booking stays until its pods are bound"),
        pytest.param(ADMITTED.looks(pods=pods(3)), NOW_S + 1, [], id="pods without nodes"),
        pytest.param(
            ADMITTED.looks(pods=(*pods(2, node="n"), pod("p2", BOOKING))),
            NOW_S + 1,
            [],
            id="one pod without a node",
        ),
        pytest.param(
            ADMITTED.looks(pods=pods(3, node="n")), NOW_S + 1, GONE, id="all pods are bound"
        ),
        pytest.param(
            ADMITTED.looks(pods=pods(3, node="n", phase="Succeeded")),
            NOW_S + 1,
            GONE,
            id="all pods are over",
        ),
        pytest.param(
            ADMITTED.answered(booked(), consumed()), NOW_S + 1, GONE, id="the autoscaler says so"
        ),
        pytest.param(
            ADMITTED.but(requests=(), templates=())
            .remembers(RESUMED)
            .looks(pods=pods(3, node="n", phase="Running", ready=True)),
            NOW_S + 1,
            ["forget"],
            id="a gang that got its pods has no failures behind it",
        ),
        pytest.param(
            ADMITTED.answered(booked(), expired()).looks(pods=pods(2)),
            NOW_S + 601,
            ["unstamp p0", "unstamp p1", "park parked step 1 attempt 2 NodesTimedOut",
             "tell NodesTimedOut"],
            id="booked nodes that never came: the booking ran out first",
        ),
        pytest.param(
            ADMITTED.answered(booked(), expired()).looks(pods=pods(3)),
            NOW_S + 300,
            ["unstamp p0", "unstamp p1", "unstamp p2"],
            id="a booking that is over lets its pods go to the ordinary autoscaler",
        ),
        pytest.param(
            ADMITTED.answered(booked(), expired()).looks(pods=pods(3, node="n")),
            NOW_S + 300,
            GONE,
            id="a booking that is over and used",
        ),
        pytest.param(
            ADMITTED.but(requests=(), templates=()).looks(
                pods=(*pods(2, node="n"), pod("new", BOOKING))
            ),
            NOW_S + 1,
            ["unstamp new"],
            id="a replaced pod is not left waiting for a booking that is over",
        ),
        pytest.param(ADMITTED, NOW_S + 600, ["park parked step 1 attempt 2 NodesTimedOut",
                                             "tell NodesTimedOut"], id="the nodes clock"),
        pytest.param(
            ADMITTED.looks(pods=(pod("p0", BOOKING, node="n", phase="Running"),)),
            NOW_S + 600,
            ["check Ready NodesTimedOut", "tell NodesTimedOut"],
            id="what runs is left alone and explained",
        ),
        pytest.param(
            ADMITTED.looks(pods=(pod("p0", BOOKING, node="n", phase="Failed"),)),
            NOW_S + 600,
            ["check Ready NodesTimedOut", "tell NodesTimedOut"],
            id="what ran is left alone too",
        ),
        pytest.param(
            GPU.looks(nodes=(node("n"),)),
            NOW_S + 300,
            ["park parked step 1 attempt 2 AcceleratorsTimedOut", "tell AcceleratorsTimedOut"],
            id="the accelerators clock",
        ),
        pytest.param(
            GPU.looks(nodes=(node("n", ready_s=NOW_S + 200),)),
            NOW_S + 400,
            [],
            id="the accelerators clock starts with the last node",
        ),
        pytest.param(
            ADMITTED.but(requests=(), templates=()).looks(
                pods=pods(3, node="n"), nodes=(node("n"),)
            ),
            NOW_S + 1500,
            ["check Ready PodsTimedOut", "tell PodsTimedOut"],
            id="pods that never start are explained",
        ),
        pytest.param(
            ADMITTED.but(
                conditions=(*ADMITTED.conditions, condition(wl.PODS_READY, NOW_S)),
                requests=(),
                templates=(),
            ),
            NOW_S + 5000,
            [],
            id="a gang that runs has no clocks",
        ),
        pytest.param(HELD, NOW_S + 1, [], id="another check holds it"),
        pytest.param(
            HELD.answered(booked(), expired()),
            NOW_S + 700,
            ["park parked step 1 attempt 2 BookingExpired", "tell BookingExpired"],
            id="held until the booking ran out: the next attempt",
        ),
        pytest.param(
            HELD.answered(booked(), revoked()),
            NOW_S + 10,
            ["park parked step 1 attempt 2 CapacityRevoked", "tell CapacityRevoked"],
            id="held until the provider took it back",
        ),
        pytest.param(
            HELD.but(requests=(), templates=()),
            NOW_S + 10,
            ["check Pending BookingExpired"],
            id="Ready without a booking is taken back",
        ),
    ],
)  # fmt: skip
def test_admitted(gang: Gang, now_s: float, want: list[str]) -> None:
    assert shown(gang.decides(now_s).actions) == want


TWO = Gang(sets=(Set("a", 2, "cpu"), Set("b", 1, "gpu"))).asked(NOW_S, booked()).ready()


def test_a_booking_that_is_used_goes_while_the_others_pods_wait() -> None:
    used = TWO.requests[0]["metadata"]["name"]
    gang = TWO.answered(booked(), expired()).looks(
        pods=(pod("a0", used, node="n"), pod("a1", used, node="n"), pod("b0"))
    )
    deleted = [a for a in gang.decides(NOW_S + 100).actions if isinstance(a, Delete)]
    assert [a.target.name for a in deleted][:1] == [used]
    assert len(deleted) == 2


def test_explained_once() -> None:
    gang = ADMITTED.looks(pods=(pod("p0", BOOKING, node="n", phase="Running"),))
    (entry, _) = gang.decides(NOW_S + 600).actions
    said = gang.but(check={**(gang.check or {}), "message": entry.message})
    assert said.decides(NOW_S + 601).actions == ()


def test_explaining_keeps_what_the_pods_were_given() -> None:
    """Kueue freezes podSetUpdates while a check is Ready."""
    gang = ADMITTED.looks(pods=(pod("p0", BOOKING, node="n", phase="Running"),))
    (entry, _) = gang.decides(NOW_S + 600).actions
    assert entry.state is CheckState.READY
    assert list(entry.updates) == (gang.check or {})["podSetUpdates"]


@pytest.mark.parametrize(
    ("gang", "after_s", "want_s"),
    [
        pytest.param(ADMITTED, 10, 290.0, id="before any clock can end"),
        pytest.param(ADMITTED, 310, 290.0, id="nodes"),
        pytest.param(GPU.looks(nodes=(node("n"),)), 10, 290.0, id="accelerators"),
        pytest.param(
            ADMITTED.but(requests=()).looks(pods=pods(3, node="n")), 10, 1490.0, id="pods"
        ),
    ],
)
def test_wakes_when_the_clock_ends(gang: Gang, after_s: float, want_s: float) -> None:
    assert gang.decides(NOW_S + after_s).wake_after_s == pytest.approx(want_s)


ELASTIC = Gang(workload_annotations={names.ELASTIC: "true"}).asked(NOW_S, booked()).ready()


@pytest.mark.parametrize(
    ("gang", "now_s", "want"),
    [
        pytest.param(ELASTIC, NOW_S + 1, [], id="its pods do not name the booking"),
        pytest.param(
            ELASTIC.but(conditions=(*ELASTIC.conditions, condition(wl.PODS_READY, NOW_S))),
            NOW_S + 1,
            GONE,
            id="Kueue says when all of them run",
        ),
        pytest.param(
            ELASTIC,
            NOW_S + 600,
            ["check Ready NodesTimedOut", "tell NodesTimedOut"],
            id="nobody can tell which of its pods run, so it is never parked",
        ),
    ],
)
def test_elastic(gang: Gang, now_s: float, want: list[str]) -> None:
    assert shown(gang.decides(now_s).actions) == want


def test_a_ray_job_whose_program_started_is_left_alone() -> None:
    gang = Gang(job_kind="RayJob").asked(NOW_S, booked()).ready()
    running = {"spec": {"suspend": False}, "status": {"jobStatus": "RUNNING"}}
    assert shown(gang.but(job=running).decides(NOW_S + 600).actions)[0].startswith("check Ready")
    pending = {"spec": {"suspend": False}, "status": {"jobStatus": "PENDING"}}
    assert shown(gang.but(job=pending).decides(NOW_S + 600).actions)[0].startswith("park")


def test_only_the_stamp_is_taken_off() -> None:
    gang = ADMITTED.but(requests=(), templates=()).looks(pods=(pod("new", BOOKING),))
    (action,) = gang.decides(NOW_S + 1).actions
    assert action == Unstamp(action.pod)
    assert (action.pod.name, action.pod.uid) == ("new", "uid-new")


def test_refused_after_admission_is_no_reason_to_stop() -> None:
    """Provisioned and Failed both true, all pods bound: nothing but a clean-up."""
    gang = ADMITTED.answered(booked(), failed()).looks(pods=pods(3, node="n", phase="Running"))
    assert shown(gang.decides(NOW_S + 1).actions) == GONE


def test_the_check_is_found_at_its_place() -> None:
    other = {"name": "other", "state": "Ready"}
    gang = Gang(other_checks=(other,)).asked(NOW_S, booked())
    (entry, _) = gang.decides(NOW_S).actions
    assert (entry.index, entry.check) == (1, CHECK)
