"""A cluster in process, the commands against it, and a clock that moves when a command sleeps.

`world.then(step, ...)` says what happens in the cluster while a command waits: one step at each
sleep. A command that sleeps on when all has happened is stopped: nothing would ever change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from taugrid_ray.cli.main import main
from taugrid_ray.cli.options import Session, Tools, Where
from taugrid_ray.errors import ApiError, NotFound
from taugrid_ray.jobs.reading import Look
from taugrid_ray.kinds.resource import POD, WORKLOAD, Obj, Resource
from taugrid_ray.kube.api import KubeApi
from tests.fake_kube import FakeKube, ManualClock
from tests.fake_kube.rules import has_status

SLEEPS_MAX = 2_000


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = FakeKube(self.clock, namespaces=["default", "team-b"])
        self.printed: dict[str, list[bytes | Exception]] = {}
        """Pod -> the pieces of its log, or what goes wrong; each stream takes one list."""
        self.streams: list[dict[str, Any]] = []
        self.steps: list[Callable[[], Any]] = []
        self.sleeps = 0
        self.slept_on: list[Resource] = []
        self.where = Where()

    # The cluster

    def put(self, kind: Resource, obj: Obj) -> Obj:
        """Make or replace an object, status and uid as given."""
        meta = dict(obj["metadata"])
        namespace, name = meta["namespace"], meta["name"]
        meta.pop("resourceVersion", None)
        full = {**obj, "metadata": meta}
        try:
            self.kube.get(kind, name, namespace)
        except NotFound:
            made = self.kube.create(kind, full, namespace)
            self._keep_uid(kind, made, meta)
        else:
            spec = {k: v for k, v in full.items() if k not in ("metadata", "status")}
            changed = {k: meta[k] for k in ("labels", "annotations") if k in meta}
            self.kube.patch(kind, name, {**spec, "metadata": changed}, namespace)
        if "status" in obj and has_status(kind):
            self.kube.patch(kind, name, {"status": obj["status"]}, namespace, sub="status")
        return self.kube.get(kind, name, namespace)

    def _keep_uid(self, kind: Resource, made: Obj, meta: Obj) -> None:
        """The builders' uids and times, so that owners and labels fit."""
        for key, stored in self.kube._objects[kind].items():
            if key.name == made["metadata"]["name"]:
                for word in ("uid", "creationTimestamp"):
                    if word in meta:
                        stored["metadata"][word] = meta[word]

    def gone(self, kind: Resource, name: str) -> None:
        """Delete for good, finalizers or not."""
        self.kube.patch(kind, name, {"metadata": {"finalizers": None}}, "default")
        try:
            self.kube.delete(kind, name, "default", grace_s=0)
        except NotFound:
            return

    def workload(self) -> Obj:
        (found,) = self.kube.objects(WORKLOAD)
        return found

    def then(self, *steps: Callable[[], Any]) -> None:
        self.steps += steps

    # The command

    def run(self, *args: str, stdin: str | bytes | None = None) -> Result:
        tools = Tools(self._connect, self.clock, self.sleep, self.pause)
        self.kube.writes.clear()
        self.kube.calls.clear()
        return CliRunner().invoke(main, list(args), obj=tools, input=stdin, prog_name="taugrid")

    def json(self, *args: str) -> Any:
        result = self.run(*args, "-o", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def _connect(self, where: Where) -> Session:
        self.where = where
        return Session(self.kube, self, where.namespace or "default")

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.clock.advance(max(seconds, 0.001))
        if self.steps:
            self.steps.pop(0)()
        elif self.sleeps > SLEEPS_MAX:
            pytest.fail("the command sleeps for ever")

    def pause(self, api: KubeApi, look: Look, kind: Resource, limit_s: float) -> Obj | None:
        self.slept_on.append(kind)
        self.sleep(limit_s)
        return None

    def logs(self, name: str, namespace: str, **options: Any) -> Iterator[bytes]:
        self.kube.get(POD, name, namespace)
        self.streams.append({"pod": name, **options})
        for piece in self.printed.get(name, []):
            if isinstance(piece, Exception):
                self.printed[name] = self.printed[name][self.printed[name].index(piece) + 1 :]
                raise piece
            yield piece


def interrupted() -> None:
    raise KeyboardInterrupt


def refuse(world: World, verb: str, kind: Resource, error: ApiError, times: int = 10_000) -> None:
    world.kube.fail(verb, kind, error, times=times)


def manifest(obj: Obj) -> str:
    """As a user writes it."""
    meta = {k: v for k, v in obj["metadata"].items() if k in ("name", "labels", "annotations")}
    kept = {k: v for k, v in obj.items() if k != "status"}
    return yaml.safe_dump({**kept, "metadata": meta})


@pytest.fixture
def world() -> World:
    return World()
