"""A gang that gets what it asked for, from zero nodes."""

from __future__ import annotations

from e2e.scenarios.manifests import job
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.resource import JOB


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
