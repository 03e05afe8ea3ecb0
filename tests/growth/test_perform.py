"""Release and SetGroups as calls: guarded, side by side, and harmless when they come too late."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.actions import GroupChange, PodRelease, Release, SetGroups, Target
from controllers.growth.release import releases
from controllers.perform import as_log, perform
from taugrid_ray import names
from taugrid_ray.errors import Conflict, Invalid, NotFound, Throttled
from taugrid_ray.growth_memory import (
    Clamp,
    GroupMemory,
    GrowthMemory,
    Limits,
    parse_growth_memory,
)
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.pod import Pod, parse_pod
from taugrid_ray.kinds.raycluster import parse_raycluster
from taugrid_ray.kinds.resource import POD, RAY_CLUSTER, Obj
from taugrid_ray.kube.api import Patch
from tests.controllers.builders import CLASS, NOW_S
from tests.fake_kube import FakeKube, ManualClock
from tests.growth.builders import Cluster, Group, worker

HELD = Clamp(Limits(10, 0), Limits(1, 0), NOW_S, NOW_S + 10, "ProvisioningFailed", "no")
REMEMBERS = GrowthMemory({"small": GroupMemory(admitted=1, failures=1, clamp=HELD)})


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube(ManualClock())


def put_pod(kube: FakeKube, name: str, *gates: str, **meta: Any) -> Obj:
    made = worker(name, "small", gates=gates)
    made["metadata"] |= meta
    del made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    return kube.create(POD, {"apiVersion": "v1", "kind": "Pod", **made}, "team")


def going(pod: Obj, booking: str = "", **more: Any) -> PodRelease:
    parsed = parse_pod(pod)
    meta = parsed.meta
    values: dict[str, Any] = {
        "pod": Target(meta.namespace, meta.name, meta.uid, meta.resource_version),
        "gate_index": parsed.gates.index(names.GATE) if names.GATE in parsed.gates else None,
        "had_notes": bool(meta.annotations),
        "workload_uid": "slice-uid",
        "booking": booking,
        "class_name": CLASS if booking else "",
        **more,
    }
    return PodRelease(**values)


def release(kube: FakeKube, *pods: PodRelease) -> list[str]:
    """Names of the pods that were written."""
    return [parse_meta(w.obj).name for w in perform(Release(pods), kube, identity="test") if w.obj]


def pod_now(kube: FakeKube, name: str) -> Pod:
    return parse_pod(kube.get(POD, name, "team"))


def test_the_gate_goes_and_the_name_comes_in_one_patch(kube: FakeKube) -> None:
    made = put_pod(kube, "w", names.GATE)
    kube.writes.clear()
    assert release(kube, going(made, "booking")) == ["w"]
    found = pod_now(kube, "w")
    assert found.gates == ()
    assert found.booking == "booking"
    assert found.meta.annotations[names.CONSUME_CLASS] == CLASS
    assert found.meta.labels[names.WORKLOAD_UID] == "slice-uid"
    assert [w.verb for w in kube.written()] == ["patch"]


def test_a_lost_workers_successor_gets_no_name(kube: FakeKube) -> None:
    release(kube, going(put_pod(kube, "w", names.GATE)))
    found = pod_now(kube, "w")
    assert found.gates == ()
    assert found.booking == ""


def test_only_our_gate_goes(kube: FakeKube) -> None:
    made = put_pod(kube, "w", "example.com/theirs", names.GATE, "example.com/others")
    release(kube, going(made, "booking"))
    assert pod_now(kube, "w").gates == ("example.com/theirs", "example.com/others")


def test_a_head_without_a_gate_gets_its_name(kube: FakeKube) -> None:
    release(kube, going(put_pod(kube, "head"), "booking"))
    assert pod_now(kube, "head").booking == "booking"


def test_a_pod_without_annotations_gets_its_name_too(kube: FakeKube) -> None:
    made = put_pod(kube, "w", names.GATE, annotations=None)
    release(kube, going(made, "booking"))
    assert pod_now(kube, "w").booking == "booking"


def test_what_a_pod_says_already_stays(kube: FakeKube) -> None:
    made = put_pod(kube, "w", names.GATE, annotations={"example.com/note": "kept"})
    release(kube, going(made, "booking"))
    assert pod_now(kube, "w").meta.annotations["example.com/note"] == "kept"


def test_a_pod_that_changed_or_went_does_not_hold_up_the_others(kube: FakeKube) -> None:
    changed, gone, fine = (put_pod(kube, n, names.GATE) for n in ("changed", "gone", "fine"))
    kube.patch(POD, "changed", {"metadata": {"labels": {"x": "y"}}}, "team")
    kube.delete(POD, "gone", "team", grace_s=0)
    pods = [going(p, "booking") for p in (changed, gone, fine)]
    assert release(kube, *pods) == ["fine"]
    assert pod_now(kube, "changed").gates == (names.GATE,)


def test_a_gate_that_is_another_one_by_now_is_not_taken(kube: FakeKube) -> None:
    made = put_pod(kube, "w", "example.com/theirs", names.GATE)
    assert release(kube, going(made, "booking", gate_index=0)) == []
    assert pod_now(kube, "w").gates == ("example.com/theirs", names.GATE)


def test_a_throttled_release_is_told_after_all_have_been_tried(kube: FakeKube) -> None:
    made = [put_pod(kube, f"w{i}", names.GATE) for i in range(5)]
    kube.fail("patch", POD, Throttled("slow down"))
    with pytest.raises(Throttled):
        release(kube, *(going(p) for p in made))
    assert sum(1 for i in range(5) if not pod_now(kube, f"w{i}").gates) == 4


def test_a_hundred_side_by_side(kube: FakeKube) -> None:
    made = [put_pod(kube, f"w{i}", names.GATE) for i in range(100)]
    kube.writes.clear()
    assert release(kube, *(going(p, "booking") for p in made)) == [f"w{i}" for i in range(100)]
    assert len(kube.written()) == 100
    assert all(pod_now(kube, f"w{i}").booking == "booking" for i in range(100))


def test_what_is_decided_is_what_is_done(kube: FakeKube) -> None:
    """From the decision's own values, the gates in any order."""
    made = put_pod(kube, "w", "example.com/theirs", names.GATE)
    kube_pod = parse_pod(made)
    cluster = Cluster(groups=(Group(running=0),), check="", has_head=False)
    seen = cluster.looks(pods=(kube_pod,), check="", policy=None).seen_now()
    assert seen.current is not None
    (action,) = cluster.looks(pods=(kube_pod,), check="", policy=None).decides().actions
    assert isinstance(action, Release)
    assert releases(seen, seen.current, (), (), with_bookings=True) == ()
    assert release(kube, *action.pods) == ["w"]
    assert pod_now(kube, "w").gates == ("example.com/theirs",)


