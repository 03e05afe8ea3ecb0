"""One loop that owns stores and queue: take a key, observe, decide, hand the actions on.

It has no thread and never waits, so a simulator can drive the very same loop: messages go in
(changes from the reflectors, results of performed actions), and `turn` gives out the work that is
due. Keys are `gang/UID`, `growth/UID` (of a RayCluster), `check/NAME` and `policy/NAME`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from controllers.actions import Action, Announce, Create, Decision, SetCheck
from controllers.checks.decide import decide_check, decide_policy
from controllers.gang.decide import decide
from controllers.gang.observe import observe
from controllers.gang.wiring import all_gangs, gangs_touched
from controllers.growth.decide import decide as decide_growth
from controllers.growth.observe import observe as observe_growth
from controllers.growth.wiring import all_clusters, clusters_touched
from controllers.perform import ForeignObject, Written
from controllers.workqueue import WorkQueue
from controllers.world import World
from taugrid_ray.errors import ApiError, Conflict, TaugridError, Unreachable
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Delta, Listed

logger = logging.getLogger(__name__)

NODE_SETTLE_S = 0.2
"""Nodes come in bursts; gangs that wait for them look once per burst."""
POD_SETTLE_S = 0.2
"""So do pods: made, bound and started by the dozen, each in several changes."""
WAKE_MIN_S = 0.05
"""A gang that wants to be looked at again at once still lets the others have their turn."""
SWEEP_S = 60.0
"""How often all gangs are looked at even if nothing changed; from the stores, without a call."""


@dataclass(frozen=True, slots=True)
class Work:
    """Actions for one key, in order; the first that fails stops the rest."""

    key: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it."""

    key: str
    written: tuple[Written, ...]
    failed: Action | None = None
    error: Exception | None = None


