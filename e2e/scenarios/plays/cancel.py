"""People who change their minds: cancel, deactivate."""

from __future__ import annotations

from e2e.scenarios.manifests import job, ray_job
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds.resource import JOB, RAY_CLUSTER, RAY_JOB, WORKLOAD, Obj, Resource


def _cancel_twice(stage: Stage, kind: Resource, first: Obj, second: Obj, pods: int) -> None:
    stage.policy()
    stage.queues()
    stage.pools(stage.pool(max_=0))
    stage.create(kind, first)
    stage.wait_for("it waits for capacity", stage.requests)
    stage.delete(kind, first["metadata"]["name"])
    stage.wait_for("nothing of it is left", lambda: _gone(stage), 10)

    stage.pools(stage.pool())
    stage.create(kind, second)
    stage.wait_for(f"{pods} pods run", lambda: _running(stage) == pods, 60)
    stage.delete(kind, second["metadata"]["name"])
    stage.wait_for("nothing of it is left", lambda: _gone(stage), 60)
    stage.wait_for("its nodes go", lambda: not stage.nodes(), 60)


def _gone(stage: Stage) -> bool:
    kinds = (WORKLOAD, RAY_CLUSTER)
    there = any(stage.record.all(kind, stage.namespace) for kind in kinds)
    return stage.nothing_of_ours() and not stage.pods() and not there


def _running(stage: Stage) -> int:
    return sum(1 for p in stage.pods() if p.get("status", {}).get("phase") == "Running")


@scenario("job-cancel", in_test=True)
def job_cancel(stage: Stage) -> None:
    """A Job deleted while it waits for capacity, and one deleted while it runs, leave nothing."""
    waits, runs = job("waits"), job("runs", seconds=600)
    _cancel_twice(stage, JOB, waits, runs, 3)


@scenario("rayjob-cancel", in_test=True)
def rayjob_cancel(stage: Stage) -> None:
    """A RayJob deleted while it waits for capacity, and while it runs, leaves nothing."""
    waits = ray_job("waits", entrypoint="python -c 1", mode="HTTPMode")
    runs = ray_job("runs", entrypoint="python -c 1", mode="HTTPMode")
    _cancel_twice(stage, RAY_JOB, waits, runs, 3)


@scenario("user-deactivates", in_test=True)
def user_deactivates(stage: Stage) -> None:
    """A user's own `active: false` ends the asking and is never undone by us."""
    stage.policy(backoff={"baseSeconds": 2, "maxSeconds": 2})
    stage.queues()
    stage.pools(stage.pool(max_=0))
    stage.create(JOB, job("train"))
    stage.wait_for("it waits for capacity", stage.requests)
    workload = stage.workload("train")
    assert workload is not None
    stage.patch(WORKLOAD, workload.meta.name, {"spec": {"active": False}})
    stage.wait_for("its requests are gone", stage.nothing_of_ours, 10)
    stage.never("it is activated again", lambda: _active(stage), 8)
    stage.pools(stage.pool())
    stage.patch(WORKLOAD, workload.meta.name, {"spec": {"active": True}})
    stage.wait_for("asked for, as the first attempt", lambda: _attempts(stage) == ["1"])
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)


def _active(stage: Stage) -> bool:
    workload = stage.workload("train")
    return workload is not None and workload.active


def _attempts(stage: Stage) -> list[str]:
    return [r.label(names.ATTEMPT) for r in stage.requests()]
