"""Capacity that does not come: deadlines, attempts, giving up."""

from __future__ import annotations

from e2e.scenarios.manifests import job, ray_job
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.resource import JOB, RAY_JOB
from taugrid_ray.kinds.workload import CheckState
from taugrid_ray.memory import Pause


def parked(stage: Stage, name: str, reason: str = "") -> bool:
    memory = stage.memory(name)
    workload = stage.workload(name)
    return (
        memory.pause is Pause.PARKED
        and workload is not None
        and not workload.active
        and (not reason or memory.reason == reason)
    )


def gave_up(stage: Stage, name: str) -> bool:
    return stage.memory(name).pause is Pause.GAVE_UP


def holds_no_quota(stage: Stage, name: str) -> bool:
    workload = stage.workload(name)
    return workload is not None and workload.reservation is None


@scenario("job-timeout", in_test=True)
def job_timeout(stage: Stage) -> None:
    """A Job without room is parked at its deadline, and runs in its second attempt."""
    stage.policy(deadlines={"provision": 6})
    stage.queues()
    stage.pools(stage.pool(max_=1))
    stage.create(JOB, job("train", pods=3, cpu="3"))
    stage.wait_for("a request exists", stage.requests)
    stage.wait_for(
        "it is parked, with the clock's name",
        lambda: parked(stage, "train", "ProvisioningTimedOut"),
    )
    stage.wait_for("its requests are gone", stage.nothing_of_ours, 10)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "train"), 10)
    stage.expect(stage.events("ProvisioningTimedOut"), "no ProvisioningTimedOut event on the Job")
    stage.pools(stage.pool(max_=3))
    stage.wait_for("the second attempt asks again", lambda: _attempt(stage) == "2")
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)
    stage.wait_for("request and templates are gone", stage.nothing_of_ours, 10)


def _attempt(stage: Stage) -> str:
    return max((r.label(names.ATTEMPT) for r in stage.requests()), default="")


@scenario("rayjob-timeout", in_test=True)
def rayjob_timeout(stage: Stage) -> None:
    """A RayJob that asks for a shorter deadline itself ends its one attempt by that one."""
    stage.policy(steps=[{"attempts": 1}])
    stage.queues()
    stage.pools(stage.pool(max_=0))
    own = {names.PROVISION_DEADLINE: "4"}
    stage.create(RAY_JOB, ray_job("train", entrypoint="python -c 1", annotations=own))
    request = stage.wait_for("a request exists", stage.requests)[0]
    stage.expect(request.pods == 4, f"head, 2 workers and submitter, found {request.pods}")
    stage.wait_for("it gave up", lambda: gave_up(stage, "train"), 20)
    stage.expect("within 4 s" in stage.memory("train").message, stage.memory("train").message)
    stage.wait_for("its requests are gone", stage.nothing_of_ours, 10)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "train"), 10)
    stage.expect(not stage.pods(), "no pod may have started")


@scenario("gives-up-after-last-attempt", in_test=True)
def gives_up(stage: Stage) -> None:
    """After its last attempt a gang stays parked and says how to start it; or is Rejected."""
    stage.policy(steps=[{"attempts": 2}], deadlines={"provision": 3}, backoff={"baseSeconds": 2})
    stage.queues()
    stage.pools(stage.pool(max_=0))
    stage.create(JOB, job("train"))
    stage.wait_for("the first attempt is parked", lambda: parked(stage, "train"))
    stage.wait_for("it gave up", lambda: gave_up(stage, "train"), 30)
    told = stage.wait_for("it says so on the Job", lambda: stage.events("GaveUp"))[0]
    stage.expect("taugrid resume" in told["note"], f"the event must say how: {told['note']}")
    stage.wait_for("its requests are gone", stage.nothing_of_ours, 10)
    stage.never("it starts again by itself", stage.requests, 6)

    stage.pools(stage.pool(max_=3))
    workload = stage.workload("train")
    assert workload is not None
    stage.patch(kinds.WORKLOAD, workload.meta.name, {"spec": {"active": True}})
    stage.wait_for("started by hand, it counts from 1", lambda: _attempt(stage) == "1")
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)

    stage.api.patch(kinds.CAPACITY_POLICY, stage.own("policy"), {"spec": {"onGiveUp": "Reject"}})
    stage.pools(stage.pool(max_=0))
    stage.wait_for("the node is gone again", lambda: not stage.nodes(), 30)
    stage.create(JOB, job("other"))
    stage.wait_for("the other is Rejected", lambda: _was_rejected(stage, "other"), 60)
    stage.wait_for("its requests are gone", stage.nothing_of_ours, 10)
    stage.wait_for("its quota is free", lambda: holds_no_quota(stage, "other"), 10)


def _was_rejected(stage: Stage, name: str) -> bool:
    """Kueue resets the check soon after; the record still has it."""
    from e2e.scenarios.record import of_kind
    from taugrid_ray.kinds.workload import parse_workload

    for seen in of_kind(stage.record.since(stage.mark), kinds.WORKLOAD):
        if seen.obj is None or seen.key.namespace != stage.namespace:
            continue
        workload = parse_workload(seen.obj)
        check = workload.check(stage.check)
        if (
            workload.job is not None
            and workload.job.name == name
            and check is not None
            and check.state is CheckState.REJECTED
        ):
            return True
    return False


@scenario("class-not-served")
def class_not_served(stage: Stage) -> None:
    """A provisioning class that nobody serves is named at the deadline."""
    nobody = "nobody.example.com"
    stage.policy(
        steps=[{"provisioningClassName": nobody, "attempts": 1}], deadlines={"provision": 4}
    )
    stage.queues()
    stage.pools(stage.pool())
    stage.create(JOB, job("train"))
    stage.wait_for("a request exists", stage.requests)
    stage.wait_for("it gave up", lambda: gave_up(stage, "train"), 20)
    message = stage.memory("train").message
    stage.expect(f"does anything serve the class {nobody}?" in message, message)


@scenario("second-step-served")
def second_step_served(stage: Stage) -> None:
    """When the attempts of the first step are used up, the second step's class is asked."""
    stage.policy(
        steps=[{"provisioningClassName": "nobody.example.com", "attempts": 1}, {"attempts": 1}],
        deadlines={"provision": 4},
    )
    stage.queues()
    stage.pools(stage.pool())
    stage.create(JOB, job("train"))
    stage.wait_for("the first step is parked", lambda: parked(stage, "train"))
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)


@scenario("missing-pod-template")
def missing_pod_template(stage: Stage) -> None:
    """A request whose template somebody deleted fails at once; the next attempt succeeds."""
    stage.policy()
    stage.queues()
    stage.pools(stage.pool(), answerDelaySeconds=3)
    stage.create(JOB, job("train"))
    stage.wait_for("a request exists", stage.requests)
    template = stage.wait_for("its template exists", stage.templates)[0]
    stage.delete(kinds.POD_TEMPLATE, template)
    stage.wait_for(
        "the attempt fails at once", lambda: parked(stage, "train", "ProvisioningFailed"), 20
    )
    stage.expect("missing" in stage.memory("train").message, stage.memory("train").message)
    stage.wait_for("the Job is complete", lambda: stage.job_is(JOB, "train", "Complete"), 60)
