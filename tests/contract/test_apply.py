"""Server-side apply: who owns what, and what happens to what is no longer applied."""

from __future__ import annotations

import pytest

from taugrid_ray.errors import ApiError, Conflict
from taugrid_ray.kinds.resource import CONFIG_MAP, PROVISIONING_REQUEST, Obj
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.kube.delta import version_of

from .conftest import Cluster, provisioning_request


def _apply(api: KubeApi, ns: str, name: str, manager: str, force: bool = False, **data: str) -> Obj:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return api.patch(CONFIG_MAP, name, body, ns, how=Patch.APPLY, manager=manager, force=force)


def test_apply_creates_then_merges(api: KubeApi, ns: str, name: str) -> None:
    made = _apply(api, ns, name, "one", a="1")
    assert made["data"] == {"a": "1"}
    assert _apply(api, ns, name, "two", b="2")["data"] == {"a": "1", "b": "2"}


def test_apply_again_changes_nothing(api: KubeApi, ns: str, name: str) -> None:
    made = _apply(api, ns, name, "one", a="1")
    assert version_of(_apply(api, ns, name, "one", a="1")) == version_of(made)


def test_what_is_no_longer_applied_goes(api: KubeApi, ns: str, name: str) -> None:
    _apply(api, ns, name, "one", a="1", b="1")
    _apply(api, ns, name, "two", b="1", c="1")
    assert _apply(api, ns, name, "one")["data"] == {"b": "1", "c": "1"}


def test_a_field_of_somebody_else_is_a_conflict(api: KubeApi, ns: str, name: str) -> None:
    _apply(api, ns, name, "one", a="1")
    with pytest.raises(Conflict):
        _apply(api, ns, name, "two", a="2")
    assert _apply(api, ns, name, "two", force=True, a="2")["data"] == {"a": "2"}
    with pytest.raises(Conflict):
        _apply(api, ns, name, "one", a="1")


def test_a_patch_takes_a_field(api: KubeApi, ns: str, name: str) -> None:
    _apply(api, ns, name, "one", a="1", b="1")
    api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns, manager="hand")
    with pytest.raises(Conflict):
        _apply(api, ns, name, "one", a="1", b="1")
    assert _apply(api, ns, name, "one", b="1")["data"] == {"a": "2", "b": "1"}


def test_a_patch_and_an_apply_under_one_name_are_two_owners(
    api: KubeApi, ns: str, name: str
) -> None:
    _apply(api, ns, name, "one", a="1")
    api.patch(CONFIG_MAP, name, {"data": {"b": "1"}}, ns, manager="one")
    assert _apply(api, ns, name, "one", c="1")["data"] == {"b": "1", "c": "1"}
    with pytest.raises(Conflict):
        _apply(api, ns, name, "one", b="2")


def test_apply_says_its_kind(api: KubeApi, ns: str, name: str) -> None:
    with pytest.raises(ApiError) as refused:
        api.patch(CONFIG_MAP, name, {"metadata": {"name": name}}, ns, how=Patch.APPLY)
    assert refused.value.status == 400


def _conditions(api: KubeApi, ns: str, name: str, manager: str, **conditions: str) -> Obj:
    body = {
        "apiVersion": PROVISIONING_REQUEST.api_version,
        "kind": "ProvisioningRequest",
        "metadata": {"name": name},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": "Test",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for kind, status in conditions.items()
            ]
        },
    }
    got = api.patch(
        PROVISIONING_REQUEST, name, body, ns, how=Patch.APPLY, sub="status", manager=manager
    )
    return {item["type"]: item["status"] for item in got["status"].get("conditions", [])}


def test_each_condition_has_its_own_owner(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    api.create(PROVISIONING_REQUEST, provisioning_request(name), ns)
    assert _conditions(api, ns, name, "one", Accepted="True") == {"Accepted": "True"}
    both = {"Accepted": "True", "Provisioned": "True"}
    assert _conditions(api, ns, name, "two", Provisioned="True") == both
    assert _conditions(api, ns, name, "two", Failed="True") == {
        "Accepted": "True",
        "Failed": "True",
    }
