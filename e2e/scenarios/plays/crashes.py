"""A controller that is killed at the worst moment, or was not there when something happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e import installation
from e2e.cluster.extras import CONTROLLER
from e2e.relay import Cut, Relay
from e2e.scenarios.manifests import job
from e2e.scenarios.plays.timeouts import parked
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.resource import JOB, LEASE, WORKLOAD


@scenario("owner-deleted-while-controller-down", in_test=True)
def owner_deleted(stage: Stage) -> None:
    """What is left behind while the controller is down is swept when it is back."""
    stage.policy()
    stage.queues()
    stage.pools(stage.pool(max_=0))
    for name in ("deleted", "orphaned"):
        stage.create(JOB, job(name, pods=1))
    stage.wait_for("both wait for capacity", lambda: len(stage.requests()) == 2)
    with stage.controller_down():
        stage.delete(JOB, "deleted")
        # Nobody collects what this one owned: that is left to our sweep alone.
        stage.api.delete(JOB, "orphaned", stage.namespace, propagation="Orphan")
        stage.wait_for("both Jobs are gone", lambda: not stage.record.all(JOB, stage.namespace), 20)
        stage.wait_for("a request has outlived its Job", stage.requests, 5)
    stage.wait_for("everything is swept", stage.nothing_of_ours, 15)
    for workload in stage.record.all(WORKLOAD, stage.namespace):
        stage.delete(WORKLOAD, workload["metadata"]["name"])


def _counts(method: str, path: str) -> bool:
    """Every write but the lease's."""
    return f"/{LEASE.plural}" not in path


@contextmanager
def _through_relay(stage: Stage) -> Iterator[Relay]:
    """The controller talks to the API server through a relay while the block runs."""
    cluster = stage.cluster
    own = installation.controllers_kubeconfig(cluster)
    relay = Relay(cluster.server, own, counts=_counts)
    from_s = time.time()
    cluster.stop_part(CONTROLLER.name)
    kubeconfig = relay.write_kubeconfig(cluster.folder / f"relay-{stage.name}.kubeconfig")
    installation.start_controller(cluster, kubeconfig=kubeconfig)
    stage.down.append((from_s, time.time()))
    try:
        yield relay
    finally:
        cluster.kill_part(CONTROLLER.name)
        relay.close()
        kubeconfig.unlink()
        installation.start_controller(cluster)


def _life(stage: Stage, relay: Relay, name: str, cut: Cut) -> bool:
    """One gang's life with a crash at the cut: parked once, then booked, run and cleaned up.

    False where the life had fewer writes than that.
    """
    died = threading.Event()
    cluster = stage.cluster
    from_s = time.time()

    def crash() -> None:
        cluster.kill_part(CONTROLLER.name)
        died.set()

    stage.pools(stage.pool(max_=0))
    stage.wait_for("no node is there", lambda: not stage.nodes(), 30)
    relay.arm(cut, crash)
    stage.create(JOB, job(name, pods=2, seconds=1))

    def restart_if_dead() -> None:
        if died.is_set():
            died.clear()
            relay.arm(None, lambda: None)
            cluster.start_part_again(CONTROLLER.name)
            stage.down.append((from_s, time.time()))
            stage.say(f"{name}: killed {_where(cut)}, started again")

    def until(what: str, holds: Callable[[], object], timeout_s: float) -> None:
        def holds_or_restart() -> object:
            restart_if_dead()
            return holds()

        stage.wait_for(f"{name}: {what}", holds_or_restart, timeout_s)

    until("parked once", lambda: parked(stage, name) or stage.memory(name).failures, 40)
    stage.pools(stage.pool())
    until("complete", lambda: stage.job_is(JOB, name, "Complete"), 60)
    until("nothing is left", stage.nothing_of_ours, 20)
    writes = len(relay.writes)
    stage.delete(JOB, name)
    until("its Job is gone", lambda: stage.record.get(JOB, name, stage.namespace) is None, 30)
    fired = any(text.startswith(f"{name}: killed") for _, text in stage.timeline)
    stage.figures[f"{name}_writes"] = float(writes)
    return fired


def _where(cut: Cut) -> str:
    return f"{'before' if cut.before else 'after'} write {cut.at}"


def _prepare(stage: Stage) -> None:
    stage.policy(deadlines={"provision": 3}, backoff={"baseSeconds": 1, "maxSeconds": 1})
    stage.queues()


@scenario("controller-killed-between-any-two-calls")
def killed_anywhere(stage: Stage) -> None:
    """kill -9 before and after each API write of a gang's life in turn; every life ends well."""
    _prepare(stage)
    with _through_relay(stage) as relay:
        for before in (True, False):
            at = 1
            while _life(stage, relay, f"{'before' if before else 'after'}-{at}", Cut(at, before)):
                at += 1
            stage.expect(at > 5, f"a life of only {at - 1} writes: the relay did not see them")


@scenario("controller-killed-at-sampled-calls", in_test=True)
def killed_sampled(stage: Stage) -> None:
    """kill -9 at four sampled API writes of a gang's life; every life ends well."""
    _prepare(stage)
    with _through_relay(stage) as relay:
        for at, before in ((2, True), (2, False), (3, False), (5, True)):
            name = f"{'before' if before else 'after'}-{at}"
            stage.expect(_life(stage, relay, name, Cut(at, before)), f"{name} did not crash")
