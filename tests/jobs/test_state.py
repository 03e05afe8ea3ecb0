"""One table: what was read -> stage, reason, sentence, outcome."""

from __future__ import annotations

import pytest

from taugrid_ray import sentences
from taugrid_ray.jobs.model import JobState, Outcome
from taugrid_ray.jobs.observed import Observed, Part
from taugrid_ray.jobs.state import state_of
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.memory import Memory, Pause
from taugrid_ray.reasons import Reason, Stage
from tests.jobs.builders import (
    HEAD,
    SUBMITTER,
    T0,
    WORKER,
    check,
    event,
    job,
    pod,
    ray_job,
    request,
    seen,
    workload,
)

GANG = sentences.size([("gpu", 3)])
GROWING = sentences.growing(sentences.size([("gpu", 2)]), 1, "", T0 + 900)
ASKED = sentences.requested(GANG, "attempt 1 of 3", T0 + 900)
NO_ROOM = sentences.waiting(GANG, "attempt 1 of 3", "no node fits.", T0 + 900)
BOOKED = sentences.booked(GANG)
TIMED_OUT = sentences.timed_out(GANG, 900, "", "some-class")
RESERVED = {"QuotaReserved": "True"}
ADMITTED = {**RESERVED, "Admitted": "True"}
NO_QUOTA = {"QuotaReserved": ("False", "Pending", "insufficient quota for cpu, 2 more needed", 5.0)}
PARKED = Memory(
    Pause.PARKED,
    attempt=2,
    failures=1,
    reason=TIMED_OUT.reason.value,
    message=TIMED_OUT.sentence,
    at_s=T0 + 900,
    resume_at_s=T0 + 960,
)
GAVE_UP = Memory(
    Pause.GAVE_UP,
    attempt=3,
    failures=3,
    reason=TIMED_OUT.reason.value,
    message=TIMED_OUT.sentence,
    at_s=T0 + 900,
)
JOB, RUNS = job(), job(suspend=False)
RAY = ray_job()
RAY_STARTS = ray_job(suspend=False, deployment="Initializing", cluster="train-abc")
EVICTED = ("True", "Preempted", "Preempted to accommodate a workload", 50.0)


def _state(found: Observed, now_s: float = 100.0) -> JobState:
    return state_of(found, T0 + now_s)


