"""Deleting: preconditions, finalizers, grace and what happens to dependents."""

from __future__ import annotations

import pytest

from taugrid_ray.errors import Conflict, Invalid, NotFound
from taugrid_ray.kinds.resource import CONFIG_MAP, POD, POD_TEMPLATE, Obj, Resource
from taugrid_ray.kube.api import KubeApi

from .conftest import Cluster, config_map, pod


def test_delete(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name), ns)
    api.delete(CONFIG_MAP, name, ns)
    assert cluster.is_gone(CONFIG_MAP, name)
    with pytest.raises(NotFound):
        api.delete(CONFIG_MAP, name, ns)


def test_delete_only_the_very_one(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    uid = api.create(CONFIG_MAP, config_map(name), ns)["metadata"]["uid"]
    with pytest.raises(Conflict):
        api.delete(CONFIG_MAP, name, ns, uid="another")
    api.delete(CONFIG_MAP, name, ns, uid=uid)
    assert cluster.is_gone(CONFIG_MAP, name)
    with pytest.raises(NotFound):
        api.delete(CONFIG_MAP, name, ns, uid=uid)


def test_a_finalizer_holds_it_back(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    obj = config_map(name)
    obj["metadata"]["finalizers"] = ["example.org/hold"]
    api.create(CONFIG_MAP, obj, ns)
    api.delete(CONFIG_MAP, name, ns)
    held = api.get(CONFIG_MAP, name, ns)
    assert held["metadata"]["deletionTimestamp"]
    api.delete(CONFIG_MAP, name, ns)
    assert (
        api.get(CONFIG_MAP, name, ns)["metadata"]["resourceVersion"]
        == (held["metadata"]["resourceVersion"])
    )
    more = {"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}}
    with pytest.raises(Invalid):
        api.patch(CONFIG_MAP, name, more, ns)
    api.patch(CONFIG_MAP, name, {"metadata": {"finalizers": None}}, ns)
    assert cluster.is_gone(CONFIG_MAP, name)


def test_a_pod_without_a_node_goes_at_once(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    assert api.create(POD, pod(name), ns)["status"]["phase"] == "Pending"
    api.delete(POD, name, ns)
    assert cluster.is_gone(POD, name)


def test_a_pod_on_a_node_waits_for_its_kubelet(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    api.create(POD, pod(name, nodeName="nowhere"), ns)
    api.delete(POD, name, ns)
    dying = api.get(POD, name, ns)["metadata"]
    assert dying["deletionTimestamp"] > dying["creationTimestamp"]
    assert dying["deletionGracePeriodSeconds"] == 30
    api.patch(POD, name, {"metadata": {"labels": {"still": "here"}}}, ns)
    api.delete(POD, name, ns, grace_s=0)
    assert cluster.is_gone(POD, name)


def test_a_finished_pod_needs_no_grace(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    api.create(POD, pod(name, nodeName="nowhere"), ns)
    api.patch(POD, name, {"status": {"phase": "Succeeded"}}, ns, sub="status")
    api.delete(POD, name, ns)
    assert cluster.is_gone(POD, name)


def _owned(name: str, *owners: Obj, blocks: bool = False) -> Obj:
    obj: Obj = {"metadata": {"name": name}, "template": {"spec": pod("x")["spec"]}}
    obj["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    return obj


def test_dependents_follow_their_last_owner(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    first = api.create(CONFIG_MAP, config_map(f"{name}-1"), ns)
    second = api.create(CONFIG_MAP, config_map(f"{name}-2"), ns)
    api.create(POD_TEMPLATE, _owned(f"{name}-both", first, second), ns)
    api.create(POD_TEMPLATE, _owned(f"{name}-one", first), ns)
    api.delete(CONFIG_MAP, f"{name}-1", ns)
    cluster.eventually(lambda: cluster.is_gone(POD_TEMPLATE, f"{name}-one"))
    assert not cluster.is_gone(POD_TEMPLATE, f"{name}-both")
    api.delete(CONFIG_MAP, f"{name}-2", ns)
    cluster.eventually(lambda: cluster.is_gone(POD_TEMPLATE, f"{name}-both"))


def test_an_owner_of_another_life_does_not_count(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    owner = api.create(CONFIG_MAP, config_map(name), ns)
    api.create(POD_TEMPLATE, _owned(name, owner), ns)
    api.delete(CONFIG_MAP, name, ns)
    api.create(CONFIG_MAP, config_map(name), ns)
    cluster.eventually(lambda: cluster.is_gone(POD_TEMPLATE, name))
    assert not cluster.is_gone(CONFIG_MAP, name)


def test_a_foreground_deletion_ends_with_the_dependents(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    owner = api.create(CONFIG_MAP, config_map(name), ns)
    held = _owned(name, owner, blocks=True)
    held["metadata"]["finalizers"] = ["example.org/hold"]
    api.create(POD_TEMPLATE, held, ns)
    api.delete(CONFIG_MAP, name, ns, propagation="Foreground")
    assert api.get(CONFIG_MAP, name, ns)["metadata"]["finalizers"] == ["foregroundDeletion"]

    def is_dying(kind: Resource) -> bool:
        return "deletionTimestamp" in api.get(kind, name, ns)["metadata"]

    cluster.eventually(lambda: is_dying(POD_TEMPLATE))
    assert is_dying(CONFIG_MAP)
    api.patch(POD_TEMPLATE, name, {"metadata": {"finalizers": None}}, ns)
    cluster.eventually(lambda: cluster.is_gone(CONFIG_MAP, name))