@dataclass
class Loop:
    """announce: takes news to be told when there is time; it never holds up a gang."""

    clock: Clock
    announce: Callable[[Announce], None]
    world: World = field(default_factory=World)
    queue: WorkQueue = field(default_factory=WorkQueue)
    on_decision: Callable[[str, Decision, float], None] = lambda key, decision, took_s: None
    on_bug: Callable[[], None] = lambda: None
    leads: bool = False
    _refused: dict[str, str] = field(default_factory=dict)
    _salts: dict[str, int] = field(default_factory=dict)
    _wait_for_nodes: set[str] = field(default_factory=set)
    _news: dict[str, tuple[Announce, ...]] = field(default_factory=dict)
    _swept_at_s: float = float("-inf")

    # Messages in

    def take_change(self, change: Delta[Any] | Listed) -> None:
        for delta in self.world.stores[change.kind].apply(change):
            self._touch(delta)

    def take_done(self, done: Done) -> None:
        for written in done.written:
            store = self.world.stores.get(written.kind)
            if store is None:
                continue
            if written.obj is not None:
                deltas = store.accept(written.obj)
            else:
                deltas = store.forget(written.gone_uid)
            for delta in deltas:
                self._touch(delta)
        news = self._news.pop(done.key, ())
        now_s = self.clock.monotonic_s()
        self.queue.done(done.key)
        if done.error is None:
            self._refused.pop(done.key, None)
            self.queue.worked(done.key)
            self.queue.add(done.key, now_s)
            for item in news:
                self.announce(item)
            return
        self.queue.add(done.key, now_s + self._after_error(done, done.error))

    def lead(self) -> None:
        """From now on this process acts: look at everything."""
        self.leads = True
        self._swept_at_s = float("-inf")

    # Work out

    def turn(self, *, room: int) -> list[Work]:
        """At most `room` pieces of work that are due now. Nothing before all stores are synced."""
        if not self.leads or not self.world.synced:
            return []
        now_s = self.clock.monotonic_s()
        if now_s - self._swept_at_s >= SWEEP_S:
            self._swept_at_s = now_s
            self._add(self._all_keys(), now_s)
        work: list[Work] = []
        while len(work) < room:
            key = self.queue.take(now_s)
            if key is None:
                break
            decision = self._decide(key)
            actions = tuple(a for a in decision.actions if not isinstance(a, Announce))
            news = tuple(a for a in decision.actions if isinstance(a, Announce))
            if decision.needs_nodes:
                self._wait_for_nodes.add(key)
            else:
                self._wait_for_nodes.discard(key)
            if actions:
                self._news[key] = news
                work.append(Work(key, actions))
                continue
            for item in news:
                self.announce(item)
            self.queue.done(key)
            if decision.wake_after_s is not None:
                self.queue.add(key, now_s + max(WAKE_MIN_S, decision.wake_after_s))
        return work

    def next_due_s(self) -> float | None:
        """Monotonic time of the next key or sweep; None before the stores are synced."""
        if not self.leads or not self.world.synced:
            return None
        due_s = self.queue.next_due_s()
        sweep_s = self._swept_at_s + SWEEP_S
        return sweep_s if due_s is None else min(due_s, sweep_s)

    def called(self, key: str) -> str:
        """The key as people know it: a gang by its job's namespace and name while that is known."""
        kind, _, name = key.partition("/")
        cluster = self.world.ray_cluster(name) if kind == "growth" else None
        if cluster is not None:
            return f"growth/{cluster.meta.key}"
        workload = self.world.workload(name) if kind == "gang" else None
        if workload is None or workload.job is None:
            return key
        return f"gang/{workload.meta.namespace}/{workload.job.name}"

    # Inside

    def _decide(self, key: str) -> Decision:
        kind, _, name = key.partition("/")
        started_s, now_s = self.clock.monotonic_s(), self.clock.now_s()
        try:
            if kind == "gang":
                seen = observe(
                    self.world,
                    name,
                    refused=self._refused.get(key, ""),
                    salt=self._salts.get(key, 0),
                )
                decision = decide(seen, now_s)
            elif kind == "growth":
                cluster = observe_growth(
                    self.world,
                    name,
                    refused=self._refused.get(key, ""),
                    salt=self._salts.get(key, 0),
                )
                decision = decide_growth(cluster, now_s)
            elif kind == "check":
                decision = decide_check(self.world.check(name), self.world, now_s)
            else:
                decision = decide_policy(self.world.policy(name), now_s)
        except Exception:
            # One gang's bug must not stop the others; it is told and tried again, ever more slowly.
            logger.exception("bug while deciding", extra={"key": self.called(key)})
            self.on_bug()
            return Decision(wake_after_s=self.queue.failed(key))
        self.on_decision(key, decision, self.clock.monotonic_s() - started_s)
        return decision

    def _after_error(self, done: Done, error: Exception) -> float:
        """Seconds until the key is looked at again."""
        pause_s = self.queue.failed(done.key)
        extra = {"key": self.called(done.key), "reason": type(error).__name__}
        if isinstance(error, ForeignObject):
            self._salts[done.key] = self._salts.get(done.key, 0) + 1
            logger.warning("%s; another name is used", error.message, extra=extra)
            return 0.0
        if isinstance(error, Conflict):
            # Decided on an older state; the newer one is on its way through the watch.
            return pause_s
        if isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.retryable):
            logger.warning("%s", error.message, extra=extra)
            return pause_s
        if isinstance(error, ApiError):
            if isinstance(done.failed, Create):
                self._refused[done.key] = error.message
            logger.warning("%s", error.message, extra=extra)
            return pause_s
        if isinstance(error, TaugridError):
            logger.warning("%s", error.message, extra=extra)
            return pause_s
        logger.error("bug while performing", exc_info=error, extra=extra)
        self.on_bug()
        return pause_s

    def _touch(self, delta: Delta[Any]) -> None:
        now_s = self.clock.monotonic_s()
        if delta.kind == kinds.NODE:
            self._add(tuple(self._wait_for_nodes), now_s + NODE_SETTLE_S)
            return
        if delta.new is None and delta.kind in (kinds.WORKLOAD, kinds.RAY_CLUSTER):
            self._forget(f"gang/{delta.uid}", f"growth/{delta.uid}")
        due_s = now_s + POD_SETTLE_S if delta.kind == kinds.POD else now_s
        self._add((f"gang/{uid}" for uid in gangs_touched(delta, self.world)), due_s)
        self._add((f"growth/{uid}" for uid in clusters_touched(delta, self.world)), due_s)
        if delta.kind == kinds.ADMISSION_CHECK:
            self._add((f"check/{delta.key.name}",), now_s)
        if delta.kind == kinds.CAPACITY_POLICY:
            checks = self.world.checks_with_policy(delta.key.name)
            self._add((f"check/{c.meta.name}" for c in checks), now_s)
            self._add((f"policy/{delta.key.name}",), now_s)

    def _forget(self, *keys: str) -> None:
        """Nothing is kept of what is gone: months pass, and uids never come back."""
        for key in keys:
            self._refused.pop(key, None)
            self._salts.pop(key, None)
            self.queue.worked(key)

    def _add(self, keys: Iterable[str], due_s: float) -> None:
        for key in keys:
            self.queue.add(key, due_s)

    def _all_keys(self) -> list[str]:
        found = [f"gang/{uid}" for uid in sorted(all_gangs(self.world))]
        found += [f"growth/{uid}" for uid in sorted(all_clusters(self.world))]
        found += [f"check/{k.name}" for k in self.world.stores[kinds.ADMISSION_CHECK].keys()]  # noqa: SIM118 - no dict
        found += [f"policy/{k.name}" for k in self.world.stores[kinds.CAPACITY_POLICY].keys()]  # noqa: SIM118 - no dict
        return found


def reserved_to_ready_s(loop: Loop, work: Work) -> Iterable[float]:
    """For each SetCheck to Ready in `work`: seconds since its quota was reserved."""
    for action in work.actions:
        if isinstance(action, SetCheck) and action.state.value == "Ready":
            workload = loop.world.workload(action.workload.uid)
            if workload is not None and workload.reservation is not None:
                yield action.now_s - workload.reservation.changed_at_s