# SetGroups


@pytest.fixture
def cluster(kube: FakeKube) -> Obj:
    obj = Cluster(groups=(Group(replicas=4), Group("big", replicas=2))).cluster()
    del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
    made = kube.create(RAY_CLUSTER, {"apiVersion": "ray.io/v1", "kind": "RayCluster", **obj})
    kube.writes.clear()
    return made


def setting(cluster: Obj, *groups: GroupChange, **more: Any) -> SetGroups:
    meta = parse_meta(cluster)
    at = Target(meta.namespace, meta.name, meta.uid, meta.resource_version)
    values: dict[str, Any] = {"memory": REMEMBERS, "had_notes": True, **more}
    return SetGroups(at, groups, **values)


def do(kube: FakeKube, action: SetGroups) -> Obj:
    (written,) = perform(action, kube, identity="test")
    assert written.obj is not None
    return written.obj


def test_limit_and_memory_in_one_patch(kube: FakeKube, cluster: Obj) -> None:
    found = do(kube, setting(cluster, GroupChange(0, "small", max_replicas=1)))
    small, big = parse_raycluster(found).groups
    assert (small.max_replicas, small.replicas, big.max_replicas) == (1, 4, 10)
    assert parse_growth_memory(found["metadata"]["annotations"][names.GROWTH]) == REMEMBERS
    assert found["metadata"]["annotations"][names.ELASTIC] == "true"
    assert [w.verb for w in kube.written()] == ["patch"]


