"""A controller that is killed at the worst moment, or was not there when something happened."""

from __future__ import annotations

from e2e.relay import Cut, Relay
from e2e.scenarios.grower import Grower, begin
from e2e.scenarios.killing import Life, through_relay
from e2e.scenarios.manifests import elastic_group, job
from e2e.scenarios.plays.timeouts import parked
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.resource import JOB, WORKLOAD


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


def _life(stage: Stage, relay: Relay, name: str, cut: Cut) -> bool:
    """One gang's life with a crash at the cut: parked once, then booked, run and cleaned up.

    False where the life had fewer writes than that.
    """
    stage.pools(stage.pool(max_=0))
    stage.wait_for("no node is there", lambda: not stage.nodes(), 30)
    life = Life(stage, relay, name, cut)
    stage.create(JOB, job(name, pods=2, seconds=1))
    life.until("parked once", lambda: parked(stage, name) or stage.memory(name).failures, 40)
    stage.pools(stage.pool())
    life.until("complete", lambda: stage.job_is(JOB, name, "Complete"), 60)
    life.until("nothing is left", stage.nothing_of_ours, 20)
    stage.figures[f"{name}_writes"] = float(life.writes)
    stage.delete(JOB, name)
    life.until("its Job is gone", lambda: stage.record.get(JOB, name, stage.namespace) is None, 30)
    return life.has_died


def _prepare(stage: Stage) -> None:
    stage.policy(deadlines={"provision": 3}, backoff={"baseSeconds": 1, "maxSeconds": 1})
    stage.queues()


@scenario("controller-killed-between-any-two-calls")
def killed_anywhere(stage: Stage) -> None:
    """kill -9 before and after each API write of a gang's life in turn; every life ends well."""
    _prepare(stage)
    with through_relay(stage) as relay:
        for before in (True, False):
            at = 1
            while _life(stage, relay, f"{'before' if before else 'after'}-{at}", Cut(at, before)):
                at += 1
            stage.expect(at > 5, f"a life of only {at - 1} writes: the relay did not see them")


@scenario("controller-killed-at-sampled-calls", in_test=True)
def killed_sampled(stage: Stage) -> None:
    """kill -9 at four sampled API writes of a gang's life; every life ends well."""
    _prepare(stage)
    with through_relay(stage) as relay:
        for at, before in ((2, True), (2, False), (3, False), (5, True)):
            name = f"{'before' if before else 'after'}-{at}"
            stage.expect(_life(stage, relay, name, Cut(at, before)), f"{name} did not crash")


@scenario("controller-killed-between-any-two-growth-calls")
def killed_growing(stage: Stage) -> None:
    """kill -9 before and after each write of a growth granted and one refused; nothing is hurt."""
    stage.policy(growth={"deadline": 3, "cooldown": {"baseSeconds": 2, "maxSeconds": 2}})
    stage.queues()
    stage.pools(stage.pool(max_=5))
    grower = begin(stage, elastic_group("small", 1), running={"small": 1})
    first = {p.meta.uid for p in grower.pods()}
    with through_relay(stage) as relay:
        for before in (True, False):
            at = 1
            while _growing(stage, relay, grower, Cut(at, before), first):
                at += 1
            stage.expect(at > 8, f"a life of only {at - 1} writes: the relay did not see them")


def _growing(stage: Stage, relay: Relay, grower: Grower, cut: Cut, first: set[str]) -> bool:
    """From one worker to three and back, then a wish that is refused; the first pods live on."""
    name = f"{'before' if cut.before else 'after'}-{cut.at}"
    stage.pools(stage.pool(max_=5))
    life = Life(stage, relay, name, cut)
    grower.wish(small=3)
    life.until("three run", lambda: grower.running("small") == 3, 60)
    life.until("the growth is settled", grower.is_settled, 30)
    extra = [p.meta.name for p in grower.pods("small") if p.meta.uid not in first]
    grower.shrink("small", extra, 1)
    life.until("one runs", lambda: len(grower.pods("small")) == 1, 30)
    life.until("it is remembered", lambda: grower.memory().group("small").admitted == 1, 10)
    stage.pools(stage.pool(max_=1))
    life.until("one node is left", lambda: len(stage.nodes()) == 1, 60)
    grower.wish(small=8)
    life.until("refused", grower.needs_withdrawal, 40)
    grower.withdraw()
    life.until("the slice is what it was", grower.is_settled, 30)
    life.until("the limit is given back", lambda: grower.most() == 10, 20)
    stage.figures[f"{name}_writes"] = float(life.writes)
    lost = first - {p.meta.uid for p in grower.pods()}
    stage.expect(not lost, f"{name}: {len(lost)} of the first pods are gone")
    return life.has_died