@pytest.mark.parametrize(
    ("found", "stage", "reason", "sentence"),
    [
        pytest.param(
            seen(JOB), Stage.QUEUED, "WaitingForKueue", "waits for Kueue to take notice of it",
            id="a job without a Workload waits for Kueue",
        ),
        pytest.param(
            seen(job(queue="")), Stage.QUEUED, "NoQueue",
            "is suspended and has no queue label: nobody will start it",
            id="a suspended job without a queue is told that nobody starts it",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=NO_QUOTA)), Stage.QUEUED, "WaitingForQuota",
            'waits for quota in queue "team-a": insufficient quota for cpu, 2 more needed',
            id="waiting for quota says in which queue and Kueue's own words",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check(message=ASKED.sentence)])),
            Stage.PROVISIONING, "CapacityRequested", ASKED.sentence,
            id="the check's message is the sentence, word for word",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check(message=NO_ROOM.sentence)])),
            Stage.PROVISIONING, "WaitingForCapacity", NO_ROOM.sentence,
            id="no room yet",
        ),
        pytest.param(
            seen(JOB, w := workload(JOB, told=RESERVED, checks=[check()]), requests=[request(w)]),
            Stage.PROVISIONING, "CapacityRequested",
            'asked the autoscaler for 3 pods in pool "gpu"; no answer yet',
            id="before the controller speaks, the requests do",
        ),
        pytest.param(
            seen(
                JOB, w, requests=[
                    request(w, pool="a", pods=1, Provisioned="True"),
                    request(w, pool="b", pods=2, Provisioned=("False", "X", "no such pool", 9.0)),
                ],
            ),
            Stage.PROVISIONING, "WaitingForCapacity",
            'no room yet for 3 pods in 2 pools ("a": 1, "b": 2): no such pool',
            id="of two pools, the one without room speaks",
        ),
        pytest.param(
            seen(
                JOB,
                resumed := workload(
                    JOB, told={"QuotaReserved": ("True", "R", "", 60.0)},
                    checks=[check(message=NO_ROOM.sentence, seconds=20.0)],
                ),
                requests=[request(resumed)],
            ),
            Stage.PROVISIONING, "CapacityRequested",
            'asked the autoscaler for 3 pods in pool "gpu"; no answer yet',
            id="what the check said of the attempt before is not told of this one",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check(message="budget?", name="cost")])),
            Stage.PROVISIONING, "WaitingForCheck",
            'holds quota; waits for admission check "cost": budget?',
            id="somebody else's check is named",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check("Ready", BOOKED.sentence)])),
            Stage.PROVISIONING, "Admitting", "holds quota; Kueue is admitting it",
            id="all checks are ready and Kueue has not admitted yet",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told={**RESERVED, "Evicted": EVICTED})),
            Stage.QUEUED, "Preempted", "is being stopped: Preempted to accommodate a workload",
            id="an eviction under way",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told={**NO_QUOTA, "Evicted": EVICTED})),
            Stage.QUEUED, "Preempted",
            "was stopped (Preempted to accommodate a workload) and waits for quota in queue "
            '"team-a": insufficient quota for cpu, 2 more needed',
            id="a preempted job says so while it queues again",
        ),
        pytest.param(
            seen(RUNS, workload(RUNS, told=ADMITTED, checks=[check("Ready", BOOKED.sentence)])),
            Stage.STARTING_NODES, "CapacityProvisioned", BOOKED.sentence,
            id="booked is not ready",
        ),
        pytest.param(
            seen(
                RUNS, admitted := workload(
                    RUNS, told=ADMITTED, checks=[check("Ready", BOOKED.sentence)]
                ),
                pods=[pod(node="n1")],
            ),
            Stage.STARTING_PODS, "WaitingForPods", "0 of 3 pods ready",
            id="every pod that exists has a node: pods are starting",
        ),
        pytest.param(
            seen(
                RUNS, admitted,
                pods=[pod(node="n1", waiting=("ImagePullBackOff", "no such \x1b[31mimage"))],
            ),
            Stage.STARTING_PODS, "WaitingForPods",
            '0 of 3 pods ready; pod "train-0" is in ImagePullBackOff: no such  [31mimage',
            id="a pod that cannot start is named, its escapes gone",
        ),
        pytest.param(
            seen(
                RUNS, workload(RUNS, told=ADMITTED),
                events=[event("FailedCreate", "quota pods", seconds=9, warning=True, ours=False)],
            ),
            Stage.STARTING_PODS, "FailedCreate", "no pods: quota pods",
            id="no pod at all: the event says why",
        ),
        pytest.param(
            seen(RUNS, admitted, pods=[pod(f"p{i}", node="n", ready=True) for i in range(3)]),
            Stage.RUNNING, "Running", "3 pods ready",
            id="all pods are ready",
        ),
        pytest.param(
            seen(
                job(suspend=False, status={"ready": 1, "succeeded": 2, "failed": 1}),
                workload(RUNS, told=ADMITTED), pods=[pod(node="n", ready=True)],
            ),
            Stage.RUNNING, "Running", "1 pod ready, 2 succeeded, 1 failed",
            id="a job of which some pods have ended still runs",
        ),
        pytest.param(
            seen(
                RAY_STARTS,
                workload(RAY, told=ADMITTED, counts={"head": 1, "w": 2, "submitter": 1}),
                pods=[pod("h", node="n", ready=True, labels=HEAD),
                      pod("w0", node="n", ready=True, labels=WORKER),
                      pod("w1", node="n", ready=True, labels=WORKER)],
            ),
            Stage.STARTING_PODS, "WaitingForPods", "3 of 3 pods ready; Ray is starting",
            id="a rayjob's submitter is not waited for before Ray runs",
        ),
        pytest.param(
            seen(
                ray_job(suspend=False, deployment="Running", program="RUNNING"),
                workload(RAY, told=ADMITTED),
            ),
            Stage.RUNNING, "Running", "Ray says the program is RUNNING",
            id="a rayjob runs when Ray says so",
        ),
        pytest.param(
            seen(
                ray_job(suspend=False, deployment="Running", program="SUCCEEDED"),
                workload(RAY, told=ADMITTED),
            ),
            Stage.RUNNING, "Running",
            "its program has ended (SUCCEEDED); KubeRay is finishing the job",
            id="a program that has ended is not the end of the rayjob",
        ),
        pytest.param(
            seen(ray_job(suspend=False, deployment="Waiting"), workload(RAY, told=ADMITTED)),
            Stage.RUNNING, "WaitingForSubmission",
            "its Ray cluster runs and waits for somebody to submit the program",
            id="an interactive rayjob waits for its submission",
        ),
        pytest.param(
            seen(
                ray_job(suspend=False, deployment="Running", program="RUNNING"),
                workload(RAY, told={**ADMITTED, "Finished": "True"}, name="old"),
                workload(RAY, told=RESERVED, checks=[check()], name="slice", created_s=9.0),
            ),
            Stage.RUNNING, "Running", "Ray says the program is RUNNING",
            id="a growth slice that waits does not queue a running job",
        ),
        pytest.param(
            seen(RUNS, workload(RUNS, told=ADMITTED), pods=None),
            Stage.STARTING_PODS, "WaitingForPods", "has started, 0 ready; its pods cannot be read",
            id="pods that may not be read are told as that",
        ),
        pytest.param(
            seen(JOB, workloads=None, unavailable={Part.WORKLOADS: "forbidden"},
                 events=[event("CapacityRequested", ASKED.sentence, seconds=9)]),
            Stage.QUEUED, "CapacityRequested",
            f"is suspended; its Workload cannot be read, so why is unknown; last news: "
            f"{ASKED.sentence}",
            id="without Workloads the last event of ours speaks",
        ),
        pytest.param(
            seen(job(deletionTimestamp="2027-01-01T00:00:09Z"), workload(JOB, told=NO_QUOTA)),
            Stage.QUEUED, "Deleting", "is being deleted",
            id="a job on its way out",
        ),
    ],
)  # fmt: skip
def test_before_the_end(found: Observed, stage: Stage, reason: str, sentence: str) -> None:
    state = _state(found)
    assert (state.stage, state.reason, state.sentence) == (stage, reason, sentence)
    assert state.outcome is None
    assert not state.is_final


