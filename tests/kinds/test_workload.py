"""Kueue's objects and ours on them: Workload, checks, queues, flavors, requests, pods, nodes."""

from __future__ import annotations

from typing import Any

import pytest

from taugrid_ray import names
from taugrid_ray.kinds.conditions import Condition, find, is_true, parse_conditions
from taugrid_ray.kinds.node import parse_node
from taugrid_ray.kinds.pod import parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.queues import (
    parse_admission_check,
    parse_cluster_queue,
    parse_resource_flavor,
)
from taugrid_ray.kinds.workload import CheckState, parse_workload

TEMPLATE = {"spec": {"schedulingGates": [{"name": names.GATE}], "containers": []}}
TRUE = {"status": "True", "lastTransitionTime": "2026-12-01T00:00:00Z"}


def workload(**status: Any) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    return {
        "metadata": {
            "name": "job-train",
            "namespace": "team",
            "uid": "w",
            "annotations": {names.ELASTIC: "true"},
            "ownerReferences": [{**owner, "uid": "x"}, {**owner, "controller": True}],
        },
        "spec": {
            "queueName": "q",
            "priority": 5,
            "podSets": [
                {"name": "head", "count": 1},
                {"name": "w", "count": 4, "template": TEMPLATE},
            ],
        },
        "status": {
            "admission": {
                "clusterQueue": "cq",
                "podSetAssignments": [{"name": "w", "count": 3, "flavors": {"cpu": "pool"}}],
            },
            "admissionChecks": [
                {"name": "other", "state": "Ready"},
                {
                    "name": "ours",
                    "state": "Pending",
                    "message": "m",
                    "podSetUpdates": [{"name": "w"}],
                },
            ],
            **status,
        },
    }


def test_a_workload() -> None:
    got = parse_workload(workload(conditions=[{"type": "QuotaReserved", **TRUE}]))
    assert (got.uid, got.queue, got.cluster_queue, got.priority, got.active) == (
        "w",
        "q",
        "cq",
        5,
        True,
    )
    assert got.is_elastic
    assert got.job is not None
    assert got.job.uid == "j"
    assert [(s.name, s.count, s.is_gated) for s in got.pod_sets] == [
        ("head", 1, False),
        ("w", 4, True),
    ]
    ours = got.check("ours")
    assert ours is not None
    assert (ours.index, ours.state, ours.message, ours.updates) == (
        1,
        CheckState.PENDING,
        "m",
        ({"name": "w"},),
    )
    assigned = got.assignment("w")
    assert assigned is not None
    assert (assigned.count, dict(assigned.flavors)) == (3, {"cpu": "pool"})
    assert got.assignment("head") is None
    assert got.check("absent") is None
    assert got.reservation is not None
    assert got.reservation.changed_at == TRUE["lastTransitionTime"]


def test_a_reservation_that_is_over_is_none() -> None:
    over = [{"type": "QuotaReserved", **TRUE, "status": "False"}]
    assert parse_workload(workload(conditions=over)).reservation is None


@pytest.mark.parametrize(
    ("active", "want"), [(None, True), (True, True), (False, False), ("false", True)]
)
def test_active_unless_it_says_otherwise(active: Any, want: bool) -> None:
    obj = workload()
    obj["spec"]["active"] = active
    assert parse_workload(obj).active is want


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        pytest.param({}, True, id="while a check is listed"),
        pytest.param({"admissionChecks": []}, False, id="without a check"),
        pytest.param({"conditions": [{"type": "Finished", **TRUE}]}, False, id="finished"),
    ],
)
def test_templates_are_kept_while_somebody_needs_them(status: dict[str, Any], kept: bool) -> None:
    got = parse_workload(workload(**status))
    assert (got.pod_sets[1].template == TEMPLATE) is kept
    assert got.pod_sets[1].is_gated


def test_a_state_of_a_later_kueue_reads_as_pending() -> None:
    got = parse_workload(workload(admissionChecks=[{"name": "ours", "state": "Dreaming"}]))
    assert [c.state for c in got.checks] == [CheckState.PENDING]


