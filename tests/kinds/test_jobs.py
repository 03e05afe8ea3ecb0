"""Job, RayJob and RayCluster as the API server has them: their counts, and what a state means."""

from __future__ import annotations

from typing import Any

import pytest

from taugrid_ray.gang import load_manifests
from taugrid_ray.kinds.job import parse_job, pods_at_once
from taugrid_ray.kinds.raycluster import WorkerGroup, parse_raycluster
from taugrid_ray.kinds.rayjob import RayJob, parse_rayjob
from taugrid_ray.kinds.strict import INT32_MAX
from tests.cases.folder import content


@pytest.mark.parametrize(
    ("parallelism", "completions", "want"),
    [(None, None, 1), (5, None, 5), (50, 1, 1), (2, 7, 2), (0, 3, 0), (3, 0, 0)],
)
def test_pods_at_once(parallelism: int | None, completions: int | None, want: int) -> None:
    assert pods_at_once(parallelism, completions) == want


def ended(type_: str, **more: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": type_, "status": "True", **more}]}}


@pytest.mark.parametrize(
    ("obj", "finished", "failed", "reason"),
    [
        pytest.param({}, False, False, "", id="new"),
        pytest.param(ended("Complete", reason="Done"), True, False, "Done", id="complete"),
        pytest.param(
            ended("Failed", reason="DeadlineExceeded"), True, True, "DeadlineExceeded", id="failed"
        ),
        pytest.param(ended("Suspended", reason="JobSuspended"), False, False, "", id="suspended"),
        pytest.param(ended("FailureTarget", reason="x"), False, False, "", id="about to fail"),
    ],
)
def test_a_jobs_end(obj: dict[str, Any], finished: bool, failed: bool, reason: str) -> None:
    got = parse_job(obj)
    assert (got.is_finished, got.has_failed, got.reason) == (finished, failed, reason)


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({}, False),
        ({"active": 3}, False),
        ({"ready": 1}, True),
        ({"succeeded": 1}, True),
        ({"failed": 1}, True),
    ],
)
def test_a_job_has_started_once_a_pod_was_ready_or_ended(
    status: dict[str, int], started: bool
) -> None:
    assert parse_job({"status": status}).entrypoint_started is started


def test_a_job() -> None:
    got = parse_job(
        {
            "spec": {
                "suspend": True,
                "parallelism": 4,
                "completions": 9,
                "completionMode": "Indexed",
            },
            "status": {"startTime": "1970-01-01T00:00:10Z", "active": 2},
        }
    )
    assert (got.is_suspended, got.pods_at_once, got.completion_mode, got.active) == (
        True,
        4,
        "Indexed",
        2,
    )
    assert (got.started_at_s, got.ended_at_s) == (10.0, None)


def rayjob(deployment: str, job: str = "", *, suspend: bool = False) -> RayJob:
    status = {"jobDeploymentStatus": deployment, "jobStatus": job}
    return parse_rayjob({"spec": {"suspend": suspend}, "status": status})


@pytest.mark.parametrize(
    ("got", "finished", "failed", "started"),
    [
        pytest.param(rayjob(""), False, False, False, id="new"),
        pytest.param(rayjob("Initializing"), False, False, False, id="its cluster starts"),
        pytest.param(rayjob("Running", "PENDING"), False, False, False, id="handed over"),
        pytest.param(rayjob("Running", "RUNNING"), False, False, True, id="runs"),
        pytest.param(rayjob("Waiting"), False, False, False, id="waits for a submission"),
        pytest.param(rayjob("Complete", "SUCCEEDED"), True, False, True, id="good"),
        pytest.param(rayjob("Complete", "FAILED"), True, True, True, id="the program failed"),
        pytest.param(rayjob("Complete", "STOPPED"), True, False, True, id="stopped"),
        pytest.param(rayjob("Failed", "FAILED"), True, True, True, id="failed"),
        pytest.param(rayjob("Failed", "RUNNING"), True, True, True, id="failed while it ran"),
        pytest.param(rayjob("ValidationFailed"), True, True, False, id="refused"),
        pytest.param(rayjob("Retrying", "FAILED"), False, False, True, id="tried again"),
        pytest.param(rayjob("Suspending", "RUNNING"), False, False, True, id="being suspended"),
        pytest.param(rayjob("Dreaming", "DREAMING"), False, False, False, id="of a later version"),
    ],
)
def test_a_rayjobs_states(got: RayJob, finished: bool, failed: bool, started: bool) -> None:
    assert (got.is_finished, got.has_failed, got.entrypoint_started) == (finished, failed, started)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (rayjob("", suspend=True), True),
        (rayjob("Suspended", suspend=True), True),
        (rayjob("Suspending", suspend=True), False),
        (rayjob("Suspended"), False),
    ],
)
def test_a_rayjob_is_suspended_once_nothing_of_it_is_left(got: RayJob, want: bool) -> None:
    assert got.is_suspended is want


