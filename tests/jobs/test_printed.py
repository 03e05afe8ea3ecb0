"""Which pod's output is read, and that a cut connection neither loses nor repeats a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray.errors import UsageError
from taugrid_ray.jobs.printed import Lines, NotYet, Source, Wanted, source_of
from tests.jobs.builders import HEAD, SUBMITTER, WORKER, job, pod, ray_job, seen

RUNS = job(suspend=False)
RAY = ray_job(suspend=False, deployment="Running", cluster="train-abc")
HEAD_POD = pod("head", labels=HEAD, phase="Running", containers=("ray-head",))
SUBMITTER_POD = pod("sub", labels=SUBMITTER, phase="Running", containers=("ray-job-submitter",))


def _name(found: Source | NotYet) -> str:
    return f"{found.pod.name}/{found.container}" if isinstance(found, Source) else found.why


def test_a_job_is_read_from_its_first_pod_that_runs() -> None:
    pods = [pod("b", phase="Running"), pod("a", phase="Running"), pod("c", phase="Succeeded",
                                                                       exit_code=0)]  # fmt: skip
    found = source_of(seen(RUNS, pods=pods))
    assert isinstance(found, Source)
    assert (found.pod.name, found.others) == ("a", 2)


def test_a_pod_that_waits_prints_nothing() -> None:
    assert _name(source_of(seen(RUNS, pods=[pod()]))) == "its pods have not started"
    assert _name(source_of(seen(RUNS))) == "its pods have not started"


def test_a_rayjob_is_read_from_its_submitter() -> None:
    assert _name(source_of(seen(RAY, pods=[HEAD_POD, SUBMITTER_POD]))) == "sub/ray-job-submitter"
    assert _name(source_of(seen(RAY, pods=[HEAD_POD]))) == "its submitter pod has not started"


def test_a_second_try_is_read_from_the_newer_submitter() -> None:
    newer = pod("sub2", labels=SUBMITTER, phase="Running", created_s=99.0)
    assert _name(source_of(seen(RAY, pods=[SUBMITTER_POD, newer]))) == "sub2/main"


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_without_a_submitter_the_head_is_read(mode: str) -> None:
    owner = ray_job(suspend=False, mode=mode, cluster="train-abc")
    worker = pod("w", labels=WORKER, phase="Running")
    assert _name(source_of(seen(owner, pods=[worker, HEAD_POD]))) == "head/ray-head"


def test_a_sidecar_is_read_beside_the_head() -> None:
    owner = ray_job(suspend=False, mode="SidecarMode", cluster="train-abc")
    head = pod("h", labels=HEAD, phase="Running", containers=("ray-head", "ray-job-submitter"))
    assert _name(source_of(seen(owner, pods=[head]))) == "h/ray-job-submitter"


def test_an_ended_rayjob_without_a_submitter_is_read_from_the_head() -> None:
    ended = ray_job(suspend=False, deployment="Failed", cluster="train-abc")
    assert _name(source_of(seen(ended, pods=[HEAD_POD]))) == "head/ray-head"


def test_a_replacement_is_a_pod_made_later() -> None:
    failed = pod("a", phase="Failed", exit_code=1)
    sibling = pod("b", phase="Running")
    newer = pod("c", phase="Running", created_s=60.0)
    first = source_of(seen(RUNS, pods=[failed]))
    assert isinstance(first, Source)
    found = seen(RUNS, pods=[failed, sibling])
    assert isinstance(source_of(found, after=first.pod), NotYet)
    found = seen(RUNS, pods=[failed, sibling, newer])
    assert _name(source_of(found, after=first.pod)) == "c/main"


def test_a_named_pod_must_be_of_the_job() -> None:
    found = seen(RUNS, pods=[pod("a", phase="Running"), pod("b")])
    assert _name(source_of(found, Wanted(pod="a"))) == "a/main"
    assert _name(source_of(found, Wanted(pod="b"))) == 'pod "b" has not started'
    with pytest.raises(UsageError, match=r"no pod 'x' of this job; its pods: a, b"):
        source_of(found, Wanted(pod="x"))
    with pytest.raises(UsageError, match=r"no container 'x' in pod a; it has: main"):
        source_of(found, Wanted(pod="a", container="x"))


# Lines

STAMPED = st.lists(
    st.tuples(st.integers(0, 3), st.binary(max_size=5).filter(lambda b: b"\n" not in b))
)


def _printed(lines: list[tuple[int, bytes]]) -> tuple[bytes, bytes]:
    """What the server sends, and what the program printed: times go up, and may stand still."""
    sent, shown, second = b"", b"", 0
    for step, text in lines:
        second += step
        sent += b"2027-01-01T00:00:%02d.000000001Z %s\n" % (second % 60, text)
        shown += text + b"\n"
        if second > 55:
            break
    return sent, shown


@given(STAMPED, st.lists(st.integers(0, 400), max_size=5))
def test_a_stream_cut_anywhere_is_read_once(
    lines: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    sent, shown = _printed(lines)
    reader, got = Lines(), b""
    for cut in cuts:
        reader.begin()
        for start in range(0, min(cut, len(sent)), 7):
            got += b"".join(reader.take(sent[start : min(start + 7, cut)]))
    reader.begin()
    got += b"".join(reader.take(sent)) + b"".join(reader.end())
    assert got == shown


def test_a_last_line_without_a_break_and_one_without_a_time_are_shown() -> None:
    reader = Lines()
    reader.begin()
    got = [*reader.take(b"unable to read\n2027-01-01T00:00:01Z half"), *reader.end()]
    assert got == [b"unable to read\n", b"half"]
