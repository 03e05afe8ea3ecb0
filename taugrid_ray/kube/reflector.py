"""List and watch of one kind, as a stream of changes, one step at a time.

`step()` makes one move (lists, opens the watch, or takes one event) and says how long to wait
before the next. It has no thread and never sleeps: a thread calls it in a loop, a simulator calls
it when it likes.

The stream survives everything. A watch that ends, breaks or falls silent is resumed from the last
version seen; a version that is too old (410, as HTTP status or as an ERROR event) leads to a new
list, whose difference to what was known becomes changes, those deleted in the gap included. Each
failure in a row waits longer, with jitter, and at least as long as the server asked; only an event,
a bookmark or a watch that lived a while ends the row, so that a list that works and a watch that
does not cannot make a hot loop.

Only parsed values are kept: `parse` turns an object into a small frozen value, or None for "of no
interest", and the raw JSON of a page is dropped before the next is asked for. An event whose value
equals the known one is swallowed (heartbeats of nodes). An object that cannot be parsed is reported
and counts as absent; the others go on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from taugrid_ray.errors import ApiError, Gone, NotFound, TaugridError
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.api import Change, KubeApi, WatchEvent
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Delta, Key, Listed, T, key_of, version_of

BACKOFF_S = 0.5
BACKOFF_MAX_S = 30.0
WATCH_S = 300.0
SHORT_LIFE_S = 1.0
"""A watch that ends sooner, without a word, counts as a failure."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one move came to.

    wait_s: how long to wait before the next. quiet: all is well and there was nothing new.
    """

    wait_s: float = 0.0
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    value: T
    uid: str
    version: int


class Reflector(Generic[T]):
    """One kind, told to `sink` as `Delta`s and `Listed`s in order.

    report: gets each object that could not be parsed, with the error. optional: the kind may not be
    installed; then it counts as an empty list and is looked for again.
    """

    def __init__(
        self,
        api: KubeApi,
        kind: Resource,
        parse: Callable[[Obj], T | None],
        sink: Callable[[Delta[T] | Listed], None],
        *,
        clock: Clock,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page_size: int = 250,
        optional: bool = False,
        report: Callable[[Resource, Key, Exception], None] = lambda kind, key, error: None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.kind = kind
        self.trouble: TaugridError | None = None
        """Why the last move failed; None once one works again."""
        self.heard_at_s: float | None = None
        """When the server last said anything useful, on the monotonic clock."""
        self._api = api
        self._parse = parse
        self._sink = sink
        self._clock = clock
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._page_size = page_size
        self._optional = optional
        self._report = report
        self._rand = rand
        self._known: dict[Key, _Known[T]] = {}
        self._version = ""
        self._events: Iterator[WatchEvent] | None = None
        self._opened_at_s = 0.0
        self._is_new = True
        self._failures = 0
        self._synced = False

    @property
    def synced(self) -> bool:
        """A first list has been handed to the sink."""
        return self._synced

    def step(self) -> Step:
        try:
            if not self._version:
                self._list()
                return Step()
            return self._watch()
        except TaugridError as error:
            return self._failed(error)

    def close(self) -> None:
        """Let go of the connection, from the thread that steps."""
        close = getattr(self._events, "close", None)
        self._events = None
        if close is not None:
            close()

    # Listing

    def _list(self) -> None:
        found: dict[Key, _Known[T]] = {}
        page = ""
        while True:
            got = self._api.list_page(
                self.kind,
                self._namespace,
                labels=self._labels,
                fields=self._fields,
                page_size=self._page_size,
                page=page,
            )
            for item in got.items:
                self._take(item, found)
            version, page = got.resource_version, got.next_page
            del got
            if not page:
                break
        self._hand_over(found, version)

    def _take(self, item: Obj, found: dict[Key, _Known[T]]) -> None:
        key, known = self._read(item)
        if known is None:
            return
        before = self._known.get(key)
        if before is not None and before.uid == known.uid and before.value == known.value:
            known = _Known(before.value, known.uid, known.version)  # one copy in memory
        found[key] = known

    def _hand_over(self, found: dict[Key, _Known[T]], version: str) -> None:
        number = int(version)
        newest = max((known.version for known in self._known.values()), default=0)
        if number < newest:
            # Versions fell back: the server's store was restored. All that was known is void.
            for key, before in self._known.items():
                self._tell(key, before, None, before.version)
            self._known = {}
        for key, before in self._known.items():
            now = found.get(key)
            if now is None or now.uid != before.uid:
                self._tell(key, before, None, number if now is None else now.version)
        for key, now in found.items():
            old = self._known.get(key)
            if old is not None and old.uid != now.uid:
                old = None
            # Not swallowed when equal but newer: the store may hold a later state than we knew,
            # from a write of our own that somebody undid in the gap.
            if old is None or old.version != now.version:
                self._tell(key, old, now, now.version)
        self._known = found
        self._version = version
        self._synced = True
        self._sink(Listed(self.kind, frozenset(found), number))
        self._heard()

    # Watching

    def _watch(self) -> Step:
        if self._events is None:
            self._opened_at_s = self._clock.monotonic_s()
            self._is_new = True
            self._events = iter(
                self._api.watch(
                    self.kind,
                    self._namespace,
                    resource_version=self._version,
                    labels=self._labels,
                    fields=self._fields,
                    timeout_s=WATCH_S * (1.0 + self._rand()),
                )
            )
        event = next(self._events, None)
        if event is None:
            return self._ended()
        self._is_new = False
        self._failures = 0
        self._heard()
        if event.change is Change.BOOKMARK:
            self._version = str(event.object["metadata"]["resourceVersion"])
            return Step(quiet=True)
        return self._changed(event)

    def _ended(self) -> Step:
        """The server closed the watch, as it does now and then. At once and in silence is not
        right."""
        self._events = None
        lived_s = self._clock.monotonic_s() - self._opened_at_s
        if self._is_new and lived_s < SHORT_LIFE_S:
            return self._wait(self._backoff_s())
        self._failures = 0
        self._heard()
        return Step()

    def _changed(self, event: WatchEvent) -> Step:
        key, now = self._read(event.object)
        version = version_of(event.object)
        # Old objects may come last, so only a higher version moves the mark.
        self._version = str(max(version, int(self._version)))
        before = self._known.get(key)
        if event.change is Change.DELETED:
            now = None
        if before is not None and now is not None and before.uid != now.uid:
            self._tell(key, before, None, version)
            before = None
        if now is None:
            self._known.pop(key, None)
        else:
            if before is not None and before.value == now.value:
                now = _Known(before.value, now.uid, now.version)
            self._known[key] = now
        if before is None or now is None or before.value is not now.value:
            self._tell(key, before, now, version)
        return Step()

    # Both

    def _read(self, item: Obj) -> tuple[Key, _Known[T] | None]:
        key = Key("", "")
        try:
            key = key_of(item)
            value = self._parse(item)
            if value is None:
                return key, None
            return key, _Known(value, item["metadata"]["uid"], version_of(item))
        except Exception as error:  # noqa: BLE001 - one object must not stop the others
            self._report(self.kind, key, error)
            return key, None

    def _tell(
        self, key: Key, before: _Known[T] | None, now: _Known[T] | None, version: int
    ) -> None:
        some = now or before
        if some is None:
            return
        old = before.value if before is not None else None
        new = now.value if now is not None else None
        self._sink(Delta(self.kind, key, some.uid, old, new, version))

    def _heard(self) -> None:
        self.trouble = None
        self.heard_at_s = self._clock.monotonic_s()

    def _failed(self, error: TaugridError) -> Step:
        self.close()
        if self._optional and isinstance(error, NotFound) and not self._version:
            return self._not_installed()
        self.trouble = error
        if isinstance(error, Gone):
            self._version = ""
        wait_s = self._backoff_s() if self._failures or not isinstance(error, Gone) else 0.0
        self._failures += 1
        if isinstance(error, ApiError) and error.retry_after_s is not None:
            wait_s += error.retry_after_s
        return Step(wait_s)

    def _not_installed(self) -> Step:
        newest = max((known.version for known in self._known.values()), default=0)
        self._hand_over({}, str(newest))
        self._version = ""
        return Step(BACKOFF_MAX_S * (0.5 + self._rand() / 2), quiet=True)

    def _wait(self, wait_s: float) -> Step:
        self._failures += 1
        return Step(wait_s)

    def _backoff_s(self) -> float:
        longest_s = min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** min(self._failures, 16))
        return longest_s * (0.5 + self._rand() / 2)
