"""`wait`: until when, how it ends, and what a server that is away does to it."""

from __future__ import annotations

import json

import pytest

from taugrid_ray import sentences
from taugrid_ray.errors import Forbidden, Unreachable
from taugrid_ray.kinds.resource import JOB, RAY_JOB, WORKLOAD, Obj
from taugrid_ray.memory import Memory, Pause
from tests.cli.conftest import World, interrupted
from tests.jobs.builders import T0, check, job, ray_job, workload

WHY = sentences.timed_out("3 pods", 900, "", "some-class")
RESERVED = {"QuotaReserved": "True"}
COMPLETE = job(status={"succeeded": 3}, ended={"Complete": "True"})


@pytest.fixture
def queued(world: World) -> World:
    owner = world.put(JOB, job())
    told = {"QuotaReserved": ("False", "Pending", "no quota", 5.0)}
    world.put(WORKLOAD, workload(owner, told=told))
    return world


def _set(world: World, **given: object) -> None:
    world.put(WORKLOAD, workload(world.kube.objects(JOB)[0], **given))  # type: ignore[arg-type]


def _end(world: World, obj: Obj) -> None:
    world.put(JOB, obj)


ENDS = [
    pytest.param(lambda w: _end(w, COMPLETE), 0, "Succeeded", id="succeeded"),
    pytest.param(
        lambda w: _end(w, job(ended={"Failed": ("True", "DeadlineExceeded", "", 9.0)})),
        125, "Failed", id="failed",
    ),
    pytest.param(lambda w: w.gone(JOB, "train"), 125, "Deleted", id="deleted by somebody"),
    pytest.param(
        lambda w: _set(w, active=False, memory=Memory(Pause.GAVE_UP, failures=3, message="why")),
        125, "GaveUp", id="gave up",
    ),
    pytest.param(
        lambda w: _set(w, told=RESERVED, checks=[check("Rejected", "never")]),
        125, "Refused", id="refused",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("step", "code", "outcome"), ENDS)
def test_it_ends_with_the_jobs_own_verdict(
    queued: World, step: object, code: int, outcome: str
) -> None:
    queued.then(lambda: step(queued))  # type: ignore[operator]
    result = queued.run("wait", "train", "-o", "json")
    assert result.exit_code == code, result.output
    assert json.loads(result.stdout)["outcome"] == outcome
    if code:
        assert f"taugrid: job default/train ended: {outcome}: " in result.stderr


def test_giving_up_prints_how_to_start_again(queued: World) -> None:
    memory = Memory(Pause.GAVE_UP, failures=3, message=WHY.sentence, at_s=T0)
    queued.then(lambda: _set(queued, active=False, memory=memory))
    result = queued.run("wait", "train")
    last = result.stderr.splitlines()[-1]
    assert "(taugrid resume job/train -n default)" in last
    assert (result.exit_code, result.stdout) == (125, "")


def test_parked_is_no_end(queued: World) -> None:
    parked = Memory(Pause.PARKED, failures=1, message=WHY.sentence, at_s=T0, resume_at_s=T0 + 60)
    queued.then(
        lambda: _set(queued, active=False, memory=parked),
        lambda: _set(queued, active=False, told={"Evicted": "True"}),
        lambda: _end(queued, COMPLETE),
    )
    assert queued.run("wait", "train").exit_code == 0


def test_the_wait_may_be_over_before_the_job(queued: World) -> None:
    result = queued.run("wait", "train", "--timeout", "1m30s")
    assert result.exit_code == 124
    last = result.stderr.splitlines()[-1]
    assert last.startswith("taugrid: job default/train goes on, the wait of 90 s is over: Queued: ")
    assert queued.clock.monotonic_s() == pytest.approx(90, abs=0.1)
    assert not queued.kube.written()


def test_a_timeout_of_zero_looks_once(queued: World) -> None:
    assert queued.run("wait", "train", "--timeout", "0").exit_code == 124
    _end(queued, COMPLETE)
    assert queued.run("wait", "train", "--timeout", "0").exit_code == 0
    assert queued.sleeps == 0


def test_waiting_for_running_ends_when_it_runs(world: World) -> None:
    owner = world.put(RAY_JOB, ray_job())
    world.put(WORKLOAD, workload(owner, told=RESERVED, checks=[check()]))
    runs = ray_job(suspend=False, deployment="Running", program="RUNNING")

    def admitted() -> None:
        world.put(WORKLOAD, workload(owner, told={**RESERVED, "Admitted": "True"}))
        world.put(RAY_JOB, runs)

    world.then(admitted)
    result = world.run("wait", "train", "--for", "running")
    assert result.exit_code == 0
    assert result.stdout == "rayjob default/train: Running: Ray says the program is RUNNING\n"


def test_it_sleeps_on_the_workload_and_then_on_the_job(world: World) -> None:
    owner = world.put(JOB, job())
    runs = job(suspend=False, status={"ready": 3})

    def admitted() -> None:
        world.put(WORKLOAD, workload(owner, told={**RESERVED, "Admitted": "True"}))
        world.put(JOB, runs)

    world.then(lambda: _set(world, told=RESERVED), admitted, lambda: _end(world, COMPLETE))
    assert world.run("wait", "train").exit_code == 0
    assert world.slept_on == [WORKLOAD, WORKLOAD, JOB]


def test_a_state_that_does_not_change_is_told_once(queued: World) -> None:
    queued.then(*[lambda: None] * 50, lambda: _end(queued, COMPLETE))
    result = queued.run("wait", "train")
    assert len(result.stderr.splitlines()) == 2


def test_numbers_that_move_are_told_now_and_then_only(world: World) -> None:
    owner = world.put(JOB, job(suspend=False, pods=500))
    world.put(WORKLOAD, workload(owner, told={**RESERVED, "Admitted": "True"},
                                 counts={"main": 500}))  # fmt: skip

    def ready(count: int) -> None:
        body = {"status": {"ready": count, "succeeded": count}}
        world.kube.patch(JOB, "train", body, "default", sub="status")

    steps = [lambda count=count: ready(count) for count in range(1, 101)]
    world.then(*steps, lambda: _end(world, COMPLETE))
    result = world.run("wait", "train")
    told = [line for line in result.stderr.splitlines() if "succeeded" in line]
    assert 5 < len(told) < 20


def test_a_queued_job_costs_two_calls_a_look(queued: World) -> None:
    done = {"status": COMPLETE["status"]}
    queued.then(
        *[lambda: None] * 9,
        lambda: queued.kube.patch(JOB, "train", done, "default", sub="status"),
    )
    assert queued.run("wait", "job/train").exit_code == 0
    calls = queued.kube.calls
    assert calls["get", "Job"] == 12  # to find it, and eleven looks
    assert calls["list", "Workload"] == 11
    assert calls["list", "Pod"] == 0
    assert calls["list", "Event"] == 0


def test_a_server_that_is_away_for_a_while_does_not_end_the_wait(queued: World) -> None:
    gone = Unreachable("get Job default/train: no answer")
    queued.then(
        lambda: queued.kube.fail("get", JOB, gone, times=5),
        *[lambda: None] * 6,
        lambda: _end(queued, COMPLETE),
    )
    result = queued.run("wait", "train")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("no answer; the job does not depend on it, asking again") == 1


def test_a_server_that_stays_away_ends_the_wait_with_the_last_state(queued: World) -> None:
    gone = Unreachable("get Job default/train: no answer")
    queued.then(lambda: queued.kube.fail("get", JOB, gone, times=100_000))
    result = queued.run("wait", "train")
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("taugrid: get Job default/train: no answer (last seen Queued: waits")
    assert 300 <= queued.clock.monotonic_s() < 320


def test_a_right_that_is_lost_ends_the_wait(queued: World) -> None:
    queued.then(lambda: queued.kube.fail("get", JOB, Forbidden("no right"), times=9))
    assert queued.run("wait", "train").exit_code == 1


def test_a_job_made_anew_under_the_same_name_is_another(queued: World) -> None:
    def anew() -> None:
        queued.gone(JOB, "train")
        other = job()
        other["metadata"]["uid"] = "other-uid"
        queued.put(JOB, other)

    queued.then(anew)
    result = queued.run("wait", "train")
    assert result.exit_code == 125
    assert "Deleted" in result.stderr


def test_ctrl_c_does_not_touch_the_job(queued: World) -> None:
    queued.then(interrupted)
    result = queued.run("wait", "train", "--kubeconfig", "/a b/config")
    assert result.exit_code == 130
    assert "is untouched and goes on" in result.stderr
    assert "--kubeconfig '/a b/config'" in result.stderr
    assert not queued.kube.written()


@pytest.mark.parametrize("text", ["", "x", "5 m", "1h30", "-3", "1e3", "m"])
def test_a_time_that_is_none_is_a_usage_error(world: World, text: str) -> None:
    result = world.run("wait", "train", f"--timeout={text}")
    assert result.exit_code == 2
    assert "is no time" in result.stderr
