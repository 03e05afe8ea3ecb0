"""The API server's own account: every change it told a watcher, in order, with the time it came.

Scenarios wait on it instead of sleeping or polling, and the rules of the design are checked on it
afterwards.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.delta import Delta, Key, Listed
from taugrid_ray.kube.reflector import Reflector

WATCHED = (
    kinds.WORKLOAD,
    kinds.PROVISIONING_REQUEST,
    kinds.POD_TEMPLATE,
    kinds.POD,
    kinds.NODE,
    kinds.JOB,
    kinds.RAY_JOB,
    kinds.RAY_CLUSTER,
    kinds.EVENT,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One change. `obj` is None once the object is gone, `before` None when it is new."""

    at_s: float
    kind: Resource
    key: Key
    before: Obj | None
    obj: Obj | None

    @property
    def some(self) -> Obj:
        found = self.obj if self.obj is not None else self.before
        assert found is not None
        return found


class Record:
    """Watches from `start` to `stop`; `now` is the state as told so far."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._synced: set[Resource] = set()
        self._now: dict[Resource, dict[Key, Obj]] = {kind: {} for kind in WATCHED}
        self._changes: list[Seen] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for kind in WATCHED:
            thread = threading.Thread(target=self._follow, args=(kind,), daemon=True)
            thread.start()
            self._threads.append(thread)
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._synced) == len(WATCHED), timeout=60):
                missing = sorted(k.plural for k in WATCHED if k not in self._synced)
                raise TimeoutError(f"no list of {', '.join(missing)} within 60 s")

    def stop(self) -> None:
        self._stop.set()

    def mark(self) -> int:
        """A place in the account, for `since`."""
        with self._changed:
            return len(self._changes)

    def since(self, mark: int) -> tuple[Seen, ...]:
        with self._changed:
            return tuple(self._changes[mark:])

    def all(self, kind: Resource, namespace: str | None = None) -> list[Obj]:
        with self._changed:
            return [
                obj
                for key, obj in self._now[kind].items()
                if namespace is None or key.namespace == namespace
            ]

    def get(self, kind: Resource, name: str, namespace: str = "") -> Obj | None:
        with self._changed:
            return self._now[kind].get(Key(namespace, name))

    def wait_until(self, holds: Callable[[], Any], timeout_s: float) -> Any:
        """The first true answer of `holds`, asked again after each change; None when time is up."""
        until_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                answer = holds()
                if answer:
                    return answer
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return None
                # A second at most: some conditions are about time, not about an object.
                self._changed.wait(min(left_s, 1.0))

    def save(self, path: Path, mark: int = 0) -> None:
        with path.open("w", encoding="utf-8") as out:
            for seen in self.since(mark):
                line = {
                    "at_s": round(seen.at_s, 3),
                    "kind": seen.kind.kind,
                    "change": "deleted" if seen.obj is None else "seen",
                    "object": seen.some,
                }
                out.write(json.dumps(line) + "\n")

    def _follow(self, kind: Resource) -> None:
        reflector: Reflector[Obj] = Reflector(
            self._api, kind, lambda obj: obj, self._take, clock=SystemClock()
        )
        while not self._stop.is_set():
            step = reflector.step()
            if step.wait_s:
                self._stop.wait(step.wait_s)

    def _take(self, change: Delta[Obj] | Listed) -> None:
        with self._changed:
            if isinstance(change, Listed):
                self._synced.add(change.kind)
            else:
                now = self._now[change.kind]
                if change.new is None:
                    now.pop(change.key, None)
                else:
                    now[change.key] = change.new
                self._changes.append(
                    Seen(time.time(), change.kind, change.key, change.old, change.new)
                )
            self._changed.notify_all()


def of_kind(changes: tuple[Seen, ...], kind: Resource) -> Iterator[Seen]:
    return (seen for seen in changes if seen.kind == kind)