def test_count_and_names_in_one_patch(kube: FakeKube, cluster: Obj) -> None:
    change = GroupChange(1, "big", replicas=0, workers_to_delete=("b-1", "b-2"))
    small, big = parse_raycluster(do(kube, setting(cluster, change))).groups
    assert (big.replicas, big.workers_to_delete) == (0, ("b-1", "b-2"))
    assert (small.replicas, small.workers_to_delete) == (4, ())


def test_a_group_twice_in_one_patch(kube: FakeKube, cluster: Obj) -> None:
    changes = (
        GroupChange(0, "small", max_replicas=1),
        GroupChange(0, "small", replicas=1, workers_to_delete=("a",)),
    )
    small = parse_raycluster(do(kube, setting(cluster, *changes))).groups[0]
    assert (small.max_replicas, small.replicas, small.workers_to_delete) == (1, 1, ("a",))


def test_a_limit_that_was_not_written_can_be_lowered(kube: FakeKube, cluster: Obj) -> None:
    ops = [{"op": "remove", "path": "/spec/workerGroupSpecs/0/maxReplicas"}]
    bare = kube.patch(RAY_CLUSTER, "ray", ops, "team", how=Patch.JSON)
    found = do(kube, setting(bare, GroupChange(0, "small", max_replicas=1)))
    assert parse_raycluster(found).groups[0].max_replicas == 1


def test_a_cluster_without_annotations_gets_one(kube: FakeKube, cluster: Obj) -> None:
    bare = kube.patch(RAY_CLUSTER, "ray", {"metadata": {"annotations": None}}, "team")
    found = do(kube, setting(bare, had_notes=False))
    assert list(found["metadata"]["annotations"]) == [names.GROWTH]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param({"metadata": {"labels": {"x": "y"}}}, id="anything"),
        pytest.param({"spec": {"workerGroupSpecs": []}}, id="its groups"),
    ],
)
def test_a_decision_about_an_older_cluster_changes_nothing(
    kube: FakeKube, cluster: Obj, meanwhile: Obj
) -> None:
    kube.patch(RAY_CLUSTER, "ray", meanwhile, "team")
    before = kube.history.version
    with pytest.raises((Conflict, Invalid)):
        do(kube, setting(cluster, GroupChange(0, "small", max_replicas=1)))
    assert kube.history.version == before


def test_a_group_of_another_name_is_not_touched(kube: FakeKube, cluster: Obj) -> None:
    with pytest.raises((Conflict, Invalid)):
        do(kube, setting(cluster, GroupChange(1, "small", max_replicas=1)))
    assert kube.written() == []


def test_a_cluster_that_is_gone(kube: FakeKube, cluster: Obj) -> None:
    kube.delete(RAY_CLUSTER, "ray", "team")
    with pytest.raises(NotFound):
        do(kube, setting(cluster))


def test_logs_say_what_and_how_much(cluster: Obj) -> None:
    pods = (going(worker("a", "small", gates=[names.GATE]), "b"), going(worker("c", "small")))
    assert as_log(Release(pods)) == "Release 2 pods, 1 with a booking"
    changes = (
        GroupChange(0, 'sm"all', max_replicas=1),
        GroupChange(1, "big", replicas=0, workers_to_delete=("x",)),
    )
    told = as_log(setting(cluster, *changes))
    assert told == 'SetGroups "sm\\"all" max=1, "big" replicas=0 deletes=1'
    assert as_log(setting(cluster)) == "SetGroups memory alone"
