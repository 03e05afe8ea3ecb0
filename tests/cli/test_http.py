"""The installed command as a process, against the pretend API server over HTTP, Ctrl-C included."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taugrid_ray.kinds.resource import JOB, POD, WORKLOAD
from taugrid_ray.kube.clock import SystemClock
from tests.fake_kube import Face, FakeKube
from tests.jobs.builders import job, pod, workload

PATIENCE_S = 20.0


class Cluster:
    def __init__(self, face: Face, kubeconfig: Path) -> None:
        self.face, self.kube = face, face.kube
        self.env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONWARNINGS": "error"}

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from taugrid_ray.cli.main import main; main()", *args]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, env=self.env, text=True, **pipes)

    def run(self, *args: str) -> tuple[int, str, str]:
        process = self.start(*args)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def put(self, kind: Any, obj: dict[str, Any]) -> dict[str, Any]:
        meta = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion",)}
        made = self.kube.create(kind, {**obj, "metadata": meta}, "default")
        body = {"status": obj["status"]}
        return self.kube.patch(kind, made["metadata"]["name"], body, "default", sub="status")

    def queued_job(self) -> dict[str, Any]:
        owner = self.put(JOB, job())
        told = {"QuotaReserved": ("False", "Pending", "no quota", 5.0)}
        self.put(WORKLOAD, workload(owner, told=told))
        return owner

    def complete(self) -> None:
        done = {"status": job(ended={"Complete": "True"}, status={"succeeded": 3})["status"]}
        self.kube.patch(JOB, "train", done, "default", sub="status")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    fake = FakeKube(SystemClock(), namespaces=["default"])
    with Face(fake, bookmark_s=0.05) as face:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": face.server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        yield Cluster(face, kubeconfig)


def _until(holds: Any) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, "it did not happen in time"
        time.sleep(0.02)


def test_status_over_http(cluster: Cluster) -> None:
    cluster.queued_job()
    code, out, err = cluster.run("status", "train", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["stage"] == "Queued"


def test_a_wait_wakes_from_its_watch_and_ctrl_c_leaves_the_job(cluster: Cluster) -> None:
    cluster.queued_job()
    process = cluster.start("wait", "train")
    assert process.stderr is not None
    first = process.stderr.readline()
    assert "Queued" in first
    _until(lambda: cluster.kube.calls["watch", "Workload"] > 0)
    before = cluster.kube.written()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert err == (
        "taugrid: detached; job default/train is untouched and goes on; come back with: "
        "taugrid wait job/train -n default\n"
    )
    assert cluster.kube.written() == before


def test_a_wait_ends_soon_after_the_job_did(cluster: Cluster) -> None:
    """The job is deleted in the very moment of its end, as a TTL of 0 does: the watch saw it."""
    owner = cluster.put(JOB, job(suspend=False, status={"ready": 3}))
    admitted = {"QuotaReserved": "True", "Admitted": "True"}
    cluster.put(WORKLOAD, workload(owner, told=admitted))
    process = cluster.start("wait", "train", "-o", "json")
    _until(lambda: cluster.kube.calls["watch", "Job"] > 0)
    cluster.complete()
    cluster.kube.delete(JOB, "train", "default")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["outcome"] == "Succeeded"


def test_logs_over_http(cluster: Cluster) -> None:
    owner = cluster.put(JOB, job(suspend=False, status={"ready": 1}))
    labels = {"batch.kubernetes.io/controller-uid": owner["metadata"]["uid"]}
    cluster.put(POD, pod("train-0", node="n", phase="Running", labels=labels))
    cluster.face.logs["default", "train-0"] = b"one\n\x1b[31mtwo\n"
    code, out, err = cluster.run("logs", "train")
    assert (code, out, err) == (0, "one\n\x1b[31mtwo\n", "pod train-0\n")


def test_on_a_terminal_a_live_line_and_no_escapes_of_others(cluster: Cluster) -> None:
    owner = cluster.put(JOB, job())
    told = {"QuotaReserved": ("False", "Pending", "evil \x1b]0;title\x07 words", 5.0)}
    cluster.put(WORKLOAD, workload(owner, told=told))
    screen, end = pty.openpty()
    cluster.env |= {"TERM": "xterm", "COLUMNS": "100"}
    process = cluster.start("wait", "train", "--timeout", "1s", stderr=end)
    os.close(end)
    shown = b""
    while True:
        assert select.select([screen], [], [], PATIENCE_S)[0], "nothing more comes"
        try:
            piece = os.read(screen, 65536)
        except OSError:  # Linux's word for the other end being closed
            break
        if not piece:
            break
        shown += piece
    os.close(screen)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 124
    assert b"evil" in shown
    assert b"\x1b[" in shown, "the live line is drawn"
    assert b"\x1b]0" not in shown
    assert b"\x07" not in shown


def test_a_reader_that_goes_away_is_no_traceback(cluster: Cluster) -> None:
    cluster.queued_job()
    read, write = os.pipe()
    os.close(read)
    process = cluster.start("list", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert err == ""


def test_a_server_that_is_not_there_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody"
    here = Path(cluster.env["KUBECONFIG"]).read_text()
    nobody.write_text(here.replace(cluster.face.server, "http://127.0.0.1:1"))
    code, out, err = cluster.run("list", "--kubeconfig", str(nobody))
    assert (code, out) == (1, "")
    assert err.startswith("taugrid: list ")
    assert err.count("\n") == 1
