"""Who leads: one at a time, also when the API server hangs, a clock jumps, or a lease is taken."""

from __future__ import annotations

import pytest

from controllers.lease import Elector, Move, Record, next_move
from taugrid_ray.errors import Conflict, ServerFault, Unreachable
from taugrid_ray.kinds.resource import LEASE
from tests.fake_kube import FakeKube, ManualClock

NAMESPACE = "taugrid-ray"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kube(clock: ManualClock) -> FakeKube:
    return FakeKube(clock)


def elector(kube: FakeKube, clock: ManualClock, me: str) -> Elector:
    return Elector(kube, clock, me=me, namespace=NAMESPACE)


def holder(kube: FakeKube) -> str:
    return str(kube.get(LEASE, "taugrid-ray", NAMESPACE)["spec"]["holderIdentity"])


@pytest.mark.parametrize(
    ("record", "now_s", "want"),
    [
        pytest.param(None, 0.0, Move.TAKE, id="no lease"),
        pytest.param(Record("", "t", 15.0, 0.0), 0.0, Move.TAKE, id="given up"),
        pytest.param(Record("me", "t", 15.0, 0.0), 99.0, Move.RENEW, id="ours, however late"),
        pytest.param(Record("you", "t", 15.0, 0.0), 15.0, Move.WAIT, id="another's"),
        pytest.param(Record("you", "t", 15.0, 0.0), 15.1, Move.TAKE, id="another's, run out"),
    ],
)
def test_next_move(record: Record | None, now_s: float, want: Move) -> None:
    assert next_move(record, "me", now_s) is want


def test_one_of_two(kube: FakeKube, clock: ManualClock) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    for _ in range(20):
        a.step()
        b.step()
        clock.advance(4.0)
    a.step()
    assert (a.leads, b.leads, b.lost) == (True, False, False)
    assert holder(kube) == "a"


def test_a_dead_leader_is_followed(kube: FakeKube, clock: ManualClock) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    a.step()
    taken_s = None
    for _ in range(10):
        b.step()
        if b.leads and taken_s is None:
            taken_s = clock.monotonic_s()
        assert not (a.leads and b.leads)
        clock.advance(4.0)
    assert taken_s == pytest.approx(16.0)
    assert a.lost
    a.step()
    assert a.lost, "another holds it: whoever led before does so no more"


def test_a_leader_that_cannot_renew_stops_before_another_may_start(
    kube: FakeKube, clock: ManualClock
) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    a.step()
    b.step()
    kube.fail("*", LEASE, Unreachable("hangs"), times=99, match=lambda call: True)
    for _ in range(3):
        a.step()
        clock.advance(4.0)
    assert a.lost
    assert not b.leads


def test_a_short_trouble_is_no_loss(kube: FakeKube, clock: ManualClock) -> None:
    a = elector(kube, clock, "a")
    a.step()
    for error in (Unreachable("x"), ServerFault("x"), Conflict("x")):
        clock.advance(4.0)
        kube.fail("get", LEASE, error)
        a.step()
        assert a.leads
        clock.advance(4.0)
        a.step()
    assert a.leads


def test_a_lease_that_was_taken_is_lost_at_once(kube: FakeKube, clock: ManualClock) -> None:
    a = elector(kube, clock, "a")
    a.step()
    there = kube.get(LEASE, "taugrid-ray", NAMESPACE)
    spec = {**there["spec"], "holderIdentity": "somebody", "renewTime": "2027-01-01T00:00:09.0Z"}
    kube.replace(LEASE, {**there, "spec": spec}, NAMESPACE)
    clock.advance(1.0)
    a.step()
    assert (a.leads, a.lost) == (False, True)


def test_two_that_take_at_once(kube: FakeKube, clock: ManualClock) -> None:
    """Both saw no lease; one create wins, the other's is refused and it waits."""
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    looked = a._look()
    b.step()
    assert looked is None
    a.step()
    assert (a.leads, b.leads) == (False, True)


def test_giving_up_lets_the_next_one_start_at_once(kube: FakeKube, clock: ManualClock) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    a.step()
    b.step()
    a.release()
    b.step()
    assert (a.leads, a.lost, b.leads) == (False, False, True)
    b.release()
    a.release()
    assert holder(kube) == ""


def test_what_is_not_ours_is_not_given_up(kube: FakeKube, clock: ManualClock) -> None:
    a = elector(kube, clock, "a")
    a.release()
    assert kube.objects(LEASE) == []


def test_transitions_are_counted(kube: FakeKube, clock: ManualClock) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    a.step()
    clock.advance(4.0)
    a.step()
    a.release()
    b.step()
    spec = kube.get(LEASE, "taugrid-ray", NAMESPACE)["spec"]
    assert spec["leaseTransitions"] == 1
    assert spec["acquireTime"] == spec["renewTime"]


def test_a_wall_clock_that_jumps_changes_nothing(kube: FakeKube, clock: ManualClock) -> None:
    a, b = elector(kube, clock, "a"), elector(kube, clock, "b")
    a.step()
    b.step()
    clock._now_s += 1e6
    b.step()
    a.step()
    assert (a.leads, b.leads) == (True, False)
