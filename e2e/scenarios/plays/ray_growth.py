"""Growth that the real Ray autoscaler asks for, with real Ray on process nodes."""

from __future__ import annotations

import shlex

from e2e.cluster import Nodes
from e2e.logs import follow_logs
from e2e.scenarios.grower import Grower, asked
from e2e.scenarios.manifests import elastic_group, elastic_ray_job, on
from e2e.scenarios.plays.success import SLOW_S, job_status, submitter
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.resource import RAY_CLUSTER, RAY_JOB, Obj

TWO_TASKS = """
import ray, socket, time
ray.init()
@ray.remote(num_cpus=1)
def where(i):
    time.sleep(5)
    return socket.gethostname()
print("ran on", *sorted(set(ray.get([where.remote(i) for i in range(2)]))))
"""
"""Two tasks of one CPU each, which the head does not have: the autoscaler must find them."""

NODE = {"cpu": "2", "memory": "16Gi", "pods": "110"}


def submit(stage: Stage, program: str, groups: list[Obj], **spec: object) -> Grower:
    """The RayJob `train`, and its cluster once it is there."""
    entrypoint = f"python -c {shlex.quote(program)}"
    stage.create(RAY_JOB, elastic_ray_job("train", groups, entrypoint=entrypoint, **spec))
    name = stage.wait_for(
        "its cluster is there",
        lambda: [parse_meta(o).name for o in stage.record.all(RAY_CLUSTER, stage.namespace)],
        60,
    )[0]
    return Grower(stage, name)


def finish(stage: Stage) -> str:
    """What the program wrote, once the RayJob is SUCCEEDED; then all of it is deleted."""
    pod = stage.wait_for("the submitter runs", lambda: submitter(stage), SLOW_S)
    said = follow_logs(stage.cluster, stage.namespace, pod, timeout_s=SLOW_S)
    stage.wait_for("the RayJob is SUCCEEDED", lambda: job_status(stage) == "SUCCEEDED", SLOW_S)
    stage.delete(RAY_JOB, "train")
    stage.wait_for("no pod is left", lambda: not stage.pods(), 60)
    stage.wait_for("nothing of ours is left", stage.nothing_of_ours, 15)
    return said


@scenario("growth-success", nodes=Nodes.PROCESS, in_test=True)
def growth(stage: Stage) -> None:
    """Ray's own demand grows a RayJob from no worker to two: one request for both, SUCCEEDED."""
    stage.policy(deadlines={"nodes": 300, "pods": 300})
    stage.queues()
    stage.pools(stage.pool(allocatable=NODE, bootSeconds=1))
    grower = submit(stage, TWO_TASKS, [elastic_group("small", 0, most=4)])
    requests = asked(stage)
    stage.wait_for("two workers run", lambda: grower.running("small") == 2, SLOW_S)
    stage.expect(requests() == [2], f"one request for 2 pods, found {requests()}")
    workers = sorted(p.meta.name for p in grower.pods("small"))
    said = finish(stage)
    stage.expect(f"ran on {' '.join(workers)}" in said, f"not on {workers}: {said[-2000:]}")


@scenario("growth-refused-other-group", nodes=Nodes.PROCESS, in_test=True)
def other_group(stage: Stage) -> None:
    """The group that Ray prefers has no room: it turns to the other by itself, SUCCEEDED."""
    stage.policy(
        deadlines={"nodes": 300, "pods": 300},
        growth={"deadline": 5, "cooldown": {"baseSeconds": 300, "maxSeconds": 300}},
    )
    stage.queues([("a", {"cpu": "20"}), ("b", {"cpu": "20"})])
    stage.pools(
        stage.pool("a", allocatable=NODE, bootSeconds=1),
        stage.pool("b", allocatable=NODE, max_=0),
    )
    grower = submit(
        stage,
        TWO_TASKS,
        [
            on(elastic_group("full", 0, most=4, cpu="2"), {"pool": stage.own("b")}),
            on(elastic_group("free", 0, most=4), {"pool": stage.own("a")}),
        ],
    )
    stage.wait_for("a wish is there", lambda: grower.gated("full") or grower.gated("free"), SLOW_S)
    if not grower.gated("full"):
        # Ray packs into the group that fits best; then there is nothing to turn away from.
        stage.expect(False, "Ray asked for the group with room first: the scenario proves nothing")
    stage.wait_for("it is refused", lambda: stage.events("GrowthRefused"), 60)
    stage.wait_for("Ray has withdrawn it", lambda: not grower.pods("full"), 90)
    stage.wait_for("the other group runs", lambda: grower.running("free") >= 1, SLOW_S)
    stage.say(f"{grower.running('free')} workers of the other group")
    said = finish(stage)
    stage.expect("ran on" in said, f"no output: {said[-2000:]}")
