"""What a running cluster loses while it grows or runs: quota, workers, its autoscaler, ours."""

from __future__ import annotations

from e2e.scenarios.grower import Grower, asked, asked_now, begin, same_pods, start
from e2e.scenarios.manifests import elastic_group, elastic_ray_job, job
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.pod import parse_pod
from taugrid_ray.kinds.resource import (
    CLUSTER_QUEUE,
    JOB,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    WORKLOAD_PRIORITY_CLASS,
    Obj,
)


@scenario("shrink-returns-quota")
def shrink(stage: Stage) -> None:
    """A cluster that lets idle workers go returns their quota, and grows again only by asking."""
    grower = start(stage, elastic_group("small", 3), running={"small": 3})
    idle = [p.meta.name for p in grower.pods("small")[:2]]
    grower.shrink("small", idle, 1)
    stage.wait_for("the slice is one worker", lambda: _count(grower) == 1, 20)
    stage.wait_for("one runs", lambda: len(grower.pods("small")) == 1, 30)
    stage.wait_for("it is remembered", lambda: grower.memory().group("small").admitted == 1, 10)
    requests = asked(stage)
    grower.shrink("small", [], 3)
    stage.wait_for("three run again", lambda: grower.running("small") == 3, 60)
    stage.expect(requests() == [2], f"the two are asked for again, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _count(grower: Grower) -> int:
    slices = grower.slices()
    return slices[0].pod_sets[1].count if len(slices) == 1 else -1


@scenario("grow-at-quota-edge")
def quota_edge(stage: Stage) -> None:
    """A wish beyond the quota waits for quota; nothing is asked for, and what runs runs on."""
    stage.policy()
    stage.queues([("cpu", {"cpu": "4"})])
    stage.pools(stage.pool())
    grower = begin(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=5)
        stage.wait_for("the larger slice waits", lambda: len(grower.slices()) == 2, 20)
        stage.never("it is asked for", requests, 5)
        queue = {"spec": {"resourceGroups": _quota(stage, "20")}}
        stage.api.patch(CLUSTER_QUEUE, stage.own("queue"), queue)
        stage.wait_for("five workers run", lambda: grower.running("small") == 5, 60)
        stage.expect(requests() == [4], f"one request for 4 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _quota(stage: Stage, cpu: str) -> list[Obj]:
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1000Gi"}]
    flavor = {"name": stage.own("cpu"), "resources": quotas}
    return [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}]


@scenario("node-dies-worker-replaced")
def node_dies(stage: Stage) -> None:
    """A lost worker comes back without a request, and without a booking's name on it."""
    grower = start(stage, elastic_group("small", 2), running={"small": 2})
    requests = asked(stage)
    lost = grower.pods("small")[0]
    stage.delete(POD, lost.meta.name)
    stage.wait_for(
        "another one runs in its place",
        lambda: grower.running("small") == 2 and lost.meta.uid not in _uids(grower),
        60,
    )
    stage.expect(not requests(), f"nothing may be asked for, found {requests()}")
    stage.expect(
        not any(
            p.booking
            for p in grower.pods("small")
            if p.meta.uid != lost.meta.uid
            and p.meta.created_at_s == max(q.meta.created_at_s or 0 for q in grower.pods("small"))
        ),
        "the new pod must not name an old booking",
    )


def _uids(grower: Grower) -> set[str]:
    return {p.meta.uid for p in grower.pods()}


@scenario("head-and-worker-replaced-while-growing")
def replaced_while_growing(stage: Stage) -> None:
    """Lost pods do not wait behind a growth that waits; the new ones stay held by our gate."""
    grower = start(stage, elastic_group("small", 2), running={"small": 2})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    grower.wish(small=9)
    stage.wait_for("seven are asked for", lambda: asked_now(stage) == [7], 20)
    lost = [grower.pods("headgroup")[0], grower.pods("small")[0]]
    for pod in lost:
        stage.delete(POD, pod.meta.name)
    gone = {p.meta.uid for p in lost}
    stage.wait_for(
        "head and worker are back",
        lambda: (
            not gone & _uids(grower)
            and grower.running("headgroup") == 1
            and grower.running("small") == 2
        ),
        60,
    )
    stage.expect(len(grower.gated("small")) == 7, "the seven new ones are still held")
    stage.pools(stage.pool(max_=5))
    stage.wait_for("nine run", lambda: grower.running("small") == 9, 60)
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("multi-host-replicas")
def multi_host(stage: Stage) -> None:
    """A replica of two hosts counts as two pods, and a limit in replicas."""
    group = elastic_group("pair", 1, hosts=2)
    grower = start(stage, group, running={"pair": 2}, deadline=4)
    requests = asked(stage)
    grower.wish(pair=2)
    stage.wait_for("four pods run", lambda: grower.running("pair") == 4, 60)
    stage.expect(requests() == [2], f"one request for the 2 pods of a replica, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(pair=6)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 40)
        stage.expect(grower.most() == 2, f"to 2 replicas, found {grower.most()}")
        grower.withdraw()
        stage.wait_for("the slice is what it was", grower.is_settled, 40)


@scenario("autoscaler-killed-while-growing")
def autoscaler_dead(stage: Stage) -> None:
    """Nobody withdraws a refused wish: after the grace time the controller does, in one patch."""
    grower = start(
        stage,
        elastic_group("small", 1),
        running={"small": 1},
        deadline=3,
        cooldown={"baseSeconds": 60, "maxSeconds": 60},
    )
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=8)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
        stage.wait_for("the controller withdraws", lambda: not grower.needs_withdrawal(), 60)
        stage.wait_for("it says so", lambda: stage.events("GrowthWithdrawn"), 10)
        stage.wait_for("the slice is what it was", grower.is_settled, 30)
        stage.expect(_count(grower) == 1, "one worker, as before")


@scenario("controller-down-while-growing")
def controller_down(stage: Stage) -> None:
    """Without the controller a growth waits and nothing is hurt; with it, it goes on."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        with stage.controller_down():
            grower.wish(small=4)
            stage.wait_for("the new slice waits", lambda: len(grower.gated("small")) == 3, 20)
            stage.never("a new worker starts", lambda: grower.running("small") > 1, 4)
        stage.wait_for("four workers run", lambda: grower.running("small") == 4, 60)
        stage.expect(requests() == [3], f"one request for 3 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("preempted-while-growing")
def preempted(stage: Stage) -> None:
    """A cluster preempted while it grows lets go of everything, and comes back."""
    stage.policy(growth={"deadline": 60})
    stage.create(WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": stage.own("high")}, "value": 1000})
    stage.queues([("cpu", {"cpu": "9"})], preemption={"withinClusterQueue": "LowerPriority"})
    stage.pools(stage.pool(max_=1))
    grower = begin(stage, elastic_group("small", 1), running={"small": 1})
    grower.wish(small=4)
    stage.wait_for("three are asked for", lambda: asked_now(stage) == [3], 20)
    high = job("high", pods=2, cpu="4")
    high["metadata"]["labels"][PRIORITY] = stage.own("high")
    stage.create(JOB, high)
    stage.wait_for("no pod is left", lambda: not grower.pods(), 60)
    stage.wait_for("no request of it is left", lambda: _of_cluster(stage) == [], 15)
    stage.pools(stage.pool(max_=5))
    stage.wait_for("the high Job is complete", lambda: stage.job_is(JOB, "high", "Complete"), 60)
    stage.wait_for(
        "it runs again, at the size it asks for", lambda: grower.running("small") == 4, 90
    )
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("grown-then-preempted-comes-back")
def comes_back(stage: Stage) -> None:
    """A RayJob that has grown and is preempted starts again with the size it was submitted with."""
    stage.policy(growth={"deadline": 60})
    stage.create(WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": stage.own("high")}, "value": 1000})
    stage.queues([("cpu", {"cpu": "9"})], preemption={"withinClusterQueue": "LowerPriority"})
    stage.pools(stage.pool(max_=5))
    stage.create(RAY_JOB, elastic_ray_job("train", [elastic_group("small", 1)]))
    first = stage.wait_for("its cluster is there", lambda: _cluster_of(stage, ""), 30)
    grower = Grower(stage, first)
    stage.wait_for("one worker runs", lambda: grower.running("small") == 1, 60)
    grower.wish(small=4)
    stage.wait_for("four run", lambda: grower.running("small") == 4, 60)
    high = job("high", pods=2, cpu="4")
    high["metadata"]["labels"][PRIORITY] = stage.own("high")
    stage.create(JOB, high)
    stage.wait_for(
        "it is preempted", lambda: not stage.record.get(RAY_CLUSTER, first, stage.namespace), 60
    )
    stage.wait_for("the high Job is complete", lambda: stage.job_is(JOB, "high", "Complete"), 60)
    second = stage.wait_for("it has a new cluster", lambda: _cluster_of(stage, first), 60)
    again = Grower(stage, second)
    stage.wait_for("one worker runs, as submitted", lambda: again.running("small") == 1, 60)
    stage.expect(len(again.pods("small")) == 1, "no more than one worker was submitted")
    stage.wait_for("nothing is left", stage.nothing_of_ours, 20)


def _cluster_of(stage: Stage, other_than: str) -> str:
    names_ = [parse_meta(o).name for o in stage.record.all(RAY_CLUSTER, stage.namespace)]
    return next((n for n in names_ if n != other_than), "")


PRIORITY = "kueue.x-k8s.io/priority-class"


def _of_cluster(stage: Stage) -> list[str]:
    return [r.meta.name for r in stage.requests() if names.CLUSTER_UID in r.meta.labels]


@scenario("fake-100-workers")
def hundred(stage: Stage) -> None:
    """A hundred workers in one growth: how long from Kueue's last gate to ours."""
    stage.policy(growth={"deadline": 120})
    stage.queues([("cpu", {"cpu": "200"})])
    stage.pools(stage.pool(max_=60))
    grower = begin(stage, elastic_group("small", 0, most=200, cpu="100m"), running={})
    grower.wish(small=100)
    mark = stage.record.mark()
    stage.wait_for(
        "no pod is held",
        lambda: len(grower.pods("small")) == 100 and not grower.gated("small"),
        120,
    )
    kueues, ours = _last_gates(stage, mark)
    stage.figures["kueue_last_gate_to_ours_s"] = round(ours - kueues, 3)
    stage.expect(ours - kueues <= 2.0, f"{ours - kueues:.1f} s from Kueue's last gate to ours")
    stage.wait_for("nothing is left of it", grower.is_settled, 60)


def _last_gates(stage: Stage, mark: int) -> tuple[float, float]:
    last = {names.ELASTIC: 0.0, names.GATE: 0.0}
    for seen in stage.record.since(mark):
        if seen.kind != POD or seen.obj is None or seen.before is None:
            continue
        lost = set(parse_pod(seen.before).gates) - set(parse_pod(seen.obj).gates)
        for gate in lost & set(last):
            last[gate] = seen.at_s
    return last[names.ELASTIC], last[names.GATE]
