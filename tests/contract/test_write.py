"""Create, patch, replace and delete: what they answer, keep and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from taugrid_ray.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, ServerFault
from taugrid_ray.kinds.resource import (
    CONFIG_MAP,
    JOB,
    LEASE,
    NODE,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    Obj,
)
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.kube.delta import version_of

from .conftest import Cluster, config_map, pod, provisioning_request


def test_create_gives_identity(api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    assert made["data"] == {"a": "1"}
    assert made["kind"] == "ConfigMap"
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"]) == (name, ns)
    assert len(meta["uid"]) == 36
    assert version_of(made) > 0
    assert meta["creationTimestamp"].endswith("Z")
    assert "generation" not in meta
    assert api.get(CONFIG_MAP, name, ns)["metadata"]["uid"] == meta["uid"]


def test_what_the_server_sets_cannot_be_set_by_a_create(api: KubeApi, ns: str, name: str) -> None:
    obj = config_map(name)
    obj["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    meta = api.create(CONFIG_MAP, obj, ns)["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")


def test_create_twice(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name), ns)
    with pytest.raises(AlreadyExists):
        api.create(CONFIG_MAP, config_map(name), ns)


def test_create_generates_a_name(api: KubeApi, ns: str, name: str) -> None:
    obj: Obj = {"metadata": {"generateName": f"{name}-"}}
    first, second = api.create(CONFIG_MAP, obj, ns), api.create(CONFIG_MAP, obj, ns)
    assert first["metadata"]["name"].startswith(f"{name}-")
    assert first["metadata"]["name"] != second["metadata"]["name"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({"name": "Not_a_name"}, Invalid, id="a name that is none"),
        pytest.param({"name": "x" * 254}, Invalid, id="a name that is too long"),
        pytest.param({"name": ""}, ApiError, id="no name"),
        pytest.param({"resourceVersion": "5"}, ServerFault, id="a version on a new object"),
        pytest.param({"namespace": "another"}, ApiError, id="a namespace that is not the URL's"),
        pytest.param({"labels": {"a": "x" * 64}}, Invalid, id="a label value that is too long"),
        pytest.param({"annotations": {"a": 1}}, ApiError, id="an annotation that is no string"),
    ],
)
def test_create_refuses(
    api: KubeApi, ns: str, name: str, change: Obj, error: type[ApiError]
) -> None:
    with pytest.raises(error):
        api.create(CONFIG_MAP, {"metadata": {"name": name} | change}, ns)


def test_create_in_a_namespace_that_does_not_exist(api: KubeApi, name: str) -> None:
    with pytest.raises(NotFound):
        api.create(CONFIG_MAP, config_map(name), f"no-{name}")


def test_a_custom_object_says_its_kind(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    obj = provisioning_request(name)
    del obj["kind"]
    with pytest.raises(ApiError) as refused:
        api.create(PROVISIONING_REQUEST, obj, ns)
    assert refused.value.status == 400


def test_dry_run_leaves_nothing(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, a="1"), ns, dry_run=True)
    assert made["data"] == {"a": "1"}
    assert cluster.is_gone(CONFIG_MAP, name)
    api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    answered = api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns, dry_run=True)
    assert answered["data"] == {"a": "2"}
    assert api.get(CONFIG_MAP, name, ns)["data"] == {"a": "1"}


def test_status_is_cut_off_where_it_is_a_subresource(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    obj = provisioning_request(name) | {"status": {"conditions": [_condition("Provisioned")]}}
    made = api.create(PROVISIONING_REQUEST, obj, ns)
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    with pytest.raises(NotFound):
        api.patch(POD_TEMPLATE, name, {"status": {}}, ns, sub="status")


def test_a_node_brings_its_status_along(api: KubeApi, name: str) -> None:
    node = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}}
    try:
        assert api.create(NODE, node)["status"]["allocatable"] == {"cpu": "4"}
        api.patch(NODE, name, {"status": {"allocatable": {"cpu": "5"}}})
        assert api.get(NODE, name)["status"]["allocatable"] == {"cpu": "4"}
        api.patch(NODE, name, {"status": {"allocatable": {"cpu": "5"}}}, sub="status")
        assert api.get(NODE, name)["status"]["allocatable"] == {"cpu": "5"}
    finally:
        api.delete(NODE, name)


def test_merge_patch(api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, {"l": "1"}, a="1", b="2"), ns)
    got = api.patch(
        CONFIG_MAP, name, {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"m": "2"}}}, ns
    )
    assert got["data"] == {"b": "2", "c": "3"}
    assert got["metadata"]["labels"] == {"l": "1", "m": "2"}
    assert version_of(got) > version_of(made)
    assert got["metadata"]["uid"] == made["metadata"]["uid"]
    gone = api.patch(CONFIG_MAP, name, {"metadata": {"labels": None}}, ns)
    assert "labels" not in gone["metadata"]


def test_a_patch_that_changes_nothing_keeps_the_version(api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    assert version_of(api.patch(CONFIG_MAP, name, {"data": {"a": "1"}}, ns)) == version_of(made)


def test_merge_patch_with_an_old_version(api: KubeApi, ns: str, name: str) -> None:
    old = api.create(CONFIG_MAP, config_map(name, a="1"), ns)["metadata"]["resourceVersion"]
    api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns)
    body = {"metadata": {"resourceVersion": old}, "data": {"a": "3"}}
    with pytest.raises(Conflict):
        api.patch(CONFIG_MAP, name, body, ns)
    assert api.get(CONFIG_MAP, name, ns)["data"] == {"a": "2"}


def test_patch_of_what_does_not_exist(api: KubeApi, ns: str, name: str) -> None:
    with pytest.raises(NotFound):
        api.patch(CONFIG_MAP, name, {"data": {"a": "1"}}, ns)


def test_a_uid_cannot_be_patched(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name), ns)
    with pytest.raises(Invalid):
        api.patch(CONFIG_MAP, name, {"metadata": {"uid": "another"}}, ns)


def _json(api: KubeApi, ns: str, name: str, *operations: Obj) -> Obj:
    return api.patch(CONFIG_MAP, name, list(operations), ns, how=Patch.JSON)


def test_json_patch(api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, {"a/b": "1"}, a="1"), ns)
    got = _json(
        api,
        ns,
        name,
        {"op": "test", "path": "/metadata/resourceVersion", "value": str(version_of(made))},
        {"op": "test", "path": "/metadata/labels/a~1b", "value": "1"},
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "replace", "path": "/data/a", "value": "3"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["e.org/a", "e.org/c"]},
        {"op": "add", "path": "/metadata/finalizers/1", "value": "e.org/b"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "e.org/d"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    )
    assert got["data"] == {"a": "3", "b": "2"}
    assert got["metadata"]["finalizers"] == ["e.org/b", "e.org/c", "e.org/d"]
    _json(api, ns, name, {"op": "remove", "path": "/metadata/finalizers"})


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        pytest.param({"op": "test", "path": "/data/a", "value": "9"}, Conflict, id="other value"),
        pytest.param({"op": "test", "path": "/data/z", "value": "9"}, Conflict, id="missing key"),
        pytest.param({"op": "test", "path": "/x/y/z", "value": "9"}, Conflict, id="missing path"),
        pytest.param({"op": "test", "path": "/metadata/finalizers/0", "value": "9"}, Conflict,
                     id="an item of a list that is not there"),
        pytest.param({"op": "remove", "path": "/data/z"}, Invalid, id="remove of a missing key"),
        pytest.param({"op": "add", "path": "/x/y", "value": "9"}, Invalid, id="add below nothing"),
        pytest.param({"op": "nonsense", "path": "/data/a"}, Invalid, id="no such operation"),
    ],
)  # fmt: skip
def test_json_patch_that_does_not_fit(
    api: KubeApi, ns: str, name: str, operation: Obj, error: type[ApiError]
) -> None:
    made = api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    with pytest.raises(error):
        _json(api, ns, name, {"op": "add", "path": "/data/b", "value": "2"}, operation)
    assert version_of(api.get(CONFIG_MAP, name, ns)) == version_of(made)


def test_json_patch_may_test_for_absence(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    absent = {"op": "test", "path": "/data/b", "value": None}
    add = {"op": "add", "path": "/data/b", "value": "2"}
    assert _json(api, ns, name, absent, add)["data"] == {"a": "1", "b": "2"}
    with pytest.raises(Conflict):
        _json(api, ns, name, absent, add)


def test_json_patch_replaces_a_key_that_is_missing(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    got = _json(api, ns, name, {"op": "replace", "path": "/data/b", "value": "2"})
    assert got["data"] == {"a": "1", "b": "2"}


def test_status_has_its_own_door(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    api.create(PROVISIONING_REQUEST, provisioning_request(name), ns)
    body: Obj = {
        "metadata": {"annotations": {"a": "1"}},
        "status": {"conditions": [_condition("Accepted")]},
    }
    got = api.patch(PROVISIONING_REQUEST, name, body, ns)
    assert "status" not in got
    assert got["metadata"]["annotations"] == {"a": "1"}
    body["metadata"]["annotations"]["a"] = "2"
    got = api.patch(PROVISIONING_REQUEST, name, body, ns, sub="status")
    assert got["status"]["conditions"][0]["type"] == "Accepted"
    assert got["metadata"]["annotations"] == {"a": "1"}
    assert got["metadata"]["generation"] == 1
    got = api.patch(PROVISIONING_REQUEST, name, {"metadata": {"labels": {"x": "y"}}}, ns)
    assert got["status"]["conditions"][0]["type"] == "Accepted"


def test_a_provisioning_request_is_what_it_was_made(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    with pytest.raises(Invalid):
        api.create(PROVISIONING_REQUEST, provisioning_request(name, count=0), ns)
    api.create(PROVISIONING_REQUEST, provisioning_request(name), ns)
    change = [{"op": "replace", "path": "/spec/podSets/0/count", "value": 3}]
    with pytest.raises(Invalid):
        api.patch(PROVISIONING_REQUEST, name, change, ns, how=Patch.JSON)


def test_generation_counts_changes_of_the_spec(api: KubeApi, ns: str, name: str) -> None:
    template = {"spec": pod("x", restartPolicy="Never")["spec"]}
    job = {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}
    assert api.create(JOB, job, ns)["metadata"]["generation"] == 1
    got = api.patch(JOB, name, {"metadata": {"labels": {"a": "b"}}}, ns)
    assert got["metadata"]["generation"] == 1
    got = api.patch(JOB, name, {"spec": {"parallelism": 2}}, ns)
    assert got["metadata"]["generation"] == 2


def test_replace(api: KubeApi, ns: str, name: str) -> None:
    made = api.create(CONFIG_MAP, config_map(name, a="1"), ns)
    got = api.replace(CONFIG_MAP, made | {"data": {"b": "2"}}, ns)
    assert got["data"] == {"b": "2"}
    assert got["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    with pytest.raises(Conflict):
        api.replace(CONFIG_MAP, made | {"data": {"c": "3"}}, ns)
    other = got | {"metadata": got["metadata"] | {"uid": made["metadata"]["uid"][::-1]}}
    with pytest.raises(Conflict):
        api.replace(CONFIG_MAP, other, ns)


def test_replace_without_a_version(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    api.create(PROVISIONING_REQUEST, provisioning_request(name), ns)
    with pytest.raises(Invalid):
        api.replace(PROVISIONING_REQUEST, provisioning_request(name), ns)
    api.create(CONFIG_MAP, config_map(name), ns)
    assert api.replace(CONFIG_MAP, config_map(name, a="2"), ns)["data"] == {"a": "2"}


def test_replace_of_what_does_not_exist(api: KubeApi, ns: str, name: str) -> None:
    with pytest.raises(NotFound):
        api.replace(CONFIG_MAP, config_map(name), ns)


def test_one_of_two_takes_a_lease(api: KubeApi, ns: str, name: str) -> None:
    lease: dict[str, Any] = {"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 15}}
    seen = api.create(LEASE, lease, ns)
    mine = seen | {"spec": seen["spec"] | {"holderIdentity": "a"}}
    theirs = seen | {"spec": seen["spec"] | {"holderIdentity": "b"}}
    assert api.replace(LEASE, mine, ns)["spec"]["holderIdentity"] == "a"
    with pytest.raises(Conflict):
        api.replace(LEASE, theirs, ns)


def _condition(kind: str) -> Obj:
    return {
        "type": kind,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
