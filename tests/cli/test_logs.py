"""`logs`: of which pod, to the end, through cuts and replacements, harmless on a terminal."""

from __future__ import annotations

import pytest

from taugrid_ray.cli.logs_command import for_terminal
from taugrid_ray.errors import ApiError, Forbidden, NotFound, Unreachable
from taugrid_ray.kinds.resource import JOB, POD, RAY_JOB, WORKLOAD
from tests.cli.conftest import World, interrupted
from tests.jobs.builders import HEAD, SUBMITTER, job, pod, ray_job, workload

RUNS = job(suspend=False)
RAY = ray_job(suspend=False, deployment="Running", program="RUNNING", cluster="train-abc")
DONE = ray_job(suspend=False, deployment="Complete", program="SUCCEEDED", cluster="train-abc")


def _line(second: int, text: str) -> bytes:
    return f"2027-01-01T00:00:{second:02d}.5Z {text}\n".encode()


@pytest.fixture
def ray(world: World) -> World:
    owner = world.put(RAY_JOB, RAY)
    world.put(WORKLOAD, workload(owner, told={"QuotaReserved": "True", "Admitted": "True"}))
    world.put(POD, pod("head", node="n", phase="Running", ready=True, labels=HEAD))
    world.put(POD, pod("sub", node="n", phase="Running", ready=True, labels=SUBMITTER))
    return world


def _submitter_ends(world: World, code: int = 0) -> None:
    phase = "Failed" if code else "Succeeded"
    world.put(POD, pod("sub", node="n", phase=phase, labels=SUBMITTER, exit_code=code))


def test_without_follow_the_output_so_far(ray: World) -> None:
    ray.printed["sub"] = [b"one\ntw", b"o\n"]
    result = ray.run("logs", "train", "--tail", "5")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert result.stderr == "pod sub\n"
    (stream,) = ray.streams
    assert (stream["tail_lines"], stream["container"], stream["previous"]) == (5, "main", False)
    assert "follow" not in stream


def test_a_certain_pod_and_container(ray: World) -> None:
    ray.printed["head"] = [b"head\n"]
    assert ray.run("logs", "train", "--pod", "head", "-c", "main").stdout == "head\n"
    wrong = ray.run("logs", "train", "--pod", "nope")
    assert wrong.exit_code == 2
    assert "its pods: head, sub" in wrong.stderr


def test_a_job_that_has_not_started_says_why(world: World) -> None:
    owner = world.put(JOB, job())
    told = {"QuotaReserved": ("False", "Pending", "no quota", 5.0)}
    world.put(WORKLOAD, workload(owner, told=told))
    result = world.run("logs", "train")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "taugrid: job default/train has printed nothing: its pods have not started; waits for "
        'quota in queue "team-a": no quota (wait for it with: taugrid logs job/train -n default '
        "-f)\n"
    )


def test_follow_waits_for_the_start_and_reads_to_the_end(world: World) -> None:
    owner = world.put(RAY_JOB, ray_job())
    world.put(WORKLOAD, workload(owner, told={"QuotaReserved": "True"}))
    world.printed["sub"] = [_line(1, "hello"), _line(2, "done")]

    def starts() -> None:
        world.put(RAY_JOB, RAY)
        _submitter_ends(world)

    world.then(starts, lambda: world.put(RAY_JOB, DONE))
    result = world.run("logs", "train", "-f")
    assert (result.exit_code, result.stdout) == (0, "hello\ndone\n"), result.output
    assert "Provisioning" in result.stderr


def test_follow_ends_with_the_jobs_verdict(ray: World) -> None:
    ray.printed["sub"] = [_line(1, "boom")]
    _submitter_ends(ray, code=1)
    failed = ray_job(suspend=False, deployment="Failed", program="FAILED", cluster="train-abc")
    ray.then(lambda: ray.put(RAY_JOB, failed))
    result = ray.run("logs", "train", "-f")
    assert (result.exit_code, result.stdout) == (125, "boom\n")


def test_a_cut_connection_neither_loses_nor_repeats_a_line(ray: World) -> None:
    lines = [_line(1, "one"), _line(2, "two"), _line(2, "two again"), _line(3, "three")]
    sent = b"".join(lines)
    cut = Unreachable("read the log of Pod default/sub: no answer")
    at = sent.index(b"again")
    ray.printed["sub"] = [sent[:at], cut, sent]

    def ends() -> None:
        _submitter_ends(ray)
        ray.put(RAY_JOB, DONE)

    ray.then(ends)
    result = ray.run("logs", "train", "-f", "--tail", "9")
    assert result.exit_code == 0, result.output
    assert result.stdout == "one\ntwo\ntwo again\nthree\n"
    assert [s["tail_lines"] for s in ray.streams] == [9, None]
    assert "no answer" in result.stderr


