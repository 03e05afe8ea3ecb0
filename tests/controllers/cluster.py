"""A small cluster on the pretend API server: one queue, one check, one policy, one flavor."""

from __future__ import annotations

from typing import Any

from taugrid_ray import names
from taugrid_ray.kinds.resource import (
    ADMISSION_CHECK,
    CAPACITY_POLICY,
    CLUSTER_QUEUE,
    JOB,
    PROVISIONING_REQUEST,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Obj,
    Resource,
)
from tests.controllers.builders import CHECK, Gang, flavor
from tests.fake_kube import FakeKube


def obj(kind: Resource, name: str, spec: Obj, **meta: Any) -> Obj:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **meta},
        "spec": spec,
    }


def set_up(kube: FakeKube, **policy: Any) -> None:
    """What an administrator writes; the policy under the name `policy`."""
    parameters = {"apiGroup": "taugrid.io", "kind": "CapacityPolicy", "name": "policy"}
    check = {"controllerName": names.CONTROLLER, "parameters": parameters}
    kube.create(ADMISSION_CHECK, obj(ADMISSION_CHECK, CHECK, check))
    kube.create(CLUSTER_QUEUE, obj(CLUSTER_QUEUE, "queue", {}))
    kube.create(CAPACITY_POLICY, obj(CAPACITY_POLICY, "policy", policy))
    kube.create(RESOURCE_FLAVOR, flavor("pool", {"pool": "pool"}))


def add_gang(kube: FakeKube, name: str = "train") -> Obj:
    """A suspended Job whose Workload holds quota; our check is Pending."""
    job = obj(JOB, name, {"suspend": True}, namespace="team", labels={names.QUEUE: "queue"})
    uid = kube.create(JOB, job)["metadata"]["uid"]
    workload = Gang(reserved_s=kube.clock.now_s()).workload()
    status = workload.pop("status")
    meta = {"name": f"job-{name}", "namespace": "team"}
    owner = {**workload["metadata"]["ownerReferences"][0], "name": name, "uid": uid}
    kube.create(WORKLOAD, {**workload, "metadata": {**meta, "ownerReferences": [owner]}})
    return kube.patch(WORKLOAD, f"job-{name}", {"status": status}, "team", sub="status")


def answer(kube: FakeKube, *conditions: Obj) -> None:
    """The autoscaler's word on every request."""
    for request in kube.objects(PROVISIONING_REQUEST):
        body = {"status": {"conditions": list(conditions)}}
        kube.patch(PROVISIONING_REQUEST, request["metadata"]["name"], body, "team", sub="status")


def check_of(kube: FakeKube, name: str = "train") -> Obj:
    (entry,) = kube.get(WORKLOAD, f"job-{name}", "team")["status"]["admissionChecks"]
    return entry  # type: ignore[no-any-return]