def test_a_pod_set_has_kueues_defaults() -> None:
    got = parse_workload({"spec": {"podSets": [{}, {"count": 0}]}})
    assert [(s.name, s.count) for s in got.pod_sets] == [("main", 1), ("main", 0)]
    assert got.job is None


def test_conditions() -> None:
    obj = {"status": {"conditions": [{"type": "A", **TRUE}, {"type": "B", "status": "Unknown"}, 7]}}
    found = parse_conditions(obj)
    assert found == (
        Condition("A", "True", changed_at="2026-12-01T00:00:00Z"),
        Condition("B", "Unknown"),
    )
    assert is_true(found, "A")
    assert not is_true(found, "B")
    assert not is_true(found, "C")
    assert find(found, "C") is None
    assert [c.changed_at_s for c in found] == [1796083200.0, 0.0]


def test_an_admission_check_and_its_queue() -> None:
    check = parse_admission_check(
        {
            "spec": {
                "controllerName": names.CONTROLLER,
                "parameters": {"apiGroup": "taugrid.io", "kind": "CapacityPolicy", "name": "p"},
            }
        }
    )
    assert check.controller == names.CONTROLLER
    assert (check.parameters_group, check.parameters_kind, check.parameters_name) == (
        "taugrid.io",
        "CapacityPolicy",
        "p",
    )
    rules = [{"name": "ours", "onFlavors": ["gpu"]}, {"name": "all"}]
    queue = parse_cluster_queue({"spec": {"admissionChecksStrategy": {"admissionChecks": rules}}})
    assert dict(queue.on_flavors) == {"ours": ("gpu",), "all": ()}


def test_a_flavor() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    got = parse_resource_flavor({"spec": {"nodeLabels": {"p": "g"}, "tolerations": [toleration]}})
    assert (dict(got.node_labels), got.tolerations) == ({"p": "g"}, (toleration,))


def test_a_provisioning_request() -> None:
    got = parse_provisioning_request(
        {
            "metadata": {"labels": {names.WORKLOAD_UID: "w"}},
            "spec": {
                "provisioningClassName": "c",
                "podSets": [
                    {"count": 2, "podTemplateRef": {"name": "a"}},
                    {"count": 3, "podTemplateRef": {"name": "b"}},
                ],
            },
        }
    )
    assert (got.class_name, got.pods, got.templates) == ("c", 5, ("a", "b"))
    assert got.workload_uid == "w"


@pytest.mark.parametrize(
    ("phase", "deleted", "live", "ended"),
    [
        ("", False, True, False),
        ("Pending", False, True, False),
        ("Running", False, True, False),
        ("Running", True, False, False),
        ("Succeeded", False, False, True),
        ("Failed", False, False, True),
        ("Unknown", False, True, False),
    ],
)
def test_a_pod(phase: str, deleted: bool, live: bool, ended: bool) -> None:
    meta: dict[str, Any] = {"annotations": {names.CONSUME: "b"}}
    if deleted:
        meta["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    conditions = [{"type": "Ready", **TRUE}, {"type": "Other", **TRUE}]
    got = parse_pod(
        {
            "metadata": meta,
            "spec": {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            "status": {"phase": phase, "conditions": conditions},
        }
    )
    assert (got.is_live, got.has_ended) == (live, ended)
    assert (got.booking, got.node, got.gates, got.is_ready) == ("b", "n", ("g",), True)


def test_a_node_is_the_same_after_a_heartbeat() -> None:
    def node(beat: str) -> Any:
        ready = {"type": "Ready", **TRUE, "lastHeartbeatTime": beat}
        return parse_node(
            {
                "metadata": {"name": "n", "labels": {"p": "g"}, "resourceVersion": beat},
                "spec": {"unschedulable": True},
                "status": {"conditions": [ready], "allocatable": {"cpu": "4"}},
            }
        )

    assert node("1") == node("2")
    got = node("1")
    assert (got.is_ready, got.unschedulable, dict(got.allocatable)) == (True, True, {"cpu": "4"})
    assert got.matches({})
    assert got.matches({"p": "g"})
    assert not got.matches({"p": "other"})
    assert not parse_node({}).is_ready
