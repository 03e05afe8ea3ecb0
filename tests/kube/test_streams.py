"""Streams as an API server sends them, over HTTP, through wire, reflector and store together.

They are read from `odd/45-watch-streams.yaml` under the folder that TAUGRID_RAY_CASES names (cases
87 to 93); without it each is skipped by name. Every stream of the file has a test here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from taugrid_ray.kinds.resource import RAY_JOB, Obj
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.credentials import Direct
from taugrid_ray.kube.delta import Delta, Listed
from taugrid_ray.kube.reflector import Reflector
from taugrid_ray.kube.store import Store
from taugrid_ray.kube.wire import Limits, Wire
from tests.fake_kube import Face, FakeKube, Trouble

CASES = os.environ.get("TAUGRID_RAY_CASES")
FILE = Path(CASES or "/nonexistent") / "odd" / "45-watch-streams.yaml"
NAMES = (
    "gone-inside-stream",
    "relist-fails-after-410",
    "bookmarks",
    "old-objects-last",
    "cut-line",
    "delete-then-recreate-same-name",
    "throttled-before-stream",
    "quiet-death",
)


def name_and_uid(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["name"], obj["metadata"]["uid"]


class Replay:
    """The stream's lines are what the first watch gets; after it, FakeKube is well again."""

    def __init__(self, face: Face, stream: dict[str, Any]) -> None:
        self.face = face
        self.said: list[Delta[tuple[str, str]] | Listed] = []
        self.waits: list[float] = []
        self.store = Store(RAY_JOB, name_and_uid)
        limits = Limits(read_s=0.3, patience_s=0, silence_s=0.3)
        self.wire = Wire(Direct(face.server), limits=limits)
        self.reflector = Reflector(
            self.wire, RAY_JOB, name_and_uid, self._hear, clock=SystemClock(), rand=lambda: 0.0
        )
        self.step()  # the first list
        lines = "".join(f"{line}\n" for line in stream["lines"])
        if "status" in stream:
            trouble = Trouble(
                "status", "watch", status=stream["status"], headers=stream["headers"], body=lines
            )
        elif "hang_seconds" in stream:
            trouble = Trouble("silence", "watch")
        else:
            trouble = Trouble("lines", "watch", body=lines)
        face.trouble.append(trouble)

    def _hear(self, change: Delta[tuple[str, str]] | Listed) -> None:
        self.said.append(change)
        self.store.apply(change)

    def close(self) -> None:
        self.reflector.close()
        self.wire.close()

    def step(self) -> float:
        """One step; what it would wait is noted and not waited for."""
        wait_s = self.reflector.step().wait_s
        self.waits.append(wait_s)
        return wait_s

    def asked(self) -> list[str]:
        """All requests as "list" or as "watch VERSION"."""
        return [
            f"watch {path.split('resourceVersion=')[1].split('&')[0]}" if "watch=true" in path
            else "list"
            for _, path, _ in self.face.seen
        ]  # fmt: skip

    def until(self, holds: Callable[[], bool], steps: int = 30) -> None:
        for _ in range(steps):
            if holds():
                return
            self.step()
        raise AssertionError(f"not within {steps} steps; asked {self.asked()}")

    def works(self) -> None:
        """A change made now is heard of."""
        made = self.face.kube.create(RAY_JOB, _job("later"), "team-a")
        want = ("later", made["metadata"]["uid"])
        self.until(lambda: want in list(self.store.values()))


def _job(name: str) -> Obj:
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}}


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Iterator[Replay]:
    if CASES is None:
        pytest.skip(f"TAUGRID_RAY_CASES is not set: {FILE.name}: {request.param}")
    streams = {stream["name"]: stream for stream in yaml.safe_load(FILE.read_text())["streams"]}
    assert tuple(streams) == NAMES
    with Face(FakeKube(SystemClock()), bookmark_s=0.05) as face:
        replay = Replay(face, streams[request.param])
        yield replay
        replay.close()


def stream(name: str) -> pytest.MarkDecorator:
    assert name in NAMES
    return pytest.mark.parametrize("replay", [name], indirect=True, ids=[name])


@stream("gone-inside-stream")
def test_410_inside_a_stream(replay: Replay) -> None:
    """Case 87: list anew, watch from the new list's version; a Status is no RayJob."""
    first = replay.asked()
    replay.step()
    assert list(replay.store.values()) == [("a", "u-1")]
    replay.until(lambda: len(replay.asked()) > 3)
    version = replay.face.kube.history.version
    assert replay.asked() == [*first, "watch 100", "list", f"watch {version}"]
    assert list(replay.store.values()) == []
    replay.works()


@stream("relist-fails-after-410")
def test_the_list_fails_after_410(replay: Replay) -> None:
    """Case 88: 500, 429, a time-out, then 200."""
    replay.face.trouble += [
        Trouble("status", "list", status=500),
        Trouble("status", "list", status=429),
        Trouble("silence", "list"),
    ]
    replay.works()
    assert replay.asked().count("list") == 5
    assert [wait_s for wait_s in replay.waits if wait_s] == [0.5, 1.0, 2.0]


@stream("bookmarks")
def test_bookmarks(replay: Replay) -> None:
    """Case 89: remember the version, hand nothing on."""
    said = len(replay.said)
    replay.step()
    assert len(replay.said) == said
    replay.until(lambda: replay.asked()[-1] == "watch 2000")


@stream("old-objects-last")
def test_old_objects_come_last(replay: Replay) -> None:
    """Case 90: the version to go on from never falls back."""
    replay.until(lambda: len(replay.store) == 2)
    replay.until(lambda: replay.asked().count("list") == 2 or len(replay.asked()) == 3)
    assert replay.asked()[-1] == "watch 5000"


@stream("cut-line")
def test_a_line_is_cut(replay: Replay) -> None:
    """Case 91: as a broken connection: go on from where we were, without a new list."""
    replay.step()
    assert replay.reflector.trouble is not None
    assert len(replay.store) == 0
    replay.works()
    assert replay.asked()[:3] == ["list", "watch 100", "watch 100"]


@stream("delete-then-recreate-same-name")
def test_deleted_and_made_anew(replay: Replay) -> None:
    """Case 93: another life under the same name is another object."""
    replay.until(lambda: list(replay.store.values()) == [("a", "u-9")])
    (change,) = [said for said in replay.said if isinstance(said, Delta)]
    assert (change.old, change.uid) == (None, "u-9")


@stream("throttled-before-stream")
def test_throttled_before_the_stream(replay: Replay) -> None:
    """Case 92: three seconds were asked for."""
    assert 3 <= replay.step() < 4
    replay.works()


@stream("quiet-death")
def test_a_socket_that_never_answers(replay: Replay) -> None:
    """Case 91: a time-out of our own ends it."""
    replay.step()
    replay.works()
    assert replay.asked()[:3] == ["list", "watch 100", "watch 100"]
