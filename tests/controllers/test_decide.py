"""Which part of a gang's life is this? The first questions of every decision, and the sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.actions import Park, Unpark
from controllers.gang.decide import decide
from controllers.gang.seen import SeenGang
from taugrid_ray import names
from taugrid_ray.kinds import workload as wl
from taugrid_ray.memory import Memory, Pause
from tests.controllers.builders import (
    NOW_S,
    Gang,
    booked,
    condition,
    expired,
    failed,
    pod,
    policy,
    shown,
)

ASKED = Gang().asked()
SWEEP = ["delete ProvisioningRequest", "delete PodTemplate"]
PARKED = Memory(
    pause=Pause.PARKED, attempt=2, failures=1, reason="ProvisioningTimedOut", at_s=NOW_S - 60,
    resume_at_s=NOW_S,
)  # fmt: skip
GAVE_UP = replace(PARKED, pause=Pause.GAVE_UP, resume_at_s=None)
OVER = ASKED.but(reserved_s=None)


@pytest.mark.parametrize(
    ("gang", "want"),
    [
        pytest.param(ASKED.but(reserved_s=None), SWEEP, id="quota was taken away"),
        pytest.param(
            ASKED.but(conditions=(condition(wl.EVICTED, NOW_S, reason="Preempted"),)),
            SWEEP,
            id="preempted while provisioning",
        ),
        pytest.param(
            ASKED.but(conditions=(condition(wl.FINISHED, NOW_S),)), SWEEP, id="finished"
        ),
        pytest.param(ASKED.but(active=False), SWEEP, id="a user's own active: false"),
        pytest.param(ASKED.but(check=None), SWEEP, id="the check is no longer there"),
        pytest.param(ASKED.looks(job=None), SWEEP, id="the job is gone"),
        pytest.param(
            ASKED.but(job={"spec": {"suspend": True}, "status": {"conditions": [
                condition("Failed", NOW_S)]}}),
            SWEEP,
            id="the job has ended",
        ),
        pytest.param(ASKED.looks(workload=None), SWEEP, id="the Workload is gone"),
        pytest.param(
            ASKED.but(check={"state": "Rejected", "message": ""}), SWEEP, id="rejected for good"
        ),
        pytest.param(ASKED.but(check={"state": "Retry", "message": ""}), SWEEP, id="retried"),
        pytest.param(
            OVER.remembers(PARKED, active=False).looks(),
            [*SWEEP, "unpark step 1 attempt 2", "tell Resumed"],
            id="the pause is over",
        ),
        pytest.param(
            OVER.remembers(replace(PARKED, resume_at_s=NOW_S + 1), active=False),
            SWEEP,
            id="the pause goes on",
        ),
        pytest.param(
            ASKED.remembers(PARKED, active=False), SWEEP, id="Kueue has not let go of the quota yet"
        ),
        pytest.param(OVER.remembers(GAVE_UP, active=False), SWEEP, id="gave up"),
        pytest.param(
            OVER.remembers(replace(PARKED, pause=Pause.RESUMED), active=False),
            SWEEP,
            id="deactivated by a user after we had resumed it",
        ),
        pytest.param(
            ASKED.remembers(PARKED), [*SWEEP, "forget"], id="somebody resumed a parked gang"
        ),
        pytest.param(
            ASKED.remembers(GAVE_UP), [*SWEEP, "forget"], id="somebody resumed a gang that gave up"
        ),
        pytest.param(
            OVER.but(workload_annotations={names.MEMORY: "no json"}, active=False),
            SWEEP,
            id="an annotation that is not ours",
        ),
    ],
)  # fmt: skip
def test_decide(gang: Gang, want: list[str]) -> None:
    assert shown(gang.decides(NOW_S).actions) == want


@pytest.mark.parametrize(
    ("gang", "want_s"),
    [
        pytest.param(
            OVER.remembers(replace(PARKED, resume_at_s=NOW_S + 77), active=False),
            77.0,
            id="until the pause is over",
        ),
        pytest.param(OVER.remembers(GAVE_UP, active=False), None, id="for good"),
        pytest.param(OVER.but(active=False), None, id="a user's own pause has no end"),
        pytest.param(ASKED.remembers(PARKED, active=False), 1.0, id="until the quota is free"),
    ],
)
def test_wakes(gang: Gang, want_s: float | None) -> None:
    assert gang.decides(NOW_S).wake_after_s == want_s


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    marked = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    going = tuple({**r, "metadata": {**r["metadata"], **marked}} for r in ASKED.requests)
    gang = ASKED.but(requests=going, reserved_s=None)
    assert shown(gang.decides().actions) == ["delete PodTemplate"]


def test_resuming_keeps_step_and_attempt() -> None:
    gang = Gang(reserved_s=None).remembers(PARKED, active=False)
    action = gang.decides(NOW_S).actions[0]
    assert isinstance(action, Unpark)
    assert action.memory == replace(PARKED, pause=Pause.RESUMED, at_s=NOW_S, resume_at_s=None)


def test_onflavors_does_not_forget_attempts() -> None:
    """Without an admission Kueue drops a check that is limited by onFlavors; the gang goes on."""
    dropped = Gang(reserved_s=None, check=None).remembers(PARKED, active=False)
    action = dropped.decides(NOW_S).actions[0]
    assert isinstance(action, Unpark)
    back = Gang().remembers(action.memory).asked(NOW_S, failed()).looks(on_flavors=("pool",))
    (park, _) = back.decides(NOW_S).actions
    assert isinstance(park, Park)
    assert (park.memory.attempt, park.memory.failures) == (3, 2)


def test_every_write_to_a_workload_is_guarded() -> None:
    """A decision about an older state is refused by the API server instead of carried out."""
    lives = (
        Gang().asked(NOW_S, booked()),
        Gang().asked(NOW_S, failed()),
        Gang().remembers(PARKED),
        Gang(reserved_s=None).remembers(PARKED, active=False),
        Gang().looks(policy=None, policy_fault="broken"),
    )
    for gang in lives:
        action = gang.decides(NOW_S).actions[0]
        assert action.workload.version == "7"


RUNS = (pod("p", node="n", phase="Running"),)
ENDS = (pod("p", node="n", phase="Running", deletionTimestamp="2027-01-15T08:00:00Z"),)


def test_what_runs_is_never_stopped_whatever_else_is_true() -> None:
    """R1, also where Kueue and the job disagree about whether the job is suspended."""
    held = Gang().asked(NOW_S, booked()).ready(admitted_s=None).answered(booked(), expired())
    for gang in (Gang().asked(NOW_S, failed()), held):
        assert shown(gang.decides(NOW_S).actions)[0].startswith("park")
        assert gang.looks(pods=RUNS).decides(NOW_S).actions == ()
        assert shown(gang.looks(pods=ENDS).decides(NOW_S).actions)[0].startswith("park")


def test_nothing_at_all() -> None:
    assert decide(SeenGang(), NOW_S).actions == ()


def test_a_hostile_annotation_is_no_bug() -> None:
    deep = Gang(workload_annotations={names.MEMORY: "[" * 200_000})
    assert shown(deep.decides().actions)[0] == "create PodTemplate"


def test_another_policy_in_the_middle_of_an_attempt() -> None:
    """The class changes: what was asked is dropped, and asked anew under the new one."""
    later = ASKED.looks(policy=policy(steps=[{"provisioningClassName": "other"}]))
    words = shown(later.decides(NOW_S + 1).actions)
    assert words == [*SWEEP, "create PodTemplate", "create ProvisioningRequest"]
