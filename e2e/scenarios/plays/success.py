"""A gang that gets what it asked for, from zero nodes."""

from __future__ import annotations

import shlex

from e2e.cluster import Nodes
from e2e.logs import follow_logs
from e2e.scenarios.manifests import job, ray_job
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.pod import RUNNING, SUCCEEDED, parse_pod
from taugrid_ray.kinds.rayjob import parse_rayjob
from taugrid_ray.kinds.resource import JOB, RAY_JOB
from taugrid_ray.names import RAY_NODE_TYPE

SPREAD = """
import ray, socket
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as On
ray.init()
group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=120)
name = ray.remote(lambda: socket.gethostname())
tasks = [name.options(scheduling_strategy=On(group, i)).remote() for i in range(2)]
print("ran on", *sorted(ray.get(tasks)))
print("CPUs", *sorted(int(n["Resources"].get("CPU", 0)) for n in ray.nodes()))
"""
"""A task on each of two nodes, which say who they are; and the CPUs that Ray sees on each node."""


@scenario("job-success", in_test=True)
def job_success(stage: Stage) -> None:
    """A 3-pod Job goes from no nodes through quota, one request and new nodes to Complete."""
    stage.policy()
    stage.queues()
    stage.pools(stage.pool(bootSeconds=1))
    stage.expect(not stage.nodes(), "the pool must be empty at the start")
    stage.create(JOB, job("train", pods=3, cpu="2"))
    request = stage.wait_for("one request exists", stage.requests)[0]
    stage.expect(request.pods == 3, f"one request for 3 pods, found {request.pods}")
    stage.wait_for("the check is Ready", lambda: _state(stage) == "Ready")
    stage.wait_for("two nodes are there", lambda: len(stage.nodes()) == 2)
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)
    stage.wait_for("request and templates are gone", stage.nothing_of_ours, 10)
    stage.expect(stage.events("CapacityProvisioned"), "no CapacityProvisioned event on the Job")
    stage.delete(JOB, "train")
    stage.wait_for("the pool is empty again", lambda: not stage.nodes(), 60)


def _state(stage: Stage) -> str:
    check = stage.our_check("train")
    return check.state.value if check else ""


@scenario("rayjob-success", nodes=Nodes.PROCESS, in_test=True)
def rayjob_success(stage: Stage) -> None:
    """A RayJob with real Ray, head and 2 workers, goes from no nodes to SUCCEEDED in one gang."""
    stage.policy(deadlines={"nodes": 300, "pods": 300})
    stage.queues()
    two_cpus = {"cpu": "2", "memory": "16Gi", "pods": "110"}
    stage.pools(stage.pool(allocatable=two_cpus, bootSeconds=1))
    stage.expect(not stage.nodes(), "the pool must be empty at the start")
    stage.create(RAY_JOB, ray_job("train", entrypoint=f"python -c {shlex.quote(SPREAD)}"))
    request = stage.wait_for("one request exists", stage.requests)[0]
    stage.expect(request.pods == 4, f"want head, submitter, 2 workers, found {request.pods} pods")
    stage.expect(not stage.pods(), "a pod before the booking")
    stage.wait_for("the check is Ready", lambda: _state(stage) == "Ready")
    stage.wait_for("two nodes are there", lambda: len(stage.nodes()) == 2)
    stage.wait_for("head and workers run", lambda: len(_ray_pods(stage)) == 3, SLOW_S)
    workers = _ray_pods(stage, "worker")
    pod = stage.wait_for("the submitter runs", lambda: submitter(stage), SLOW_S)
    said = follow_logs(stage.cluster, stage.namespace, pod, timeout_s=SLOW_S)
    stage.wait_for("the RayJob is SUCCEEDED", lambda: job_status(stage) == "SUCCEEDED", SLOW_S)
    stage.expect(f"ran on {' '.join(workers)}" in said, f"not on {workers}: {said[-2000:]}")
    stage.expect("CPUs 0 1 1" in said, f"Ray saw other CPUs than its pods have: {said[-2000:]}")
    stage.say(f"it ran on both workers: {' '.join(workers)}")
    stage.wait_for("request and templates are gone", stage.nothing_of_ours, 10)
    stage.expect(stage.events("CapacityProvisioned"), "no CapacityProvisioned event on the RayJob")
    stage.delete(RAY_JOB, "train")
    stage.wait_for("no pod is left", lambda: not stage.pods(), 60)
    stage.wait_for("the pool is empty again", lambda: not stage.nodes(), 60)


SLOW_S = 300.0
"""Ray starts in half a minute on two idle cores, and in minutes on busy ones."""


def job_status(stage: Stage) -> str:
    """Fails the scenario where Ray says that the job did: it will not get better."""
    found = stage.record.get(RAY_JOB, "train", stage.namespace)
    if found is None:
        return ""
    told = parse_rayjob(found)
    stage.expect(not told.has_failed, f"it is {told.job_status}: {told.reason} {told.message}")
    return told.job_status


def _ray_pods(stage: Stage, *roles: str) -> list[str]:
    """Names of the pods of these roles that are ready; of head and workers by default."""
    pods = [p for p in map(parse_pod, stage.pods()) if p.is_ready]
    wanted = roles or ("head", "worker")
    return sorted(p.meta.name for p in pods if p.meta.labels.get(RAY_NODE_TYPE) in wanted)


def submitter(stage: Stage) -> str:
    pods = [p for p in map(parse_pod, stage.pods()) if RAY_NODE_TYPE not in p.meta.labels]
    return next((p.meta.name for p in pods if p.phase in (RUNNING, SUCCEEDED)), "")
