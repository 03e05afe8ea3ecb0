"""The loop between stores, queue and writes: who is woken, what an error leads to, what is told."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controllers import loop as loops
from controllers.gang.wiring import all_gangs
from controllers.loop import reserved_to_ready_s
from taugrid_ray import names
from taugrid_ray.errors import Forbidden, Invalid, Throttled, Unreachable
from taugrid_ray.kinds.resource import (
    ADMISSION_CHECK,
    CAPACITY_POLICY,
    EVENT,
    JOB,
    NODE,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    WORKLOAD,
)
from tests.controllers.builders import CHECK, booked
from tests.controllers.cluster import add_gang, answer, check_of, obj, set_up
from tests.fake_kube import FakeKube, ManualClock
from tests.sim.controller import Controller, FlakyApi


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kube(clock: ManualClock) -> FakeKube:
    kube = FakeKube(clock)
    set_up(kube)
    return kube


@pytest.fixture
def controller(kube: FakeKube, clock: ManualClock) -> Controller:
    rng = random.Random(0)
    return Controller(FlakyApi(kube, rng, 0.0), clock, rng)


def spend(controller: Controller, clock: ManualClock, seconds: float) -> None:
    for _ in range(int(seconds * 2)):
        controller.step()
        clock.advance(0.5)
    controller.step()


def reasons(kube: FakeKube) -> list[str]:
    return sorted(e["reason"] for e in kube.objects(EVENT))


def test_asked_booked_ready(kube: FakeKube, clock: ManualClock, controller: Controller) -> None:
    add_gang(kube)
    controller.step()
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1
    answer(kube, booked(clock.now_s()))
    controller.step()
    assert check_of(kube)["state"] == "Ready"
    assert reasons(kube) == ["CapacityProvisioned"]


def test_nothing_is_done_twice(kube: FakeKube, clock: ManualClock, controller: Controller) -> None:
    """The store reads our own writes before any watch shows them (cases of cache lag)."""
    for kind in (WORKLOAD, PROVISIONING_REQUEST, POD_TEMPLATE):
        kube.history.lag(kind, 5.0)
    add_gang(kube)
    spend(controller, clock, 20)
    creates = [w for w in kube.writes if w.verb == "create" and w.call.kind != EVENT]
    of_ours = [w for w in creates if w.call.kind in (PROVISIONING_REQUEST, POD_TEMPLATE)]
    assert len(of_ours) == 2


def test_a_standby_does_nothing(kube: FakeKube, controller: Controller) -> None:
    controller.loop.leads = False
    add_gang(kube)
    before = kube.history.version
    controller.step()
    assert kube.history.version == before
    assert controller.loop.next_due_s() is None
    controller.loop.lead()
    controller.step()
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1


def test_nothing_is_decided_before_all_is_known(kube: FakeKube, controller: Controller) -> None:
    add_gang(kube)
    kube.fail("list", JOB, Unreachable("not yet"))
    controller.step()
    assert not controller.loop.world.synced
    assert kube.objects(PROVISIONING_REQUEST) == []


def test_what_was_left_behind_is_swept(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    """The Job and its Workload went while nobody looked."""
    add_gang(kube)
    controller.step()
    kube.delete(WORKLOAD, "job-train", "team")
    rng = random.Random(0)
    Controller(FlakyApi(kube, rng, 0.0), clock, rng).step()
    assert kube.objects(PROVISIONING_REQUEST) == []
    assert kube.objects(POD_TEMPLATE) == []


def test_the_sweep_looks_at_whatever_bears_our_mark(kube: FakeKube, controller: Controller) -> None:
    """A safety net: objects wake their gang when they are first seen, but news can get lost."""
    uid = add_gang(kube)["metadata"]["uid"]
    other = obj(PROVISIONING_REQUEST, "left", {"podSets": [{"count": 1}]}, namespace="team")
    other["metadata"]["labels"] = {
        names.MANAGED_BY: names.MANAGED_BY_US,
        names.WORKLOAD_UID: "dead",
    }
    kube.create(PROVISIONING_REQUEST, other)
    controller.loop.leads = False
    controller.step()
    assert all_gangs(controller.loop.world) == {uid, "dead"}


def test_a_refusal_is_told_and_tried_again(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    refusal = Invalid("denied by webhook: no GPUs on Mondays")
    kube.fail("create", POD_TEMPLATE, refusal, times=4)
    add_gang(kube)
    spend(controller, clock, 5)
    told = [e["note"] for e in kube.objects(EVENT) if e["reason"] == "RequestRefused"]
    assert any("no GPUs on Mondays" in note for note in told)
    spend(controller, clock, 60)
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1


def test_what_is_refused_for_ever_holds_no_quota_for_ever(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    kube.fail("create", POD_TEMPLATE, Forbidden("no"), times=10_000)
    add_gang(kube)
    spend(controller, clock, 965)
    assert kube.get(WORKLOAD, "job-train", "team")["spec"]["active"] is False


@pytest.mark.parametrize("error", [Throttled("slow"), Unreachable("gone")])
def test_a_short_trouble_is_no_refusal(
    kube: FakeKube, clock: ManualClock, controller: Controller, error: Exception
) -> None:
    kube.fail("create", PROVISIONING_REQUEST, error, times=3)
    add_gang(kube)
    spend(controller, clock, 2)
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1
    assert "RequestRefused" not in reasons(kube)


def test_a_name_that_is_taken_is_not_used(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    add_gang(kube)
    controller.step()
    (ours,) = kube.objects(PROVISIONING_REQUEST)
    kube.delete(PROVISIONING_REQUEST, ours["metadata"]["name"], "team")
    foreign = {**ours, "metadata": {"name": ours["metadata"]["name"], "namespace": "team"}}
    kube.create(PROVISIONING_REQUEST, foreign)
    spend(controller, clock, 2)
    found = kube.objects(PROVISIONING_REQUEST)
    assert len(found) == 2
    assert len({r["metadata"]["name"] for r in found}) == 2


def test_a_bug_in_one_gang_does_not_stop_the_others(
    kube: FakeKube, clock: ManualClock, controller: Controller, monkeypatch: Any
) -> None:
    bad = add_gang(kube, "bad")["metadata"]["uid"]
    add_gang(kube, "good")
    true = loops.decide

    def decide(seen: Any, now_s: float) -> Any:
        if seen.workload is not None and seen.workload.uid == bad:
            raise KeyError("oh")
        return true(seen, now_s)

    monkeypatch.setattr(loops, "decide", decide)
    spend(controller, clock, 3)
    (request,) = kube.objects(PROVISIONING_REQUEST)
    assert request["metadata"]["ownerReferences"][0]["name"] == "good"
    assert 2 <= controller.bugs <= 10, "tried again, ever more slowly"


def test_nothing_is_remembered_of_what_is_gone(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    kube.fail("create", POD_TEMPLATE, Forbidden("no"), times=10_000)
    add_gang(kube)
    spend(controller, clock, 5)
    assert controller.loop._refused
    kube.delete(WORKLOAD, "job-train", "team")
    kube.delete(JOB, "train", "team")
    spend(controller, clock, 5)
    loop = controller.loop
    assert not loop._refused
    assert not loop.queue._failures
    assert not loop._news
    assert len(loop.queue) == 0


def test_nodes_wake_only_who_waits_for_them(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    body = {"spec": {"readyWhen": "NodesReady"}}
    kube.patch(CAPACITY_POLICY, "policy", body)
    add_gang(kube)
    controller.step()
    answer(kube, booked(clock.now_s()))
    spend(controller, clock, 3)
    assert check_of(kube)["state"] == "Pending"
    assert "Ready nodes have room for 0" in check_of(kube)["message"]
    node = obj(NODE, "n", {}, labels={"pool": "pool"})
    ready = {"type": "Ready", "status": "True"}
    kube.create(NODE, {**node, "status": {"conditions": [ready], "allocatable": {"cpu": "4"}}})
    spend(controller, clock, 1)
    assert check_of(kube)["state"] == "Ready"


def test_a_policy_that_is_mended_wakes_its_gangs(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    kube.patch(CAPACITY_POLICY, "policy", {"spec": {"stepz": []}})
    add_gang(kube)
    spend(controller, clock, 1)
    assert "did you mean steps" in check_of(kube)["message"]
    check = kube.get(ADMISSION_CHECK, CHECK)
    assert check["status"]["conditions"][0]["status"] == "False"
    kube.patch(CAPACITY_POLICY, "policy", {"spec": {"stepz": None}})
    spend(controller, clock, 1)
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1
    check = kube.get(ADMISSION_CHECK, CHECK)
    assert check["status"]["conditions"][0]["status"] == "True"


def test_a_queue_without_our_check_is_left_alone(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    body = {"spec": {"controllerName": names.BUILTIN_CONTROLLER}}
    kube.patch(ADMISSION_CHECK, CHECK, body)
    add_gang(kube)
    kube.writes.clear()
    spend(controller, clock, 5)
    assert kube.writes == [] or {w.call.kind for w in kube.writes} == {CAPACITY_POLICY}


def test_at_rest_nothing_is_written(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    for n in range(3):
        add_gang(kube, f"g{n}")
    spend(controller, clock, 10)
    mark = kube.history.version
    spend(controller, clock, 130)
    assert kube.history.version == mark


def test_how_long_a_booking_took_is_measured(
    kube: FakeKube, clock: ManualClock, controller: Controller
) -> None:
    add_gang(kube)
    controller.step()
    clock.advance(7.0)
    answer(kube, booked(clock.now_s()))
    controller._listen()
    (work,) = controller.loop.turn(room=1)
    assert list(reserved_to_ready_s(controller.loop, work)) == [pytest.approx(7.0)]


def test_a_key_is_called_by_its_jobs_name_in_the_log(
    kube: FakeKube, controller: Controller
) -> None:
    uid = add_gang(kube)["metadata"]["uid"]
    controller.step()
    assert controller.loop.called(f"gang/{uid}") == "gang/team/train"
    assert controller.loop.called("gang/gone") == "gang/gone"
    assert controller.loop.called(f"check/{CHECK}") == f"check/{CHECK}"