@pytest.mark.parametrize(
    ("told", "checks", "want"),
    [
        pytest.param(NO_QUOTA, [], "a larger slice waits for quota", id="no quota"),
        pytest.param(
            RESERVED, [check()], "a larger slice has quota and waits for its capacity", id="asked"
        ),
        pytest.param(
            RESERVED, [check(message=GROWING.sentence)], GROWING.sentence, id="in the same words"
        ),
        pytest.param(ADMITTED, [check(state="Ready")], "", id="granted"),
    ],
)
def test_growth_is_told_beside_the_state(
    told: dict[str, str], checks: list[Obj], want: str
) -> None:
    runs = ray_job(suspend=False, deployment="Running", program="RUNNING")
    old = workload(RAY, told={**ADMITTED, "Finished": "True"}, name="old")
    slice_ = workload(
        RAY, told=told, checks=checks, name="slice", created_s=9.0, replaces="default/old"
    )
    state = _state(seen(runs, old, slice_))
    assert (state.stage, state.growth) == (Stage.RUNNING, want)


def test_parked_says_why_and_until_when_as_the_controller_announced_it() -> None:
    found = seen(JOB, workload(JOB, active=False, told=NO_QUOTA, memory=PARKED))
    state = _state(found, 930)
    assert (state.stage, state.reason) == (Stage.PARKED, "ProvisioningTimedOut")
    assert state.sentence == sentences.parked(TIMED_OUT, "attempt 1", T0 + 960).sentence
    assert (state.attempt, state.since_s, state.until_s) == (1, T0 + 900, T0 + 960)
    assert state.hint == "or now: taugrid resume job/train -n default"
    assert not state.is_final

    announced = sentences.parked(TIMED_OUT, "attempt 1 of 3", T0 + 960)
    told = event(announced.reason.value, announced.sentence, seconds=900, warning=True)
    again = seen(JOB, workload(JOB, active=False, memory=PARKED), events=[told])
    assert _state(again, 930).sentence == announced.sentence


def test_a_moment_that_passed_long_ago_says_that_the_controller_is_silent() -> None:
    parked = seen(JOB, workload(JOB, active=False, memory=PARKED))
    assert "ask an administrator" in _state(parked, 960 + 61).hint
    waits = seen(JOB, workload(JOB, told=RESERVED, checks=[check(message=ASKED.sentence)]))
    assert _state(waits, 800).hint == ""
    assert "ask an administrator" in _state(waits, 961).hint


def test_gave_up_is_final_and_says_how_to_start_again() -> None:
    state = _state(seen(JOB, workload(JOB, active=False, memory=GAVE_UP)), 1000)
    assert (state.stage, state.outcome) == (Stage.GAVE_UP, Outcome.GAVE_UP)
    assert state.sentence == sentences.gave_up(TIMED_OUT, "attempt 3").sentence
    assert state.attempt == 3
    assert state.hint == "taugrid resume job/train -n default"