def test_a_stream_that_ends_is_no_end_of_the_program(ray: World) -> None:
    """The kubelet closes it, the pod runs on: read on until the pod has ended."""
    ray.printed["sub"] = [_line(1, "one")]

    def more() -> None:
        ray.printed["sub"].append(_line(2, "two"))

    def ends() -> None:
        _submitter_ends(ray)
        ray.put(RAY_JOB, DONE)

    ray.then(more, ends)
    result = ray.run("logs", "train", "-f")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")


def test_follow_goes_on_with_the_pod_that_replaces_a_failed_one(world: World) -> None:
    owner = world.put(JOB, RUNS)
    world.put(WORKLOAD, workload(owner, told={"QuotaReserved": "True", "Admitted": "True"}))
    world.put(POD, pod("a", node="n", phase="Failed", exit_code=1))
    world.printed |= {"a": [_line(1, "first try")], "b": [_line(9, "second try")]}
    ended = job(status={"succeeded": 3}, ended={"Complete": "True"})

    def replaced() -> None:
        world.put(POD, pod("b", node="n", phase="Succeeded", exit_code=0, created_s=60.0))

    world.then(replaced, lambda: world.put(JOB, ended))
    result = world.run("logs", "train", "-f")
    assert (result.exit_code, result.stdout) == (0, "first try\nsecond try\n"), result.output
    assert "pod a" in result.stderr
    assert "pod b" in result.stderr


def test_a_container_between_two_starts_is_waited_for(ray: World) -> None:
    ray.printed["sub"] = [ApiError("container is waiting to start", status=400), _line(1, "up")]

    def ends() -> None:
        _submitter_ends(ray)
        ray.put(RAY_JOB, DONE)

    ray.then(ends)
    assert ray.run("logs", "train", "-f").stdout == "up\n"


def test_a_pod_that_goes_while_it_is_read_ends_the_reading(ray: World) -> None:
    ray.printed["sub"] = [_line(1, "one"), NotFound("pods sub not found")]
    ray.put(RAY_JOB, DONE)

    def gone() -> None:
        ray.gone(POD, "sub")

    ray.then(gone)
    assert ray.run("logs", "train", "-f").stdout == "one\n"


def test_logs_that_may_not_be_read_are_an_error(ray: World) -> None:
    for args in (["logs", "train"], ["logs", "train", "-f"]):
        ray.printed["sub"] = [Forbidden("pods/log is forbidden")]
        result = ray.run(*args)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1] == "taugrid: pods/log is forbidden"


def test_ctrl_c_while_following(ray: World) -> None:
    ray.printed["sub"] = [_line(1, "one")]
    ray.then(interrupted)
    result = ray.run("logs", "train", "-f")
    assert result.exit_code == 130
    assert "is untouched and goes on" in result.stderr
    assert "taugrid logs rayjob/train -n default -f" in result.stderr


def test_previous_and_follow_exclude_each_other(ray: World) -> None:
    assert ray.run("logs", "train", "-f", "--previous").exit_code == 2
    assert ray.run("logs", "train", "--previous").exit_code == 0


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain\n", "plain\n"),
        (b"tab\tand \xc3\xa9\n", "tab\tand é\n"),
        (b"\x1b[31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;title\x07x\n", "x\n"),
        (b"\x1b]52;c;cm0gLXJm\x1b\\x\n", "x\n"),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (b"\x1bP+q544e\x1b\\x\n", "x\n"),
        (b"\x1b[2J\x1b[Hx\x1bc\n", "x\n"),
        (b"\x9b31mx\n", "\ufffd31mx\n"),
        (b"\xc2\x9b31mx\n", "31mx\n"),
        (b"\x08\x08\x7fx\x00\n", "x\n"),
        (b"10%\r20%\r\n", "10%\n20%\n"),
        (b"\xe2\x80\xaeevil\n", "evil\n"),
        (b"\x1b]0;never ends\n", ""),
        (b"\x1b", ""),
    ],
)
def test_what_a_program_prints_can_do_nothing_to_a_terminal(line: bytes, shown: str) -> None:
    assert for_terminal(line) == shown
