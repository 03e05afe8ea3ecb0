"""Finding a cluster's processes in /proc, and its mounts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster import mounts, processes
from e2e.cluster.layout import Layout
from e2e.cluster.parts import Parts
from e2e.cluster.processes import MARKER, Process
from e2e.cluster.settings import ClusterError

MINE = "/clusters/mine"


def process(
    pid: int, *, parent: int = 1, folder: str = "", network: str = "net:[1]", started: int = 0
) -> Process:
    return Process(pid, parent, started, folder, network)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        pytest.param(b"A=1\0" + MARKER.encode() + b"=/x/y\0B=2\0", "/x/y", id="in the middle"),
        pytest.param(MARKER.encode() + b"=/x=y z\0", "/x=y z", id="with odd characters"),
        pytest.param(b"NOT_" + MARKER.encode() + b"=/x\0", "", id="a longer name is another"),
        pytest.param(b"A=" + MARKER.encode() + b"=/x\0", "", id="not within a value"),
        pytest.param(b"", "", id="a kernel thread"),
        pytest.param(b"ray::IDLE\0\0\0", "", id="written over by a title"),
    ],
)
def test_the_marker_is_read_from_an_environment(environ: bytes, folder: str) -> None:
    assert processes.marker_in(environ) == folder


def test_stat_is_read_behind_a_name_that_holds_anything() -> None:
    rest = " ".join(str(number) for number in range(5, 30))
    assert processes.parse_stat(f"77 (a) b (c)) S 4 {rest}") == ("S", 4, 22)


@pytest.mark.parametrize(
    ("everyone", "found"),
    [
        pytest.param([process(5, folder=MINE), process(6)], {5}, id="by the marker"),
        pytest.param([process(5, folder=MINE + "2")], set(), id="not by a longer path"),
        pytest.param([process(5, network="net:[9]")], {5}, id="by a network of the cluster"),
        pytest.param([process(5, started=42)], {5}, id="by its record"),
        pytest.param([process(5, started=43)], set(), id="not when the pid is used again"),
        pytest.param(
            [process(7, parent=6), process(6, parent=5), process(5, folder=MINE)],
            {5, 6, 7},
            id="with all descendants",
        ),
        pytest.param([process(9, folder=MINE)], set(), id="but never ourselves"),
    ],
)
def test_who_belongs_to_a_cluster(everyone: list[Process], found: set[int]) -> None:
    assert (
        processes.belonging(everyone, MINE, networks={"net:[9]"}, recorded={(5, 42)}, spared={9})
        == found
    )


def test_the_caller_and_its_ancestors_are_spared() -> None:
    spared = processes.self_and_ancestors()
    assert {os.getpid(), os.getppid()} <= spared


def test_marked_processes_are_ended_with_their_children(tmp_path: Path) -> None:
    """The child ignores SIGTERM, hides its environment, and has a session of its own."""
    stubborn = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    script = (
        "import subprocess,sys,time;"
        f"subprocess.Popen([sys.executable, '-c', {stubborn!r}], env={{}}, start_new_session=True);"
        "print('up', flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, MARKER: str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    with parent:
        assert processes.end_all(tmp_path) == 2
    assert processes.end_all(tmp_path) == 0


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    layout = Layout(tmp_path / "cluster")
    layout.make()
    return Parts(layout)


def test_a_part_is_started_killed_and_started_again(parts: Parts) -> None:
    parts.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], {"A": "1"})
    first = parts.record("sleeper").pid
    try:
        assert parts.running("sleeper")
        with pytest.raises(ClusterError, match="runs already"):
            parts.start("sleeper", ["true"], {})
        parts.kill("sleeper")
        assert not parts.running("sleeper")
        parts.start_again("sleeper")
        assert parts.record("sleeper").pid != first
        assert parts.record("sleeper").env == {"A": "1"}
    finally:
        parts.stop("sleeper", timeout_s=10)
    assert not parts.running("sleeper")


def test_a_part_that_dies_is_reported_with_code_and_log(parts: Parts) -> None:
    parts.start("broken", [sys.executable, "-c", "print('why it broke'); raise SystemExit(7)"], {})
    with pytest.raises(ClusterError) as died:
        parts.wait_until("broken", lambda: False, what="broken is ready", timeout_s=30)
    assert "broken ended with exit code 7" in died.value.message
    assert "why it broke" in died.value.message
    assert str(parts.log("broken")) in died.value.message


def test_a_part_that_cannot_be_found_is_named(parts: Parts) -> None:
    with pytest.raises(ClusterError, match="no part nothing"):
        parts.record("nothing")
    with pytest.raises(ClusterError, match="cannot be started"):
        parts.start("absent", ["/does/not/exist"], {})


def test_a_parts_name_never_leaves_the_folder(parts: Parts) -> None:
    assert parts.log("../../etc/passwd").parent == parts.log("plain").parent
    assert parts.log("a/b") != parts.log("a-b")


def test_a_cluster_does_not_inherit_another_clusters_address(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/another")
    script = "import os; print(os.environ.get('KUBECONFIG'), flush=True); raise SystemExit(0)"
    parts.start("asks", [sys.executable, "-c", script], {})
    with pytest.raises(ClusterError, match="None"):
        parts.wait_until("asks", lambda: False, what="never", timeout_s=30)


MOUNTINFO = r"""
22 1 8:1 / / rw - ext4 /dev/a rw
23 22 0:5 / /clusters/mine/run rw - tmpfs t rw
24 23 0:6 / /clusters/mine/run/a\040b rw - tmpfs t rw
25 22 0:7 / /clusters/mine2 rw - tmpfs t rw
""".strip()


def test_mounts_below_a_folder_come_deepest_first() -> None:
    assert mounts.below(MOUNTINFO, Path(MINE)) == [f"{MINE}/run/a b", f"{MINE}/run"]
