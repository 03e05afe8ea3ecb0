"""Booked, but not there: nodes that never come up, GPUs that never show, annotations that stay."""

from __future__ import annotations

from e2e.scenarios.manifests import job
from e2e.scenarios.plays.timeouts import holds_no_quota, parked
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.pod import RUNNING, parse_pod
from taugrid_ray.kinds.resource import JOB, NODE

GPU = "nvidia.com/gpu"
GPU_NODE = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}


@scenario("nodes-never-ready", in_test=True)
def nodes_never_ready(stage: Stage) -> None:
    """Booked nodes that never become Ready end the attempt; the next one gets good nodes."""
    stage.policy(deadlines={"nodes": 6})
    stage.queues()
    stage.pools(stage.pool(readySeconds="never"))
    stage.create(JOB, job("train"))
    stage.wait_for("the check is Ready: booked", lambda: _is_ready(stage))
    stage.wait_for("the gang is parked", lambda: parked(stage, "train", "NodesTimedOut"))
    stage.wait_for("it says so on the Job", lambda: stage.events("NodesTimedOut"), 10)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "train"), 10)
    stage.pools(stage.pool())
    for node in stage.nodes():
        stage.api.delete(NODE, parse_meta(node).name)
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)


@scenario("gpus-never-advertised")
def gpus_never_advertised(stage: Stage) -> None:
    """Nodes that are Ready without their GPUs end the attempt by the accelerators clock."""
    stage.policy(managedResources=[GPU], deadlines={"accelerators": 5}, steps=[{"attempts": 1}])
    stage.queues([("gpu", {"cpu": "100", GPU: "16"})])
    pool = stage.pool("gpu", allocatable=GPU_NODE, withoutAccelerators="never")
    stage.pools(pool)
    made = job("train", pods=2)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"] = {GPU: "4"}
    stage.create(JOB, made)
    stage.wait_for("the nodes are Ready", lambda: len(_ready_nodes(stage)) == 2)
    stage.wait_for(
        "it gave up by that clock", lambda: stage.memory("train").reason == "AcceleratorsTimedOut"
    )
    stage.expect(GPU in stage.memory("train").message, stage.memory("train").message)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "train"), 10)


@scenario("nodes-ready-holds-admission")
def nodes_ready(stage: Stage) -> None:
    """With readyWhen: NodesReady a booked gang is not admitted before its nodes are Ready."""
    stage.policy(readyWhen="NodesReady", deadlines={"nodes": 30})
    stage.queues()
    stage.pools(stage.pool(readySeconds=8))
    stage.create(JOB, job("train", cpu="3"))
    stage.wait_for("it is booked", lambda: _says(stage, "booked 3 pods"))
    stage.expect(not _is_ready(stage), "Ready before its nodes")
    stage.expect(not stage.pods(), "a pod before the nodes")
    stage.wait_for("three nodes are Ready", lambda: len(_ready_nodes(stage)) == 3, 60)
    stage.wait_for("the check is Ready", lambda: _is_ready(stage), 10)
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)


@scenario("stale-consume-annotation", in_test=True)
def stale_annotation(stage: Stage) -> None:
    """A replaced pod does not keep the name of a booking that is over, and gets a new node."""
    stage.policy()
    stage.queues()
    stage.pools(stage.pool(max_=3))
    stage.create(JOB, job("train", pods=2, cpu="3", seconds=600))
    stage.wait_for("two pods run", lambda: len(_running(stage)) == 2, 60)
    stage.wait_for("the booking is used and gone", stage.nothing_of_ours, 15)
    lost = parse_meta(stage.nodes()[0]).name
    stage.api.delete(NODE, lost)
    stage.say(f"node {lost} is lost")
    # Kubernetes' collector lets a lost node's pods be for 40 s, and looks every 20 s.
    stage.wait_for("its pod is replaced by one without the annotation", lambda: _freed(stage), 120)
    stage.wait_for("two pods run again, on other nodes", lambda: _moved(stage, lost), 60)


def _freed(stage: Stage) -> bool:
    pods = [parse_pod(p) for p in stage.pods()]
    return any(not p.booking and names.WORKLOAD_UID in p.meta.labels for p in pods)


def _moved(stage: Stage, lost: str) -> bool:
    running = _running(stage)
    return len(running) == 2 and lost not in running


def _running(stage: Stage) -> list[str]:
    pods = [parse_pod(p) for p in stage.pods()]
    return [p.node for p in pods if p.phase == RUNNING and p.is_live]


def _ready_nodes(stage: Stage) -> list[str]:
    from taugrid_ray.kinds.node import parse_node

    pools = {stage.own("cpu"), stage.own("gpu")}
    nodes = [parse_node(n) for n in stage.record.all(NODE)]
    return [n.name for n in nodes if n.is_ready and n.labels.get("pool") in pools]


def _is_ready(stage: Stage) -> bool:
    check = stage.our_check("train")
    return check is not None and check.state.value == "Ready"


def _says(stage: Stage, text: str) -> bool:
    check = stage.our_check("train")
    return check is not None and text in check.message
