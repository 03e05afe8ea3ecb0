"""The only file with threads: reflectors, the loop, a performing pool, the lease, news, health.

Threads share nothing; they pass messages. Each reflector thread only reads the wire and puts
changes into one inbox. The loop's thread owns stores and queue. A small pool performs, one key
at a time, and posts results back to the inbox. A standby keeps its stores warm and does nothing
else.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client import CollectorRegistry

from controllers.actions import Action, Announce, Decision
from controllers.lease import Elector
from controllers.loop import Done, Loop, Work, reserved_to_ready_s
from controllers.metrics import Metrics
from controllers.perform import Written, as_log, perform
from controllers.world import SOURCES, Source
from taugrid_ray.errors import TaugridError
from taugrid_ray.kinds.resource import PROVISIONING_REQUEST, Resource
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Delta, Key, Listed
from taugrid_ray.kube.reflector import Reflector

logger = logging.getLogger(__name__)

PERFORMERS = 16
IDLE_S = 5.0
DRAIN = 500
"""Messages taken from the inbox before the queue is served."""
NEWS_PATIENCE_S = 30.0
NEWS_BUSY = 4
"""Gangs with a call under way; fewer are no burst."""
NEWS_MAX = 10_000
STALL_S = 60.0
"""A loop that has not turned for so long is not alive."""


class Runtime:
    """Start with `run`, which returns after `stop` or when the lease is lost."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        *,
        identity: str,
        elector: Elector | None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._identity = identity
        self._elector = elector
        self.metrics = Metrics(registry or CollectorRegistry())
        self._inbox: queue.SimpleQueue[Delta[Any] | Listed | Done | None] = queue.SimpleQueue()
        self._news: queue.Queue[Announce | None] = queue.Queue(maxsize=NEWS_MAX)
        self._stop = threading.Event()
        self._turned_at_s = clock.monotonic_s()
        self.loop = Loop(
            clock=clock,
            announce=self._take_news,
            on_decision=self._decided,
            on_bug=self.metrics.bugs.inc,
        )
        self.lost_lease = False

    # Health

    @property
    def is_alive(self) -> bool:
        return self._clock.monotonic_s() - self._turned_at_s < STALL_S

    @property
    def is_ready(self) -> bool:
        """Has every kind been listed? A standby is ready too."""
        return self.loop.world.synced

    # Life

    def stop(self) -> None:
        """Ask for a graceful end: nothing new is begun, what runs is finished. From any thread."""
        self._stop.set()
        self._inbox.put(None)

    def run(self) -> None:
        threads = [self._thread(f"watch-{s.kind.plural}", self._reflect, s) for s in SOURCES]
        threads.append(self._thread("news", self._tell_news))
        if self._elector is not None:
            threads.append(self._thread("lease", self._keep_lease, self._elector))
        else:
            self.loop.lead()
        with ThreadPoolExecutor(PERFORMERS, thread_name_prefix="perform") as pool:
            while not self._stop.is_set():
                self._turn(pool)
        self._news.put(None)
        if self._elector is not None and not self.lost_lease:
            self._elector.release()

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        self._turned_at_s = self._clock.monotonic_s()
        elector = self._elector
        if elector is not None:
            if elector.lost:
                self.lost_lease = True
                self.stop()
                return
            if elector.leads and not self.loop.leads:
                logger.info("leads", extra={"key": self._identity})
                self.loop.lead()
            self.metrics.leads.set(int(elector.leads))
        for work in self.loop.turn(room=PERFORMERS * 4 - self.loop.queue.busy):
            for seconds in reserved_to_ready_s(self.loop, work):
                self.metrics.booking_seconds.observe(seconds)
            pool.submit(self._perform, work)
        self.metrics.queue_length.set(len(self.loop.queue))
        self.metrics.requests.set(len(self.loop.world.stores[PROVISIONING_REQUEST]))
        self._drain(self._patience_s())

    def _patience_s(self) -> float:
        if self.loop.queue.busy >= PERFORMERS * 4:
            return IDLE_S
        due_s = self.loop.next_due_s()
        if due_s is None:
            # Not synced, or a standby: the lease thread does not write to the inbox.
            return 0.2
        return min(IDLE_S, max(0.0, due_s - self._clock.monotonic_s()))

    def _drain(self, patience_s: float) -> None:
        try:
            message = (
                self._inbox.get(timeout=patience_s) if patience_s else self._inbox.get_nowait()
            )
        except queue.Empty:
            return
        for _ in range(DRAIN):
            if isinstance(message, Done):
                self.loop.take_done(message)
            elif message is not None:
                self.loop.take_change(message)
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                return
        if isinstance(message, Done):
            self.loop.take_done(message)
        elif message is not None:
            self.loop.take_change(message)

    # Threads

    def _thread(self, name: str, target: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        return thread

    def _reflect(self, source: Source) -> None:
        reflector: Reflector[Any] = Reflector(
            self._api,
            source.kind,
            source.parse,
            self._inbox.put,
            clock=self._clock,
            labels=source.labels,
            optional=source.optional,
            report=self._unreadable,
        )
        told = ""
        while not self._stop.is_set():
            step = reflector.step()
            trouble = reflector.trouble.message if reflector.trouble is not None else ""
            if trouble and trouble != told:
                logger.warning("%s", trouble, extra={"kind": source.kind.plural})
            told = trouble
            if step.wait_s:
                self._stop.wait(step.wait_s)

    def _unreadable(self, kind: Resource, key: Key, error: Exception) -> None:
        self.metrics.unreadable.labels(kind.plural).inc()
        logger.warning("cannot read an object: %s", error, extra={"kind": kind.plural, "key": key})

    def _keep_lease(self, elector: Elector) -> None:
        while not self._stop.is_set():
            elector.step()
            self._stop.wait(elector.period_s)

    def _take_news(self, news: Announce) -> None:
        self.metrics.reasons.labels(news.reason.value).inc()
        try:
            self._news.put_nowait(news)
        except queue.Full:
            logger.warning("too much news to tell, one event is left out")

    def _tell_news(self) -> None:
        while (news := self._news.get()) is not None:
            self._let_gangs_first(news)
            try:
                perform(news, self._api, identity=self._identity)
                self.metrics.actions.labels("Announce", "ok").inc()
            except TaugridError as error:
                self.metrics.actions.labels("Announce", type(error).__name__).inc()
                logger.warning("an event could not be written: %s", error.message)

    def _let_gangs_first(self, news: Announce) -> None:
        """An event bears the time of what it tells, so it may come late: not before gangs that wait
        for a call, but never later than half a minute."""
        until_s = news.now_s + NEWS_PATIENCE_S
        while self.loop.queue.busy > NEWS_BUSY and self._clock.now_s() < until_s:
            if self._stop.wait(0.1):
                return

    def _perform(self, work: Work) -> None:
        written: list[Written] = []
        for action in work.actions:
            if self._elector is not None and not self._elector.leads:
                self._inbox.put(Done(work.key, tuple(written), action, LostLease("not leading")))
                return
            try:
                result = perform(action, self._api, identity=self._identity)
            except Exception as error:  # noqa: BLE001 - the loop decides what it means
                self._count(action, type(error).__name__)
                self._inbox.put(Done(work.key, tuple(written), action, error))
                return
            self._count(action, "ok")
            written += result
        self._inbox.put(Done(work.key, tuple(written)))

    def _count(self, action: Action, outcome: str) -> None:
        self.metrics.actions.labels(type(action).__name__, outcome).inc()

    def _decided(self, key: str, decision: Decision, took_s: float) -> None:
        self.metrics.decision_seconds.observe(took_s)
        if decision.actions:
            told = "; ".join(map(as_log, decision.actions))
            logger.info("%s", told, extra={"key": self.loop.called(key)})


class LostLease(TaugridError):
    """Decided while leading, not to be carried out any more."""