def test_a_rayjob_that_was_stopped() -> None:
    assert rayjob("Complete", "STOPPED").was_stopped
    assert not rayjob("Running", "STOPPED").was_stopped


def test_the_states_that_rayjobs_were_seen_in() -> None:
    """Case 53's file: none is misread, one of a later version included."""
    found = {
        got.meta.name: (got.is_finished, got.has_failed)
        for got in map(parse_rayjob, load_manifests(content("odd/53-status-moments")))
    }
    assert found == {
        "validation-failed": (True, True),
        "retrying": (False, False),
        "waiting": (False, False),
        "suspending": (False, False),
        "failed-but-running": (False, False),
        "no-job-status": (False, False),
        "future-status": (False, False),
    }


@pytest.mark.parametrize(
    ("group", "wanted", "counted"),
    [
        pytest.param(WorkerGroup("w", 3), 3, 3, id="as written"),
        pytest.param(WorkerGroup("w", 3, num_of_hosts=4), 12, 12, id="hosts"),
        pytest.param(WorkerGroup("w", 9, max_replicas=4, num_of_hosts=2), 8, 18, id="capped"),
        pytest.param(WorkerGroup("w", 0, min_replicas=2), 2, 0, id="raised"),
        pytest.param(WorkerGroup("w", 3, is_suspended=True), 0, 3, id="suspended"),
    ],
)
def test_pods_of_a_group(group: WorkerGroup, wanted: int, counted: int) -> None:
    assert (group.wanted_pods, group.counted_pods) == (wanted, counted)


def test_a_raycluster() -> None:
    got = parse_raycluster(
        {
            "spec": {
                "enableInTreeAutoscaling": True,
                "workerGroupSpecs": [
                    {
                        "groupName": "GPU",
                        "replicas": 2,
                        "scaleStrategy": {"workersToDelete": ["a", "b"]},
                    },
                    {"groupName": "cpu", "numOfHosts": 0},
                ],
            },
            "status": {
                "state": "ready",
                "head": {"serviceName": "ray-head-svc", "podName": "ray-head"},
                "desiredWorkerReplicas": 2,
                "readyWorkerReplicas": 1,
            },
        }
    )
    gpu, cpu = got.groups
    assert (gpu.pod_set, gpu.workers_to_delete, gpu.max_replicas) == ("gpu", ("a", "b"), INT32_MAX)
    assert (cpu.replicas, cpu.num_of_hosts) == (0, 1)
    assert got.group("GPU") is gpu
    assert got.group("gpu") is None
    assert (got.is_ready, got.is_suspended, got.is_autoscaling) == (True, False, True)
    assert (got.head_service, got.head_pod) == ("ray-head-svc", "ray-head")
    assert (got.desired_workers, got.ready_workers) == (2, 1)


def test_a_cluster_is_suspended_by_its_state_or_its_condition() -> None:
    assert parse_raycluster({"status": {"state": "suspended"}}).is_suspended
    assert parse_raycluster(ended("RayClusterSuspended")).is_suspended
    assert not parse_raycluster(ended("RayClusterSuspending")).is_suspended
