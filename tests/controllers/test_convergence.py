"""From any state whatever: deciding and performing come to rest, break no rule, and change nothing
the second time.

The states are drawn, not reached, so many are odd: Ready without a booking, requests of other
attempts and reservations, pods of bookings that are gone, a memory that a person wrote, an active
Workload that says it is parked. Nobody else acts; only the clock goes on.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from e2e.scenarios.rules import Account, check_all
from taugrid_ray import names
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.resource import (
    JOB,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    RAY_JOB,
    WORKLOAD,
    Obj,
    Resource,
)
from taugrid_ray.memory import Memory, Pause, format_memory
from tests.controllers.builders import (
    CHECK,
    JOB_UID,
    NOW_S,
    UID,
    Gang,
    Set,
    booked,
    condition,
    consumed,
    expired,
    failed,
    flavor,
    no_room,
    pod_object,
    pod_template,
    policy,
    revoked,
)
from tests.controllers.cluster import obj, set_up
from tests.fake_kube import FakeKube, ManualClock
from tests.sim.controller import Controller, FlakyApi
from tests.sim.life import changes

ANSWERS = (
    (),
    (no_room(),),
    (booked(),),
    (booked(), expired()),
    (booked(), consumed()),
    (failed(),),
    (booked(), revoked()),
)
CONDITIONS = (
    (),
    (condition(wl.ADMITTED, NOW_S),),
    (condition(wl.EVICTED, NOW_S),),
    (condition(wl.FINISHED, NOW_S),),
    (condition(wl.ADMITTED, NOW_S), condition(wl.PODS_READY, NOW_S)),
)
MEMORIES = (
    "",
    "not ours {",
    *(
        format_memory(Memory(pause=pause, step=1, attempt=n, failures=n - 1, at_s=NOW_S - 5,
                             resume_at_s=NOW_S + 20 if pause is Pause.PARKED else None))
        for pause in Pause
        for n in (1, 2, 3, 9)
    ),
)  # fmt: skip
SETS = (
    (Set(),),
    (Set("cpu", 2, "pool"), Set("gpu", 1, "gpu", pod_template("1", 1))),
    (Set("head", 1, "static"), Set("main", 2)),
    (Set(count=0),),
)
JOBS: tuple[Obj, ...] = (
    {"spec": {"suspend": True}},
    {"spec": {"suspend": False}},
    {"spec": {"suspend": True}, "status": {"conditions": [condition("Failed", NOW_S)]}},
    {"spec": {"suspend": False}, "status": {"jobStatus": "RUNNING"}},
)
POLICY: Obj = {"steps": [{"attempts": 2}], "deadlines": {"provision": 60, "nodes": 30, "pods": 20}}


@st.composite
def gangs(draw: Any) -> tuple[Gang, Obj, list[Obj]]:
    """A gang, the policy, and the pods."""
    spec = {
        **POLICY,
        "onGiveUp": draw(st.sampled_from(("Park", "Reject"))),
        "readyWhen": draw(st.sampled_from(("Booked", "NodesReady"))),
        "managedResources": draw(st.sampled_from(([], ["nvidia.com/gpu"]))),
    }
    reserved_s = draw(st.sampled_from((NOW_S - 5, None)))
    base = Gang(
        sets=draw(st.sampled_from(SETS)),
        job_kind=draw(st.sampled_from(("Job", "RayJob"))),
    ).looks(policy=policy(**spec))
    asked = base
    for failures in draw(st.sets(st.integers(0, 2))):
        memory = Memory(pause=Pause.RESUMED, attempt=failures + 1, failures=failures)
        older = base.remembers(memory) if failures else base
        older = older.but(reserved_s=draw(st.sampled_from((NOW_S - 5, NOW_S - 50))))
        made = older.asked(NOW_S - draw(st.sampled_from((0, 30, 300))))
        asked = asked.but(
            requests=asked.requests + made.requests, templates=asked.templates + made.templates
        )
    for place in range(len(asked.requests)):
        asked = asked.answered(*draw(st.sampled_from(ANSWERS)), only=place)
    bookings = ["", *(r["metadata"]["name"] for r in asked.requests), "gone"]
    pods = [
        pod_object(
            f"p{n}",
            draw(st.sampled_from(bookings)),
            node=draw(st.sampled_from(("", "n"))),
            phase=draw(st.sampled_from(("Pending", "Running", "Succeeded"))),
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    notes = {}
    if memory_text := draw(st.sampled_from(MEMORIES)):
        notes[names.MEMORY] = memory_text
    if draw(st.integers(0, 5)) == 0:
        notes[names.ELASTIC] = "true"
    state = draw(st.sampled_from(("Pending", "Pending", "Ready", "Retry", "Rejected")))
    gang = asked.but(
        reserved_s=reserved_s,
        active=draw(st.booleans()),
        conditions=draw(st.sampled_from(CONDITIONS)),
        workload_annotations=notes,
        check={"state": state, "message": ""} if draw(st.integers(0, 7)) else None,
        job=draw(st.sampled_from(JOBS)),
    )
    kept = draw(st.integers(0, len(gang.templates)))
    return gang.but(templates=gang.templates[:kept]), spec, pods


def put(kube: FakeKube, kind: Resource, made: Obj, namespace: str = "team") -> Obj:
    """Create with status."""
    meta = {k: v for k, v in made["metadata"].items() if k not in ("uid", "resourceVersion")}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **made, "metadata": meta}
    there = kube.create(kind, body, namespace)
    if "status" in made:
        status = {"status": made["status"]}
        there = kube.patch(kind, meta["name"], status, namespace, sub="status")
    return there


def world(gang: Gang, spec: Obj, pods: list[Obj]) -> FakeKube:
    kube = FakeKube(ManualClock(NOW_S))
    kind = {"Job": JOB, "RayJob": RAY_JOB}[gang.job_kind]
    job = obj(kind, "train", {}, labels={names.QUEUE: "queue"}, annotations=gang.job_annotations)
    assert put(kube, kind, {**job, **gang.job})["metadata"]["uid"] == JOB_UID
    assert put(kube, WORKLOAD, gang.workload())["metadata"]["uid"] == UID
    for made in pods:
        put(kube, POD, made)
    for made in {t["metadata"]["name"]: t for t in gang.templates}.values():
        put(kube, POD_TEMPLATE, made)
    for made in {r["metadata"]["name"]: r for r in gang.requests}.values():
        put(kube, PROVISIONING_REQUEST, made)
    set_up(kube, **spec)
    kube.create(*_flavor("gpu"))
    kube.create(*_flavor("static"))
    return kube


def _flavor(name: str) -> tuple[Resource, Obj]:
    from taugrid_ray.kinds.resource import RESOURCE_FLAVOR

    return RESOURCE_FLAVOR, flavor(name, {"pool": name})


def live(kube: FakeKube, seconds: float) -> None:
    clock = kube.clock
    assert isinstance(clock, ManualClock)
    rng = random.Random(0)
    controller = Controller(FlakyApi(kube, rng, 0.0), clock, rng)
    until_s = clock.monotonic_s() + seconds
    while clock.monotonic_s() < until_s:
        controller.step()
        assert not controller.bugs
        clock.advance(max(0.1, min(controller.next_due_s(), 8.0)))
    controller.step()


@given(gangs())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@example((Gang(), POLICY, []))
def test_converges(found: tuple[Gang, Obj, list[Obj]]) -> None:
    kube = world(*found)
    began = kube.history.version
    live(kube, 400.0)
    rested = kube.history.version
    live(kube, 130.0)
    assert kube.history.version == rested, "it wrote after it had come to rest"
    assert len([w for w in kube.writes if w.resource_version > began]) < 60
    ours = [w.call for w in kube.writes if w.resource_version > began]
    assert {c.kind.kind for c in ours} <= {
        "Workload",
        "ProvisioningRequest",
        "PodTemplate",
        "Pod",
        "Event",
        "AdmissionCheck",
        "CapacityPolicy",
    }
    judge(kube, began)


def judge(kube: FakeKube, began: int) -> None:
    """R1 to R3 on all that was written. R4 and R8 need a Kueue that acts and states that can be
    reached; the simulated lives judge them."""
    account = Account(
        changes=tuple(changes(kube)), ended_at_s=kube.clock.now_s(), check=CHECK, provision_s=60.0
    )
    for finding in check_all(account):
        if finding.rule in ("R1", "R3"):
            assert finding.held, f"{finding.rule}: {finding.breaches}"
        if finding.rule == "R2":
            late = [b for b in finding.breaches if "Ready while" in b]
            assert not late, late


def test_a_users_own_pause_stays() -> None:
    """`active: false` without a memory of ours, or after we had resumed: never touched."""
    resumed = Memory(pause=Pause.RESUMED, attempt=2, failures=1)
    for gang in (Gang(active=False), Gang().remembers(resumed, active=False)):
        kube = world(replace(gang, reserved_s=None), POLICY, [])
        live(kube, 400.0)
        assert kube.get(WORKLOAD, "job-train-1234", "team")["spec"]["active"] is False
