"""The threads around the loop: start, health, metrics, lost lease, graceful stop."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from controllers import runtime as runtimes
from controllers.actions import Delete, Target
from controllers.health import serve
from controllers.lease import Elector
from controllers.loop import Work
from controllers.runtime import Runtime
from taugrid_ray.errors import Unreachable
from taugrid_ray.kinds.resource import EVENT, LEASE, NODE, PROVISIONING_REQUEST
from taugrid_ray.kube.clock import SystemClock
from tests.controllers.builders import booked
from tests.controllers.cluster import add_gang, answer, check_of, set_up
from tests.fake_kube import Call, FakeKube

PATIENCE_S = 20.0


@pytest.fixture
def kube() -> FakeKube:
    kube = FakeKube(SystemClock(), quiet_s=0.05)
    set_up(kube)
    return kube


def elector(kube: FakeKube, me: str) -> Elector:
    return Elector(kube, SystemClock(), me=me, namespace="taugrid-ray", period_s=0.05)


@contextmanager
def running(kube: FakeKube, lease: Elector | None = None) -> Iterator[Runtime]:
    runtime = Runtime(
        kube, SystemClock(), identity="test", elector=lease, registry=CollectorRegistry()
    )
    thread = threading.Thread(target=runtime.run, daemon=True)
    thread.start()
    try:
        yield runtime
    finally:
        runtime.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def until(holds: Callable[[], object]) -> None:
    clock, pulse = SystemClock(), threading.Event()
    until_s = clock.monotonic_s() + PATIENCE_S
    while not holds():
        assert clock.monotonic_s() < until_s, "it did not happen"
        pulse.wait(0.01)


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answered:
            return answered.status, answered.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_from_asked_to_ready(kube: FakeKube) -> None:
    with running(kube) as runtime:
        add_gang(kube)
        until(lambda: kube.objects(PROVISIONING_REQUEST))
        answer(kube, booked(SystemClock().now_s()))
        until(lambda: check_of(kube)["state"] == "Ready")
        until(lambda: [e["reason"] for e in kube.objects(EVENT)] == ["CapacityProvisioned"])
        server = serve(runtime, "127.0.0.1", 0)
        try:
            assert ask(server.server_port, "/healthz") == (200, "alive\n")
            assert ask(server.server_port, "/readyz") == (200, "synced\n")
            assert ask(server.server_port, "/other")[0] == 404
            until(lambda: 'outcome="ok"' in ask(server.server_port, "/metrics")[1])
            metrics = ask(server.server_port, "/metrics")[1]
        finally:
            server.shutdown()
            server.server_close()
    assert 'taugrid_ray_actions_total{action="SetCheck",outcome="ok"} ' in metrics
    assert 'taugrid_ray_reasons_total{reason="CapacityProvisioned"} 1.0' in metrics
    assert "taugrid_ray_booking_seconds_count 1.0" in metrics
    assert "train" not in metrics, "no object's name in a label"


def test_not_ready_before_all_is_listed(kube: FakeKube) -> None:
    kube.fail("list", NODE, Unreachable("hangs"), times=10_000)
    with running(kube) as runtime:
        server = serve(runtime, "127.0.0.1", 0)
        try:
            until(lambda: kube.calls["list", "Workload"])
            assert ask(server.server_port, "/readyz")[0] == 503
            assert ask(server.server_port, "/healthz")[0] == 200
        finally:
            server.shutdown()
            server.server_close()


def test_a_loop_that_does_not_turn_is_not_alive(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(kube, SystemClock(), identity="test", elector=None)
    assert runtime.is_alive
    monkeypatch.setattr(runtimes, "STALL_S", 0.0)
    assert not runtime.is_alive


def test_a_graceful_stop_finishes_what_was_begun_and_gives_the_lease_up(kube: FakeKube) -> None:
    """Stopped while a write hangs: that write is finished, and nothing new is begun."""
    hangs, goes_on = threading.Event(), threading.Event()

    def slow(call: Call) -> None:
        if call.verb == "create" and call.kind == PROVISIONING_REQUEST:
            hangs.set()
            goes_on.wait(PATIENCE_S)

    add_gang(kube)
    lease = elector(kube, "a")
    runtime = Runtime(kube, SystemClock(), identity="test", elector=lease)
    thread = threading.Thread(target=runtime.run, daemon=True)
    # The pretend server does one call at a time, so the hanging call is let go before the end.
    kube.on_call = slow
    thread.start()
    assert hangs.wait(PATIENCE_S)
    runtime.stop()
    goes_on.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1
    assert kube.get(LEASE, "taugrid-ray", "taugrid-ray")["spec"]["holderIdentity"] == ""
    assert not runtime.lost_lease


def test_a_standby_takes_over(kube: FakeKube) -> None:
    first, second = elector(kube, "a"), elector(kube, "b")
    first.step()
    with running(kube, second) as runtime:
        until(lambda: runtime.is_ready)
        add_gang(kube)
        until(lambda: len(runtime.loop.world.stores[PROVISIONING_REQUEST]) == 0)
        assert kube.objects(PROVISIONING_REQUEST) == []
        first.release()
        until(lambda: kube.objects(PROVISIONING_REQUEST))


def test_a_lost_lease_stops_all_writes(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "IDLE_S", 0.1)
    lease = elector(kube, "a")
    runtime = Runtime(kube, SystemClock(), identity="test", elector=lease)
    thread = threading.Thread(target=runtime.run, daemon=True)
    thread.start()
    until(lambda: lease.leads and runtime.loop.leads)
    there = kube.get(LEASE, "taugrid-ray", "taugrid-ray")
    spec = {**there["spec"], "holderIdentity": "b", "renewTime": "2030-01-01T00:00:00.000000Z"}

    kube.replace(LEASE, {**there, "spec": spec}, "taugrid-ray")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert runtime.lost_lease
    add_gang(kube)
    assert kube.objects(PROVISIONING_REQUEST) == []
    assert kube.get(LEASE, "taugrid-ray", "taugrid-ray")["spec"]["holderIdentity"] == "b"


def test_what_was_decided_while_leading_is_not_carried_out_afterwards(kube: FakeKube) -> None:
    lease = elector(kube, "a")
    runtime = Runtime(kube, SystemClock(), identity="test", elector=lease)
    assert not lease.leads
    runtime._perform(Work("gang/u", (Delete(PROVISIONING_REQUEST, Target("team", "x", "u")),)))
    assert not [w for w in kube.writes if w.verb == "delete"]
