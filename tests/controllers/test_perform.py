"""Each action as one guarded call, against the pretend API server: once, twice, and too late."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.actions import (
    Announce,
    Create,
    Delete,
    Forget,
    Park,
    SetCheck,
    SetCondition,
    Target,
    Unpark,
    Unstamp,
)
from controllers.perform import ForeignObject, as_log, perform
from taugrid_ray import names
from taugrid_ray.errors import Conflict, Invalid, NotFound, Throttled, Unreachable
from taugrid_ray.kinds.meta import OwnerRef, parse_meta
from taugrid_ray.kinds.resource import (
    ADMISSION_CHECK,
    EVENT,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    WORKLOAD,
    Obj,
)
from taugrid_ray.kinds.workload import CheckState, parse_workload
from taugrid_ray.memory import Memory, Pause, parse_memory
from taugrid_ray.reasons import Reason
from tests.controllers.builders import CHECK, NOW_S, Gang, booked, requests_of
from tests.fake_kube import FakeKube, ManualClock

PARKED = Memory(pause=Pause.PARKED, attempt=2, failures=1, at_s=NOW_S, resume_at_s=NOW_S + 60)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube(ManualClock())


@pytest.fixture
def workload(kube: FakeKube) -> Obj:
    """A Workload with our check Pending, as the server has it."""
    obj = Gang(other_checks=({"name": "other", "state": "Ready"},)).workload()
    status = obj.pop("status")
    del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
    kube.create(WORKLOAD, obj)
    made = kube.patch(WORKLOAD, obj["metadata"]["name"], {"status": status}, "team", sub="status")
    kube.writes.clear()
    return made


def at(obj: Obj) -> Target:
    meta = parse_meta(obj)
    return Target(meta.namespace, meta.name, meta.uid, meta.resource_version)


def do(kube: FakeKube, action: Any) -> Any:
    written = perform(action, kube, identity="test")
    return written[0] if written else None


def ready(workload: Obj, **more: Any) -> SetCheck:
    values: dict[str, Any] = {
        "workload": at(workload),
        "index": 1,
        "check": CHECK,
        "state": CheckState.READY,
        "reason": Reason.CAPACITY_PROVISIONED,
        "message": "booked",
        "now_s": NOW_S,
        **more,
    }
    return SetCheck(**values)


def request() -> Obj:
    (found,) = requests_of(Gang())
    return found  # type: ignore[no-any-return]


# Workloads


def test_our_entry_alone_is_written(kube: FakeKube, workload: Obj) -> None:
    written = do(kube, ready(workload, updates=({"name": "main"},)))
    checks = parse_workload(written.obj).checks
    assert [(c.name, c.state) for c in checks] == [
        ("other", CheckState.READY),
        (CHECK, CheckState.READY),
    ]
    (entry,) = [c for c in written.obj["status"]["admissionChecks"] if c["name"] == CHECK]
    assert entry["requeueAfterSeconds"] == 0
    assert entry["podSetUpdates"] == [{"name": "main"}]


def guarded(workload: Obj) -> list[Any]:
    return [ready(workload), Park(at(workload), PARKED), Unpark(at(workload), PARKED),
            Forget(at(workload))]  # fmt: skip


@pytest.mark.parametrize("which", range(4))
def test_a_decision_about_an_older_state_changes_nothing(
    kube: FakeKube, workload: Obj, which: int
) -> None:
    action = guarded(workload)[which]
    kube.patch(WORKLOAD, workload["metadata"]["name"], {"spec": {"priority": 1}}, "team")
    with pytest.raises(Conflict):
        do(kube, action)
    assert len(kube.written()) == 1


@pytest.mark.parametrize("which", range(4))
def test_another_object_of_that_name_is_left_alone(
    kube: FakeKube, workload: Obj, which: int
) -> None:
    action = guarded(workload)[which]
    kube.delete(WORKLOAD, workload["metadata"]["name"], "team")
    again = {**workload, "metadata": {**workload["metadata"]}}
    del again["metadata"]["resourceVersion"]
    kube.create(WORKLOAD, again)
    before = kube.history.version
    with pytest.raises((Conflict, Invalid)):
        do(kube, action)
    assert kube.history.version == before


@pytest.mark.parametrize("which", range(4))
def test_a_workload_that_is_gone(kube: FakeKube, workload: Obj, which: int) -> None:
    action = guarded(workload)[which]
    kube.delete(WORKLOAD, workload["metadata"]["name"], "team")
    with pytest.raises(NotFound):
        do(kube, action)


def test_an_entry_that_moved_is_not_overwritten(kube: FakeKube, workload: Obj) -> None:
    with pytest.raises(Conflict):
        do(kube, ready(workload, index=0))


def test_park_and_unpark_are_one_patch_each(kube: FakeKube, workload: Obj) -> None:
    parked = do(kube, Park(at(workload), PARKED)).obj
    assert parked["spec"]["active"] is False
    assert parse_memory(parked["metadata"]["annotations"][names.MEMORY]) == PARKED
    resumed = Memory(pause=Pause.RESUMED, attempt=2, failures=1, at_s=NOW_S)
    back = do(kube, Unpark(at(parked), resumed)).obj
    assert back["spec"]["active"] is True
    assert parse_memory(back["metadata"]["annotations"][names.MEMORY]) == resumed
    assert [w.verb for w in kube.written()] == ["patch", "patch"]


def test_forgetting_takes_one_annotation(kube: FakeKube, workload: Obj) -> None:
    parked = do(kube, Park(at(workload), PARKED)).obj
    left = do(kube, Forget(at(parked))).obj
    assert names.MEMORY not in left["metadata"].get("annotations", {})
    assert left["spec"]["active"] is False


# Requests and templates


def test_created_twice_is_created_once(kube: FakeKube) -> None:
    first = do(kube, Create(PROVISIONING_REQUEST, request()))
    second = do(kube, Create(PROVISIONING_REQUEST, request()))
    assert first.obj["metadata"]["uid"] == second.obj["metadata"]["uid"]
    assert len(kube.objects(PROVISIONING_REQUEST)) == 1


def test_a_lost_answer_is_found_again(kube: FakeKube) -> None:
    kube.fail("create", PROVISIONING_REQUEST, Unreachable("cut off"), when="after")
    with pytest.raises(Unreachable):
        do(kube, Create(PROVISIONING_REQUEST, request()))
    assert do(kube, Create(PROVISIONING_REQUEST, request())).obj is not None


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param({"labels": {}}, id="no label"),
        pytest.param({"labels": {names.WORKLOAD_UID: "another"}}, id="another gang's"),
    ],
)
def test_a_foreign_object_is_left_alone(kube: FakeKube, foreign: Obj) -> None:
    obj = request()
    kube.create(PROVISIONING_REQUEST, {**obj, "metadata": {**obj["metadata"], **foreign}})
    with pytest.raises(ForeignObject) as told:
        do(kube, Create(PROVISIONING_REQUEST, obj))
    assert "is not ours" in told.value.message
    assert len(kube.written()) == 1


def test_an_object_of_ours_with_other_content_is_not_taken(kube: FakeKube) -> None:
    obj = request()
    other = {**obj, "spec": {**obj["spec"], "provisioningClassName": "other"}}
    kube.create(PROVISIONING_REQUEST, other)
    with pytest.raises(ForeignObject):
        do(kube, Create(PROVISIONING_REQUEST, {**obj, "spec": {**obj["spec"], "parameters": {}}}))
    fewer = {**obj, "spec": {**obj["spec"], "podSets": [{"count": 1}, {"count": 2}]}}
    with pytest.raises(ForeignObject):
        do(kube, Create(PROVISIONING_REQUEST, fewer))


def test_what_the_server_filled_in_does_not_make_it_foreign(kube: FakeKube) -> None:
    obj = request()
    filled = {**obj, "spec": {**obj["spec"], "parameters": {"set": "by default"}}}
    kube.create(PROVISIONING_REQUEST, filled)
    assert do(kube, Create(PROVISIONING_REQUEST, obj)).obj is not None


def test_one_that_is_going_is_no_booking(kube: FakeKube) -> None:
    obj = request()
    meta = {**obj["metadata"], "finalizers": ["example.com/hold"]}
    kube.create(PROVISIONING_REQUEST, {**obj, "metadata": meta})
    kube.delete(PROVISIONING_REQUEST, obj["metadata"]["name"], "team")
    with pytest.raises(Conflict):
        do(kube, Create(PROVISIONING_REQUEST, obj))


def test_deleted_twice_is_deleted_once(kube: FakeKube) -> None:
    made = do(kube, Create(PROVISIONING_REQUEST, request())).obj
    for _ in range(2):
        written = do(kube, Delete(PROVISIONING_REQUEST, at(made)))
        assert written.gone_uid == made["metadata"]["uid"]
    assert kube.objects(PROVISIONING_REQUEST) == []


def test_only_the_very_one_is_deleted(kube: FakeKube) -> None:
    made = do(kube, Create(PROVISIONING_REQUEST, request())).obj
    kube.delete(PROVISIONING_REQUEST, made["metadata"]["name"], "team")
    again = do(kube, Create(PROVISIONING_REQUEST, request())).obj
    do(kube, Delete(PROVISIONING_REQUEST, at(made)))
    assert [o["metadata"]["uid"] for o in kube.objects(PROVISIONING_REQUEST)] == [
        again["metadata"]["uid"]
    ]


def test_a_delete_that_was_refused_is_not_believed_done(kube: FakeKube) -> None:
    made = do(kube, Create(PROVISIONING_REQUEST, request())).obj
    kube.fail("delete", PROVISIONING_REQUEST, Conflict("the object has been modified"))
    with pytest.raises(Conflict):
        do(kube, Delete(PROVISIONING_REQUEST, at(made)))


@pytest.mark.parametrize(
    "error", [Throttled("slow down"), Invalid("no"), Unreachable("nobody there")]
)
def test_other_errors_go_to_the_loop(kube: FakeKube, error: Exception) -> None:
    kube.fail("*", PROVISIONING_REQUEST, error, times=2)
    with pytest.raises(type(error)):
        do(kube, Create(PROVISIONING_REQUEST, request()))
    with pytest.raises(type(error)):
        do(kube, Delete(PROVISIONING_REQUEST, Target("team", "x", "u")))


# Pods, conditions, events


def test_unstamping_takes_both_annotations(kube: FakeKube) -> None:
    notes = {names.CONSUME: "old", names.CONSUME_CLASS: "c", "keep": "it"}
    pod = kube.create(
        POD, {"metadata": {"name": "p", "namespace": "team", "annotations": notes}, "spec": {}}
    )
    done = do(kube, Unstamp(at(pod)))
    assert done.obj["metadata"]["annotations"] == {"keep": "it"}


def test_a_pod_that_was_bound_meanwhile_keeps_its_stamp(kube: FakeKube) -> None:
    notes = {names.CONSUME: "old"}
    meta = {"name": "p", "namespace": "team", "annotations": notes}
    pod = kube.create(POD, {"metadata": meta, "spec": {}})
    kube.patch(POD, "p", {"spec": {"nodeName": "n"}}, "team")
    with pytest.raises(Conflict):
        do(kube, Unstamp(at(pod)))


def condition(check: Obj, **more: Any) -> SetCondition:
    values: dict[str, Any] = {
        "kind": ADMISSION_CHECK,
        "target": at(check),
        "type": "Active",
        "is_true": True,
        "reason": "Active",
        "message": "works",
        "generation": 1,
        "now_s": NOW_S,
        **more,
    }
    return SetCondition(**values)


def test_a_condition_is_written_beside_others(kube: FakeKube) -> None:
    meta = {"apiVersion": ADMISSION_CHECK.api_version, "kind": "AdmissionCheck"}
    kube.create(ADMISSION_CHECK, {**meta, "metadata": {"name": CHECK}})
    other = {"type": "Other", "status": "True"}
    check = kube.patch(ADMISSION_CHECK, CHECK, {"status": {"conditions": [other]}}, sub="status")
    do(kube, condition(check))
    done = do(kube, condition(check, is_true=False, reason="PolicyInvalid", message="x\ny"))
    assert [(c["type"], c["status"]) for c in done.obj["status"]["conditions"]] == [
        ("Other", "True"),
        ("Active", "False"),
    ]
    assert done.obj["status"]["conditions"][1]["message"] == "x y"


def news(**more: Any) -> Announce:
    values: dict[str, Any] = {
        "about": OwnerRef("batch/v1", "Job", "Train_1", "uid"),
        "namespace": "team",
        "reason": Reason.GAVE_UP,
        "note": "no \x1b[31mroom" + "x" * 2000,
        "warning": True,
        "key": "k",
        "now_s": NOW_S,
        **more,
    }
    return Announce(**values)


def test_the_same_news_is_told_once(kube: FakeKube) -> None:
    do(kube, news())
    do(kube, news())
    do(kube, news(key="other"))
    first = kube.objects(EVENT)[0]
    assert len(kube.objects(EVENT)) == 2
    assert (first["type"], first["reason"], first["regarding"]["name"]) == (
        "Warning",
        "GaveUp",
        "Train_1",
    )
    assert "\x1b" not in first["note"]
    assert len(first["note"]) <= 1024


def test_a_namespace_that_is_going_hears_nothing() -> None:
    kube = FakeKube(ManualClock(), namespaces=["other"])
    do(kube, news())
    assert kube.objects(EVENT) == []


def test_every_action_has_a_line_for_the_log(kube: FakeKube, workload: Obj) -> None:
    hostile = Target("team", "x\x1b[2J\n", "u")
    actions = [
        *guarded(workload),
        Create(POD_TEMPLATE, {"metadata": {"name": "t"}}),
        Delete(POD_TEMPLATE, hostile),
        Unstamp(hostile),
        Park(at(workload), Memory(pause=Pause.GAVE_UP)),
        condition(workload),
        news(),
    ]
    lines = [as_log(a) for a in actions]
    assert all(lines)
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert lines[0] == "SetCheck Ready (CapacityProvisioned)"


def test_the_whole_way_of_a_gang(kube: FakeKube) -> None:
    """What a decision creates is found again by the next one, and booked becomes Ready."""
    for action in Gang().decides().actions:
        do(kube, action)
    gang = Gang(
        requests=tuple(
            {**r, "status": {"conditions": [booked()]}} for r in kube.objects(PROVISIONING_REQUEST)
        ),
        templates=tuple(kube.objects(POD_TEMPLATE)),
    )
    (entry, _) = gang.decides(NOW_S + 1).actions
    assert isinstance(entry, SetCheck)
    assert entry.state is CheckState.READY
