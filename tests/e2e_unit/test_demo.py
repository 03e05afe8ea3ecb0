"""The demo's pure part: what is told at which moment of a job's life, and how it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2e.demo.facts import Asked, Facts, Gang, Machine, Member, gather
from e2e.demo.story import CLEAN, SUCCEEDED, WHOLE, Line, Scene, Told, render, tell
from taugrid_ray.kinds.resource import Obj

SCENE = Scene("team-a", "cpu-pool", quota="8", real=True)
GANG = Gang(
    name="rayjob-pi",
    pod_sets=(("head", 1), ("workers", 2), ("submitter", 1)),
    cpus=3.1,
    reserved=False,
    admitted=False,
    check_says="booked 4 pods",
)
RESERVED = replace(GANG, reserved=True)
ADMITTED = replace(RESERVED, admitted=True)
NODES = (Machine("n1", ready=True), Machine("n2", ready=False))
HEAD = Member("pi-head", "head", "n1", "Running", ready=True)
WORKERS = tuple(Member(f"pi-w{n}", "worker", "n1", "Running", ready=True) for n in (1, 2))
SUBMITTER = Member("pi-x", "submitter", "n2", "Running", ready=True)

MOMENTS = [
    Facts(created=True),
    Facts(created=True, gang=GANG),
    Facts(created=True, gang=RESERVED),
    Facts(created=True, gang=RESERVED, requests=(Asked("pi-1", 4, booked=False),), templates=3),
    Facts(created=True, gang=ADMITTED, requests=(Asked("pi-1", 4, booked=True),), templates=3),
    Facts(
        created=True,
        gang=ADMITTED,
        requests=(Asked("pi-1", 4, booked=True),),
        templates=3,
        nodes=NODES,
        pods=(HEAD, replace(WORKERS[0], ready=False)),
    ),
    Facts(created=True, gang=ADMITTED, nodes=NODES, pods=(HEAD, *WORKERS)),
    Facts(
        created=True,
        gang=ADMITTED,
        nodes=NODES,
        pods=(HEAD, *WORKERS, SUBMITTER),
        job_status="RUNNING",
    ),
    Facts(
        created=True,
        gang=ADMITTED,
        nodes=NODES,
        pods=(replace(SUBMITTER, phase="Succeeded"),),
        job_status="SUCCEEDED",
        finished=True,
    ),
    Facts(created=True, gang=ADMITTED, job_status="SUCCEEDED", finished=True),
    Facts(),
]


def story(moments: list[Facts], scene: Scene = SCENE) -> list[tuple[int, Line]]:
    """Each line with the number of the moment at which it is told; a moment is ten seconds."""
    at_s: dict[str, float] = {}
    lines = []
    for number, facts in enumerate(moments):
        for line in tell(facts, scene, Told(dict(at_s), 10.0 * number)):
            if line.key not in at_s:
                at_s[line.key] = 10.0 * number
                lines.append((number, line))
    return lines


def test_each_thing_is_told_when_it_happens_and_once() -> None:
    told = [(number, line.key) for number, line in story(MOMENTS)]
    assert told == [
        (1, "gang"),
        (2, "quota"),
        (3, "request"),
        (4, "booked"),
        (4, "admitted"),
        (5, "node n1"),
        (5, "node n1 ready"),
        (5, "node n2"),
        (5, "pod pi-head"),
        (5, "pod pi-head ready"),
        (5, "pod pi-w1"),
        (6, "pod pi-w2"),
        (6, "pod pi-w1 ready"),
        (6, "pod pi-w2 ready"),
        (6, WHOLE),
        (7, "used"),
        (7, "submitter"),
        (7, "program"),
        (8, SUCCEEDED),
        (9, "down"),
        (9, "node n1 gone"),
        (10, CLEAN),
    ]


def test_a_line_says_how_long_it_took() -> None:
    text = {line.key: line.text for _, line in story(MOMENTS)}
    assert text["quota"] == "QUOTA RESERVED, 10.0 s later: 3.1 of 8 CPUs."
    assert "10.0 s later" in text["booked"]
    assert "20.0 s after the quota" in text["admitted"]
    assert "20.0 s after admission" in text[WHOLE]
    assert "70.0 s after it was queued" in text[SUCCEEDED]


def test_every_wait_has_a_place_to_look_at() -> None:
    looks = {line.key: line.look for _, line in story(MOMENTS)}
    for key in ("gang", "quota", "request", "booked", "admitted", "pod pi-head", SUCCEEDED):
        assert looks[key].startswith("-n team-a "), key
    assert looks["node n1"] == "get nodes -l pool=cpu-pool"
    assert looks["node n1 ready"] == ""


def test_fake_nodes_have_no_program_and_no_logs() -> None:
    lines = [line for _, line in story(MOMENTS, replace(SCENE, real=False))]
    assert not {"submitter", "program", SUCCEEDED} & {line.key for line in lines}
    assert not [line.look for line in lines if "logs" in line.look]
    assert WHOLE in {line.key for line in lines}


def test_a_gang_is_not_whole_with_one_worker() -> None:
    few = replace(MOMENTS[6], pods=(HEAD, WORKERS[0]))
    assert WHOLE not in {line.key for _, line in story([*MOMENTS[:6], few])}


@pytest.mark.parametrize(
    "left",
    [
        Facts(pods=(SUBMITTER,)),
        Facts(nodes=NODES),
        Facts(requests=(Asked("pi-1", 4, booked=True),)),
        Facts(templates=1),
        Facts(gang=GANG),
        Facts(created=True),
    ],
)
def test_it_is_not_clean_while_anything_is_left(left: Facts) -> None:
    assert CLEAN not in {line.key for _, line in story([*MOMENTS[:-1], left])}


def test_a_line_is_shown_with_its_time_and_a_whole_command() -> None:
    shown = render(Line("key", "it waits.", ("for you.",), "get nodes"), 7.25, "./kubectl")
    assert shown.splitlines() == [
        "  7.2 s  it waits.",
        "         for you.",
        "         $ ./kubectl get nodes",
    ]


def test_what_others_wrote_stays_on_its_line() -> None:
    odd = replace(ADMITTED, check_says="booked\x1b[2J\nall")
    line = next(each for _, each in story([Facts(gang=odd)]) if each.key == "admitted")
    assert "\x1b" not in render(line, 0.0, "kubectl")
    assert "booked [2J all" in line.more[0]


def test_facts_are_read_from_the_api_servers_objects() -> None:
    def named(name: str, **labels: str) -> Obj:
        return {"metadata": {"name": name, "namespace": "team-a", "labels": labels}}

    facts = gather(
        ray_job={**named("pi"), "status": {"jobStatus": "RUNNING"}},
        workloads=[
            {
                **named("rayjob-pi"),
                "spec": {"podSets": [{"name": "head", "count": 1}]},
                "status": {
                    "conditions": [{"type": "QuotaReserved", "status": "True"}],
                    "admission": {
                        "podSetAssignments": [
                            {"name": "head", "resourceUsage": {"cpu": "1"}},
                            {"name": "workers", "resourceUsage": {"cpu": "500m"}},
                        ]
                    },
                    "admissionChecks": [
                        {"name": "capacity", "state": "Pending", "message": "asked"}
                    ],
                },
            }
        ],
        requests=[
            {
                **named("pi-1"),
                "spec": {"podSets": [{"count": 1}, {"count": 2}]},
                "status": {"conditions": [{"type": "Provisioned", "status": "True"}]},
            }
        ],
        templates=[named("a"), named("b")],
        nodes=[{**named("n1"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}],
        pods=[
            {
                **named("pi-head", **{"ray.io/node-type": "head"}),
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running"},
            },
            named("pi-x"),
        ],
        check="capacity",
    )
    assert facts == Facts(
        gang=Gang("rayjob-pi", (("head", 1),), 1.5, True, False, "asked"),
        requests=(Asked("pi-1", 3, booked=True),),
        templates=2,
        nodes=(Machine("n1", ready=True),),
        pods=(
            Member("pi-head", "head", "n1", "Running", ready=False),
            Member("pi-x", "submitter", "", "Pending", ready=False),
        ),
        created=True,
        job_status="RUNNING",
    )