def test_inactive_by_somebody_else_is_not_final() -> None:
    told = {"Evicted": ("True", "Deactivated", "The workload is deactivated", 40.0)}
    state = _state(seen(JOB, workload(JOB, active=False, told=told)))
    assert (state.stage, state.outcome) == (Stage.PARKED, None)
    assert "by somebody" in state.sentence
    assert state.hint == "taugrid resume job/train -n default"


def test_kueue_giving_up_is_final() -> None:
    told = {"Evicted": ("True", "DeactivatedDueToRequeuingLimitExceeded", "too often", 40.0)}
    state = _state(seen(JOB, workload(JOB, active=False, told=told)))
    assert (state.outcome, state.sentence) == (Outcome.GAVE_UP, "Kueue gave up: too often")


def test_resumed_says_which_attempt_it_queues_for() -> None:
    memory = Memory(Pause.RESUMED, attempt=2, failures=1, at_s=T0 + 960)
    state = _state(seen(JOB, workload(JOB, told=NO_QUOTA, memory=memory)), 970)
    assert state.attempt == 2
    assert state.sentence.startswith('waits for quota in queue "team-a" for attempt 2: ')


def test_rejected_is_refused_for_good() -> None:
    final = sentences.gave_up(TIMED_OUT, "attempt 3 of 3").sentence
    rejected = workload(JOB, told=RESERVED, checks=[check("Rejected", final)])
    state = _state(seen(JOB, rejected))
    assert (state.outcome, state.reason) == (Outcome.REFUSED, Reason.GAVE_UP.value)
    assert state.sentence == final
    told = {"Evicted": ("True", "DeactivatedDueToAdmissionCheck", "rejected", 40.0)}
    later = _state(seen(JOB, workload(JOB, active=False, told=told)))
    assert (later.outcome, later.sentence) == (Outcome.REFUSED, "rejected")


@pytest.mark.parametrize(
    ("owner", "outcome", "reason", "sentence"),
    [
        pytest.param(
            job(status={"succeeded": 3}, ended={"Complete": "True"}),
            Outcome.SUCCEEDED, "Succeeded", "all of it succeeded (3 pods)", id="job complete",
        ),
        pytest.param(
            job(ended={"Failed": ("True", "BackoffLimitExceeded", "too many", 99.0)}),
            Outcome.FAILED, "BackoffLimitExceeded", "failed: BackoffLimitExceeded: too many",
            id="job failed",
        ),
        pytest.param(
            ray_job(deployment="Complete", program="SUCCEEDED"),
            Outcome.SUCCEEDED, "Succeeded", "its program succeeded", id="rayjob succeeded",
        ),
        pytest.param(
            ray_job(deployment="Failed", program="FAILED", reason="AppFailed", message="exit 1"),
            Outcome.FAILED, "AppFailed", "failed: AppFailed: exit 1", id="rayjob failed",
        ),
        pytest.param(
            ray_job(deployment="Complete", program="STOPPED"),
            Outcome.STOPPED, "Stopped", "its program was stopped by somebody", id="rayjob stopped",
        ),
        pytest.param(
            ray_job(deployment="ValidationFailed", message="bad spec"),
            Outcome.FAILED, "Failed", "failed: bad spec", id="rayjob that KubeRay refuses",
        ),
        pytest.param(
            None, Outcome.DELETED, "Deleted", "job default/train was deleted", id="gone",
        ),
    ],
)  # fmt: skip
def test_the_end(
    owner: dict[str, object] | None, outcome: Outcome, reason: str, sentence: str
) -> None:
    state = _state(seen(owner))
    assert state.stage is Stage.FINISHED
    assert (state.outcome, state.reason, state.sentence) == (outcome, reason, sentence)


def test_pods_are_counted_with_their_nodes() -> None:
    pods = [
        pod("a", node="n1", ready=True),
        pod("b", node="n1", phase="Succeeded"),
        pod("c", node="n2", ready=True),
        pod("d"),
    ]
    counts = _state(seen(RUNS, workload(RUNS, told=ADMITTED), pods=pods)).pods
    assert counts is not None
    assert (counts.expected, counts.created, counts.bound) == (3, 4, 3)
    assert (counts.ready, counts.ended, counts.nodes) == (2, 1, 2)


def test_the_submitter_is_no_pod_of_the_ray_cluster() -> None:
    pods = [pod("h", node="n", ready=True, labels=HEAD), pod("s", node="n", labels=SUBMITTER)]
    counts = {"head": 1, "submitter": 1}
    state = _state(seen(RAY_STARTS, workload(RAY, told=ADMITTED, counts=counts), pods=pods))
    assert state.sentence == "1 of 1 pod ready; Ray is starting"
