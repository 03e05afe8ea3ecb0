"""Every change that FakeKube kept, in order, and what of it may be seen."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from taugrid_ray.errors import Gone
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.api import Change, WatchEvent
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Key, key_of


@dataclass(frozen=True, slots=True)
class Past:
    version: int
    at_s: float
    change: Change
    before: Obj | None
    after: Obj
    """As it was kept; of a deleted one the last state, with the version of its end."""


class History:
    def __init__(self, clock: Clock) -> None:
        self.version = 100
        """Not 0 or 1: both mean something else in a resourceVersion."""
        self._clock = clock
        self._past: defaultdict[Resource, list[Past]] = defaultdict(list)
        self._compacted = 0
        self._held: dict[Resource, int] = {}
        self._lag_s: dict[Resource, float] = {}

    # What tests do to it

    def compact(self) -> None:
        self._compacted = self.version

    def hold(self, kind: Resource) -> None:
        """Lists and watches of `kind` show nothing newer than now, until `release`."""
        self._held[kind] = self.version

    def release(self, kind: Resource) -> None:
        self._held.pop(kind, None)

    def lag(self, kind: Resource, seconds: float) -> None:
        """Lists and watches of `kind` show what is at least this old."""
        self._lag_s[kind] = seconds

    def of(self, kind: Resource) -> list[Past]:
        """All changes of a kind; compaction does not hide them from a test."""
        return list(self._past[kind])

    # What FakeKube does with it

    def add(self, kind: Resource, change: Change, *, before: Obj | None, after: Obj) -> None:
        self.version += 1
        self._past[kind].append(Past(self.version, self._clock.now_s(), change, before, after))

    def check(self, version: int) -> None:
        if version < self._compacted:
            raise Gone(f"too old resource version: {version} ({self._compacted})", reason="Expired")

    def visible(self, kind: Resource) -> int:
        """The newest version of `kind` that a list or watch may show."""
        newest = self._held.get(kind, self.version)
        lag_s = self._lag_s.get(kind)
        if lag_s is None:
            return newest
        latest_s = self._clock.now_s() - lag_s
        late = [past.version for past in self._past[kind] if past.at_s > latest_s]
        return min(newest, late[0] - 1) if late else newest

    def newest(self, kind: Resource) -> int:
        """The version of the newest change of `kind` that may be shown; 0 for none."""
        past, visible = self._past[kind], self.visible(kind)
        place = bisect_right(past, visible, key=lambda p: p.version)
        return past[place - 1].version if place else 0

    def shown(self, kind: Resource, live: dict[Key, Obj]) -> dict[Key, Obj]:
        """The objects as a list may show them."""
        visible = self.visible(kind)
        if visible == self.version:
            return live
        objects: dict[Key, Obj] = {}
        for past in self._past[kind]:
            if past.version > visible:
                break
            if past.change is Change.DELETED:
                objects.pop(key_of(past.after), None)
            else:
                objects[key_of(past.after)] = past.after
        return objects

    def next(
        self, kind: Resource, at: int, match: Callable[[Obj], bool]
    ) -> tuple[WatchEvent | None, int]:
        """The first event after version `at` that a watch with this selection shows, and how far
        the watch has come."""
        self.check(at)
        visible = self.visible(kind)
        past = self._past[kind]
        for place in range(bisect_right(past, at, key=lambda p: p.version), len(past)):
            entry = past[place]
            if entry.version > visible:
                break
            at = entry.version
            event = _seen(entry, match)
            if event is not None:
                return event, at
        return None, max(at, visible)


def _seen(past: Past, match: Callable[[Obj], bool]) -> WatchEvent | None:
    """A selection turns an object that enters it into ADDED, one that leaves it into DELETED."""
    was = past.before is not None and match(past.before)
    is_now = past.change is not Change.DELETED and match(past.after)
    if is_now:
        return WatchEvent(Change.MODIFIED if was else Change.ADDED, past.after)
    if not was or past.before is None:
        return None
    meta = past.before["metadata"] | {"resourceVersion": str(past.version)}
    return WatchEvent(Change.DELETED, past.before | {"metadata": meta})
