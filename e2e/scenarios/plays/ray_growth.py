"""Growth that the real Ray autoscaler asks for, with real Ray on process nodes."""

from __future__ import annotations

import shlex

from e2e.cluster import Nodes
from e2e.logs import follow_logs
from e2e.scenarios.grower import Grower, asked, same_pods
from e2e.scenarios.manifests import elastic_group, elastic_ray_job, on
from e2e.scenarios.plays.success import SLOW_S, job_status, submitter
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.rayjob import parse_rayjob
from taugrid_ray.kinds.resource import RAY_CLUSTER, RAY_JOB, WORKLOAD, Obj
from taugrid_ray.kinds.workload import FINISHED, parse_workload

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


MORE_THAN_THERE_IS = """
import ray, time
ray.init()
@ray.remote(num_cpus=1)
def work(i):
    time.sleep(8)
    return i
print("sum", sum(ray.get([work.remote(i) for i in range(6)])))
"""
"""Six tasks for which one worker is enough, and more would be quicker."""


@scenario("growth-refused-job-goes-on", nodes=Nodes.PROCESS)
def goes_on(stage: Stage) -> None:
    """No room for more: the job finishes on what it has, and its pods are the same throughout."""
    stage.policy(
        deadlines={"nodes": 300, "pods": 300},
        growth={"deadline": 5, "cooldown": {"baseSeconds": 300, "maxSeconds": 300}},
    )
    stage.queues()
    stage.pools(stage.pool(allocatable=NODE, max_=2, bootSeconds=1))
    grower = submit(stage, MORE_THAN_THERE_IS, [elastic_group("small", 1, most=4)])
    stage.wait_for("one worker runs", lambda: grower.running("small") == 1, SLOW_S)
    with same_pods(grower):
        stage.wait_for("it wants more", lambda: grower.gated("small"), SLOW_S)
        stage.wait_for("it is refused", lambda: stage.events("GrowthRefused"), 60)
        stage.wait_for("Ray has withdrawn it", lambda: not grower.gated("small"), 90)
    said = finish(stage)
    stage.expect("sum 15" in said, f"no result: {said[-2000:]}")


ENDS_BEFORE = """
import ray, time
ray.init()
@ray.remote(num_cpus=1)
def work():
    time.sleep(600)
wanted = [work.remote() for i in range(4)]
time.sleep(25)
print("enough")
"""
"""Asks for what is not there, and ends without it."""


@scenario("finish-while-growing", nodes=Nodes.PROCESS)
def finish_while_growing(stage: Stage) -> None:
    """The job ends while its growth waits: the waiting slice lets go of its quota."""
    stage.policy(deadlines={"nodes": 300, "pods": 300}, growth={"deadline": 600})
    stage.queues()
    stage.pools(stage.pool(allocatable=NODE, max_=2, bootSeconds=1))
    grower = submit(stage, ENDS_BEFORE, [elastic_group("small", 1, most=4)])
    stage.wait_for("its growth waits", lambda: grower.gated("small"), SLOW_S)
    stage.wait_for("it is asked for", lambda: stage.requests(), 20)
    stage.wait_for("the RayJob is SUCCEEDED", lambda: job_status(stage) == "SUCCEEDED", SLOW_S)
    stage.wait_for("no slice holds quota", lambda: not _holding(stage), 30)
    stage.wait_for("nothing of ours is left", stage.nothing_of_ours, 15)


def _holding(stage: Stage) -> list[str]:
    found = [parse_workload(o) for o in stage.record.all(WORKLOAD, stage.namespace)]
    return [w.meta.name for w in found if w.reservation and not w.is_true(FINISHED)]


@scenario("rayjob-retry-is-a-new-gang", nodes=Nodes.PROCESS)
def retry(stage: Stage) -> None:
    """A retried RayJob's new cluster is a new gang: its workers are booked before they start."""
    stage.policy(deadlines={"nodes": 300, "pods": 300}, growth={"deadline": 120})
    stage.queues()
    stage.pools(stage.pool(allocatable=NODE, bootSeconds=1))
    fails = "import sys; sys.exit('as it should')"
    first = submit(stage, fails, [elastic_group("small", 1, most=4)], backoffLimit=1)
    stage.wait_for("its first worker runs", lambda: first.running("small") == 1, SLOW_S)
    requests = asked(stage)
    second = stage.wait_for(
        "it has a second cluster",
        lambda: [
            name
            for o in stage.record.all(RAY_CLUSTER, stage.namespace)
            if (name := parse_meta(o).name) != first.name
        ],
        SLOW_S,
    )[0]
    again = Grower(stage, second)
    stage.wait_for("its worker runs again", lambda: again.running("small") == 1, SLOW_S)
    stage.expect(requests() == [1], f"one request for its worker, found {requests()}")
    stage.wait_for("the second try has failed as well", lambda: _has_failed(stage), SLOW_S)


def _has_failed(stage: Stage) -> bool:
    found = stage.record.get(RAY_JOB, "train", stage.namespace)
    return found is not None and parse_rayjob(found).has_failed
