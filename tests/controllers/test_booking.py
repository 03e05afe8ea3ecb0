"""From a Workload to the requests: what is covered, which pool, which template, which name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray import names
from taugrid_ray.booking import Asking, booking_of, covered_pod_sets, pod_set_updates, pools_of
from taugrid_ray.errors import ManifestError
from taugrid_ray.kinds.meta import OwnerRef
from taugrid_ray.kinds.queues import ResourceFlavor, parse_resource_flavor
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.workload import parse_workload
from tests.controllers.builders import CHECK, CLASS, UID, Gang, Set, flavor, pod_template

JOB = OwnerRef("batch/v1", "Job", "Train_1", "uid")
ASKING = Asking(CLASS, {}, "2027-01-01T00:00:00Z", 1)


def flavors(*found: Obj) -> dict[str, ResourceFlavor]:
    return {f["metadata"]["name"]: parse_resource_flavor(f) for f in found}


POOL = flavors(flavor("pool", {"pool": "pool"}))


def covered(gang: Gang, **more: Any) -> Any:
    values = {
        "on_flavors": (),
        "managed_resources": (),
        "flavors": POOL,
        "check_name": CHECK,
        **more,
    }
    return covered_pod_sets(parse_workload(gang.workload()), **values)


@pytest.mark.parametrize(
    ("gang", "more", "want"),
    [
        pytest.param(Gang(), {}, ["main"], id="all by default"),
        pytest.param(Gang(sets=(Set(count=0),)), {}, [], id="nothing of nothing"),
        pytest.param(Gang(), {"on_flavors": ("other",)}, [], id="another flavor"),
        pytest.param(Gang(), {"managed_resources": ("cpu",)}, ["main"], id="managed"),
        pytest.param(Gang(), {"managed_resources": ("nvidia.com/gpu",)}, [], id="unmanaged"),
        pytest.param(Gang(reserved_s=None), {}, [], id="nothing assigned"),
    ],
)
def test_covered(gang: Gang, more: dict[str, Any], want: list[str]) -> None:
    assert [p.name for p in covered(gang, **more)] == want


@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_a_managed_resource_counts_wherever_it_is_asked_for(where: str, part: str) -> None:
    gpu = {"name": "x", "resources": {where: {"nvidia.com/gpu": "1"}}}
    template = pod_template()
    template["spec"][part] = [*template["spec"].get(part, []), gpu]
    gang = Gang(sets=(Set(template=template),))
    assert covered(gang, managed_resources=("nvidia.com/gpu",))


def test_partial_admission_is_asked_for_as_it_was_given() -> None:
    workload = Gang().workload()
    workload["status"]["admission"]["podSetAssignments"][0]["count"] = 2
    found = covered_pod_sets(
        parse_workload(workload),
        on_flavors=(),
        managed_resources=(),
        flavors=POOL,
        check_name=CHECK,
    )
    assert [p.count for p in found] == [2]


def test_the_template_is_what_the_pod_will_be() -> None:
    """Flavor's labels and tolerations, other checks' updates, limits as requests."""
    toleration = {"key": "gpu", "operator": "Exists"}
    found = flavors(flavor("pool", {"pool": "pool"}, toleration))
    update = {"name": "main", "nodeSelector": {"rack": "r1"}, "labels": {"a": "b"}}
    other = {"name": "other", "state": "Ready", "podSetUpdates": [update, {"name": "another"}]}
    template: Obj = {
        "metadata": {},
        "spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": "2"}}}]},
    }
    (pod_set,) = covered(Gang(sets=(Set(template=template),), other_checks=(other,)), flavors=found)
    spec = pod_set.template["spec"]
    assert spec["nodeSelector"] == {"pool": "pool", "rack": "r1"}
    assert toleration in spec["tolerations"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert pod_set.template["metadata"]["labels"] == {"a": "b"}


def test_a_template_that_names_a_booking_is_refused() -> None:
    gang = Gang(sets=(Set(template=pod_template("1", 0, **{names.CONSUME: "x"})),))
    with pytest.raises(ManifestError, match='pod set "main"'):
        covered(gang)


def test_pools_share_what_has_one_flavor() -> None:
    gang = Gang(sets=(Set("b", 1, "y"), Set("a", 2, "x"), Set("c", 3, "x")))
    found = flavors(flavor("x", {"n": "x"}), flavor("y", {"n": "y"}))
    pools = pools_of(covered(gang, flavors=found), found)
    assert [(p.pool, [s.name for s in p.pod_sets], p.pods) for p in pools] == [
        ("x", ["a", "c"], 5),
        ("y", ["b"], 1),
    ]


def booking(gang: Gang | None = None, asking: Asking = ASKING, **more: Any) -> Any:
    gang = gang or Gang()
    workload = parse_workload(gang.workload())
    (pool,) = pools_of(covered(gang), POOL)
    return booking_of(workload, JOB, pool, asking, **{"serial": 1, "asked_at_s": 0.0, **more})


def test_attempts_and_reservations_have_names_of_their_own() -> None:
    from dataclasses import replace

    found = [
        booking().name,
        booking(asking=replace(ASKING, attempt=2)).name,
        booking(asking=replace(ASKING, reservation="2027-01-01T00:00:01Z")).name,
        booking(asking=replace(ASKING, salt=1)).name,
        booking(asking=replace(ASKING, parameters={"a": "b"})).name,
        booking(serial=2).name,
        booking(Gang(sets=(Set(count=2),))).name,
    ]
    assert len(set(found)) == len(found)
    assert booking(asked_at_s=99.0).name == found[0]


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=80))
def test_names_fit_the_api_server(job: str, pod_set: str) -> None:
    gang = Gang(sets=(Set(pod_set),))
    workload = parse_workload(gang.workload())
    (pool,) = pools_of(covered(gang), POOL)
    found = booking_of(
        workload, OwnerRef("batch/v1", "Job", job, "u"), pool, ASKING, serial=1, asked_at_s=0.0
    )
    for made in (found.request, *found.templates):
        name = made["metadata"]["name"]
        assert len(name) <= 253
        assert name == names.safe(name, length=253)
        assert all(len(v) <= 63 for v in made["metadata"]["labels"].values())


def test_pod_sets_whose_names_look_alike_have_templates_of_their_own() -> None:
    gang = Gang(sets=(Set("a_b"), Set("a-b"), Set("A-B")))
    found = booking(gang)
    assert len({t["metadata"]["name"] for t in found.templates}) == 3
    referred = [p["podTemplateRef"]["name"] for p in found.request["spec"]["podSets"]]
    assert referred == [t["metadata"]["name"] for t in found.templates]


def test_parameters_of_the_job_reach_the_class() -> None:
    notes = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "60", "other": "x"}
    found = booking(Gang(workload_annotations=notes))
    assert found.request["spec"]["parameters"] == {"ValidUntilSeconds": "60"}
    assert "parameters" not in booking().request["spec"]


def test_an_owner_that_would_mislead_is_left_out() -> None:
    assert "ownerReferences" not in booking(owned=False).request["metadata"]
    (owner,) = booking().request["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid", False, False)


def test_updates_name_booking_and_gang() -> None:
    (pool,) = pools_of(covered(Gang()), POOL)
    (update,) = pod_set_updates(UID, ((pool, "req-1"),), CLASS)
    assert update["name"] == "main"
    assert update["labels"] == {names.WORKLOAD_UID: UID}
    assert update["annotations"] == {names.CONSUME: "req-1", names.CONSUME_CLASS: CLASS}
