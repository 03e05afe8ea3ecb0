"""Capacity and quota together: pauses hold none, preemption takes the asking along."""

from __future__ import annotations

from e2e.scenarios.manifests import job
from e2e.scenarios.plays.timeouts import parked
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.resource import JOB, Obj
from taugrid_ray.kinds.workload import EVICTED


@scenario("backoff-holds-no-quota", in_test=True)
def backoff_holds_no_quota(stage: Stage) -> None:
    """While one gang pauses between attempts, a second one gets its quota and runs."""
    stage.policy(deadlines={"provision": 4}, backoff={"baseSeconds": 25, "maxSeconds": 25})
    stage.queues([("cpu", {"cpu": "6"})])
    stage.pools(stage.pool(max_=1))
    stage.create(JOB, job("large", pods=2, cpu="3"))
    stage.wait_for("the large gang waits for capacity", stage.requests)
    stage.create(JOB, job("small", pods=1, cpu="3"))
    stage.wait_for("the large gang is parked", lambda: parked(stage, "large"))
    stage.wait_for("the small Job is complete", lambda: stage.job_is(JOB, "small", "Complete"), 24)
    stage.expect(parked(stage, "large"), "the large gang must still be in its pause")


@scenario("preempted-while-provisioning")
def preempted(stage: Stage) -> None:
    """A gang preempted while it waits for capacity lets go of its request and comes back."""
    stage.policy()
    for name, value in (("low", 10), ("high", 1000)):
        stage.create(
            kinds.WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": stage.own(name)}, "value": value}
        )
    stage.queues([("cpu", {"cpu": "6"})], preemption={"withinClusterQueue": "LowerPriority"})
    stage.pools(stage.pool(max_=1))
    stage.create(JOB, _prioritised(stage, job("low", pods=2, cpu="3"), "low"))
    first = stage.wait_for("the low one waits for capacity", stage.requests)[0]
    stage.create(JOB, _prioritised(stage, job("high", pods=1, cpu="4"), "high"))
    stage.wait_for("the low one is preempted", lambda: _evicted(stage, "low"))
    stage.wait_for("its request is gone", lambda: _is_gone(stage, first.meta.name), 10)
    stage.pools(stage.pool(max_=3))
    stage.wait_for("the high Job is complete", lambda: stage.job_is(JOB, "high", "Complete"), 60)
    stage.wait_for("the low Job is complete", lambda: stage.job_is(JOB, "low", "Complete"), 60)
    stage.expect(stage.memory("low").failures == 0, "a preemption is no failed attempt")


def _is_gone(stage: Stage, request: str) -> bool:
    return request not in {r.meta.name for r in stage.requests()}


def _prioritised(stage: Stage, made: Obj, priority: str) -> Obj:
    made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = stage.own(priority)
    return made


def _evicted(stage: Stage, name: str) -> bool:
    workload = stage.workload(name)
    return workload is not None and workload.is_true(EVICTED)


@scenario("unmanaged-queue-left-alone")
def unmanaged_queue(stage: Stage) -> None:
    """On a queue without our check nothing of ours happens."""
    stage.policy()
    stage.queues(checks=[])
    stage.pools(stage.pool(min=3))
    stage.create(JOB, job("train"))
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)
    _untouched(stage)


@scenario("builtin-check-left-alone")
def builtin_check(stage: Stage) -> None:
    """On a queue with Kueue's own provisioning check we stand back."""
    stage.policy()
    stage.create(
        kinds.PROVISIONING_REQUEST_CONFIG,
        {
            "metadata": {"name": stage.own("config")},
            "spec": {
                "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                "managedResources": ["cpu"],
            },
        },
    )
    stage.create(
        kinds.ADMISSION_CHECK,
        {
            "metadata": {"name": stage.own("builtin")},
            "spec": {
                "controllerName": names.BUILTIN_CONTROLLER,
                "parameters": {
                    "apiGroup": kinds.PROVISIONING_REQUEST_CONFIG.group,
                    "kind": kinds.PROVISIONING_REQUEST_CONFIG.kind,
                    "name": stage.own("config"),
                },
            },
        },
    )
    stage.queues(checks=[{"name": stage.own("builtin")}])
    stage.pools(stage.pool())
    stage.create(JOB, job("train"))
    stage.wait_for("Kueue's own request exists", stage.requests)
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)
    _untouched(stage)


def _untouched(stage: Stage) -> None:
    from taugrid_ray.kinds.meta import parse_meta

    ours = [
        f"{seen.kind.kind} {seen.key.name}"
        for seen in stage.record.since(stage.mark)
        if seen.key.namespace == stage.namespace
        and (
            parse_meta(seen.some).labels.get(names.MANAGED_BY) == names.MANAGED_BY_US
            or names.WORKLOAD_UID in parse_meta(seen.some).labels
            or names.MEMORY in parse_meta(seen.some).annotations
        )
    ]
    stage.expect(not ours, f"ours on a queue that is not: {ours}")
