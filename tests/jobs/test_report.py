"""The JSON of a job, and the phases in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taugrid_ray import sentences
from taugrid_ray.jobs.observed import Observed, Part
from taugrid_ray.jobs.report import list_report, report_of
from taugrid_ray.jobs.state import state_of
from taugrid_ray.memory import Memory, Pause
from tests.jobs.builders import (
    HEAD,
    T0,
    WORKER,
    check,
    job,
    pod,
    ray_job,
    request,
    seen,
    workload,
)

BOOKED = sentences.booked(sentences.size([("gpu", 3)])).sentence
ASKED = sentences.requested("3 pods", "attempt 1 of 3", T0 + 900).sentence
RESERVED = {"QuotaReserved": "True"}
ADMITTED = {**RESERVED, "Admitted": "True"}
JOB, RUNS, RAY = job(), job(suspend=False), ray_job()


def _report(found: Observed) -> dict[str, Any]:
    return report_of(found, state_of(found, T0 + 100))


def _phases(found: Observed) -> dict[str, str]:
    return {p["name"]: p["status"] for p in _report(found)["phases"]}


def test_it_has_the_shape_that_taugrid_reads() -> None:
    w = workload(JOB, told=RESERVED, checks=[check(message=ASKED)])
    report = _report(seen(JOB, w, requests=[request(w)]))
    assert report["schemaVersion"] == "v1alpha1"
    assert (report["name"], report["namespace"], report["kind"]) == ("train", "default", "Job")
    assert report["state"] == "Pending (suspended; Kueue not yet admitted)"
    assert (report["stage"], report["reason"]) == ("Provisioning", "CapacityRequested")
    assert report["message"] == ASKED
    assert report["degraded"] is False
    assert report["observations"]["job"] == {"status": "observed", "reason": ""}
    assert report["observations"]["pods"] == {"status": "notFound", "reason": ""}
    assert report["rayJob"] is None
    assert report["job"]["suspend"] is True
    (found,) = report["workloads"]
    assert (found["phase"], found["admitted"]) == ("QuotaReserved", False)
    assert found["admissionChecks"] == [
        {
            "name": "capacity",
            "state": "Pending",
            "controller": "",
            "message": ASKED,
            "lastTransitionTime": "2027-01-01T00:00:20Z",
        }
    ]
    (asked,) = report["requests"]
    assert (asked["name"], asked["pool"], asked["pods"]) == ("train-gpu-1", "gpu", 3)
    assert asked["verdict"] == "Silent"
    json.dumps(report)


@pytest.mark.parametrize("found", [seen(JOB), seen(RAY), seen(None)], ids=["job", "ray", "gone"])
def test_lists_are_never_null(found: Observed) -> None:
    report = _report(found)
    for name in ("phases", "workloads", "requests", "pods"):
        assert isinstance(report[name], list)


def test_what_could_not_be_read_is_unavailable_and_never_not_found() -> None:
    found = seen(JOB, pods=None, workloads=None, unavailable={Part.WORKLOADS: "no right",
                                                              Part.PODS: "no right"})  # fmt: skip
    report = _report(found)
    assert report["degraded"] is True
    assert report["observations"]["workloads"] == {"status": "unavailable", "reason": "no right"}
    assert report["workloads"] == []
    assert report["podCounts"] is None


def test_requests_that_may_not_be_read_do_not_degrade() -> None:
    found = seen(JOB, workload(JOB), requests=(), unavailable={Part.REQUESTS: "no right"})
    report = _report(found)
    assert report["degraded"] is False
    assert report["observations"]["requests"]["status"] == "unavailable"


PARKED = Memory(Pause.PARKED, failures=1, message="why", at_s=T0, resume_at_s=T0 + 60)


@pytest.mark.parametrize(
    ("found", "admission", "capacity"),
    [
        pytest.param(seen(JOB), "active", "skipped", id="no Workload yet"),
        pytest.param(seen(JOB, workload(JOB)), "active", "pending", id="waits for quota"),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check(message=ASKED)])),
            "done", "active", id="Pending is active",
        ),
        pytest.param(
            seen(RUNS, workload(RUNS, told=ADMITTED, checks=[check("Ready", BOOKED)])),
            "done", "done", id="Ready is done",
        ),
        pytest.param(
            seen(JOB, workload(JOB, told=RESERVED, checks=[check("Rejected", ASKED)])),
            "done", "warning", id="Rejected is a warning",
        ),
        pytest.param(
            seen(RUNS, workload(RUNS, told=ADMITTED)), "done", "skipped", id="no check: skipped",
        ),
        pytest.param(
            seen(JOB, workload(JOB, active=False, memory=PARKED)), "pending", "warning",
            id="parked: capacity failed, admission comes again",
        ),
        pytest.param(
            seen(job(queue="")), "warning", "skipped", id="no queue",
        ),
    ],
)  # fmt: skip
def test_admission_and_capacity(found: Observed, admission: str, capacity: str) -> None:
    phases = _phases(found)
    assert (phases["Kueue admission"], phases["Capacity provisioning"]) == (admission, capacity)


def test_capacity_comes_after_admission_and_before_the_ray_cluster() -> None:
    names = list(_phases(seen(RAY, workload(RAY))))
    assert names == [
        "Submitted", "Kueue admission", "Capacity provisioning", "RayCluster", "Pod scheduling",
        "Container start", "Ready", "RayJob",
    ]  # fmt: skip


def test_pods_go_through_their_phases() -> None:
    starts = ray_job(suspend=False, deployment="Initializing", cluster="train-abc")
    pods = [
        pod("h", node="n", phase="Running", ready=True, labels=HEAD),
        pod("w", labels=WORKER, unscheduled="0/3 nodes"),
    ]
    found = seen(starts, workload(RAY, told=ADMITTED), pods=pods)
    phases = _phases(found)
    assert phases["RayCluster"] == "active"
    assert phases["Pod scheduling"] == "warning"
    assert phases["Container start"] == "active"
    assert _report(found)["state"] == "Initializing"


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (seen(job(suspend=False, status={"succeeded": 3}, ended={"Complete": "True"})), "Complete"),
        (seen(job(ended={"Failed": "True"})), "Failed"),
        (seen(None), "Failed"),
        (seen(RUNS, workload(RUNS, told=ADMITTED)), "Admitted (no active pods yet)"),
        (seen(ray_job(suspend=False, deployment="Running")), "Running"),
    ],
)
def test_headlines(found: Observed, headline: str) -> None:
    assert _report(found)["state"] == headline


def test_a_list_has_a_version_and_the_head_of_each_report() -> None:
    found = seen(JOB, workload(JOB))
    report = list_report([(found, state_of(found, T0))])
    assert report["schemaVersion"] == "v1alpha1"
    (item,) = report["items"]
    assert (item["name"], item["stage"], item["outcome"]) == ("train", "Queued", "")
    assert list_report([])["items"] == []
