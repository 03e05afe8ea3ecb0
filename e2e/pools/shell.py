"""The loop against a real API server.

Everything that happens comes through one inbox: what the watching threads hear, and how the
writes that were handed to other threads ended. The loop owns the stores, decides, and writes. A
loop is over when its writes are; the next one starts after the pause, or at once where the last
one handled a request. An instant autoscaler answers between two loops as well, as soon as it
hears of a request.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from e2e.pools import configmaps
from e2e.pools.cluster import Cluster
from e2e.pools.decide import decide, decide_instant
from e2e.pools.perform import perform
from e2e.pools.settings import Settings
from e2e.pools.state import Action, DeleteNode, DeleteRequest, Memory, Seen, SetConditions
from e2e.pools.status import orders_in, status_of
from taugrid_ray.errors import Conflict, NotFound, TaugridError
from taugrid_ray.kinds.resource import NODE, PROVISIONING_REQUEST, Obj
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Delta, Listed

WRITERS = 16
DECISIONS_KEPT = 50
IDLE_S = 0.2
"""How long the inbox is listened to before looking whether it is time to stop."""

log = logging.getLogger("e2e.pools")


@dataclass(frozen=True, slots=True)
class Written:
    """A write has ended: with the object as it is now, or with an error."""

    action: Action
    obj: Obj | None
    error: TaugridError | None


class Shell:
    def __init__(self, api: KubeApi, *, clock: Clock, seed: str, loop_s: float) -> None:
        self._api = api
        self._clock = clock
        self._loop_s = loop_s
        self._inbox: queue.SimpleQueue[Delta[Any] | Listed | Written] = queue.SimpleQueue()
        self._cluster = Cluster(api, self._inbox.put, clock)
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="write")
        self._writing: dict[str, Action] = {}
        self._memory = Memory(seed=seed)
        self._settings: Settings | None = None
        self._read_config: configmaps.Config | None = None
        self._decisions: deque[tuple[float, str]] = deque(maxlen=DECISIONS_KEPT)
        self._told_status: dict[str, Any] = {}

    def run(self, stop: threading.Event) -> None:
        orders = orders_in(configmaps.read_status(self._api))
        self._memory = Memory(seed=self._memory.seed, orders=orders)
        self._cluster.follow(stop)
        next_s = self._clock.monotonic_s()
        while not stop.is_set():
            wait_s = next_s - self._clock.monotonic_s()
            if wait_s > 0:
                self._listen(min(wait_s, IDLE_S))
                self._answer_instantly()
                continue
            started_s = self._clock.monotonic_s()
            again = self._cluster.is_synced and self._try_loop()
            next_s = started_s if again else started_s + self._loop_s
            self._listen(0.0)
        self._writers.shutdown()

    # The inbox

    def _listen(self, wait_s: float) -> None:
        """Wait for something to happen, then take over all that has happened."""
        try:
            self._hear(self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait())
            while True:
                self._hear(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _hear(self, message: Delta[Any] | Listed | Written) -> None:
        if isinstance(message, Written):
            self._take_over(message)
        else:
            self._cluster.stores[message.kind].apply(message)

    def _take_over(self, written: Written) -> None:
        """Our own writes are in the stores before a watch shows them."""
        action = written.action
        self._writing.pop(_token(action), None)
        if written.error is not None:
            if not isinstance(written.error, (Conflict, NotFound)):
                log.warning("%s: %s", _token(action), written.error)
                self._note(f"{_token(action)}: {written.error}")
        elif isinstance(action, DeleteNode):
            self._cluster.nodes.forget(action.uid)
        elif isinstance(action, DeleteRequest):
            self._cluster.requests.forget(action.request.uid)
        elif written.obj is not None:
            is_answer = isinstance(action, SetConditions)
            kind = PROVISIONING_REQUEST if is_answer else NODE
            self._cluster.stores[kind].accept(written.obj)

    # One loop

    def _try_loop(self) -> bool:
        """A call that failed spoils this loop only: the next one decides afresh."""
        try:
            return self._loop()
        except TaugridError as error:
            log.warning("%s", error)
            return False

    def _loop(self) -> bool:
        """Decide and write. True: the next loop follows at once."""
        self._read_settings()
        again = False
        if self._settings is not None:
            now_s = self._clock.now_s()
            decision = decide(self._cluster.seen(), self._memory, self._settings, now_s)
            self._memory = decision.memory
            again = decision.again
            for note in decision.notes:
                self._note(note)
            # Nodes before answers: Provisioned is said after the resize was accepted.
            answers = [a for a in decision.actions if isinstance(a, SetConditions)]
            self._write_through(a for a in decision.actions if not isinstance(a, SetConditions))
            self._write_through(answers)
        self._tell_status()
        return again

    def _answer_instantly(self) -> None:
        if self._settings is None or not self._settings.autoscaler.instant:
            return
        requests = tuple(r for r in self._cluster.unanswered() if r.uid not in self._writing)
        if requests:
            now_s = self._clock.now_s()
            seen = Seen(requests=requests)
            decision = decide_instant(seen, self._memory, self._settings, now_s)
            self._write(decision.actions)

    def _write(self, actions: Iterable[Action]) -> set[str]:
        tokens = set()
        for action in actions:
            token = _token(action)
            if token not in self._writing:
                tokens.add(token)
                self._writing[token] = action
                self._writers.submit(self._perform, action)
        return tokens

    def _write_through(self, actions: Iterable[Action]) -> None:
        """Write, and go on only when all of it has ended."""
        tokens = self._write(actions)
        while tokens & self._writing.keys():
            self._listen(IDLE_S)
            self._answer_instantly()

    def _perform(self, action: Action) -> None:
        """In a writer's thread. Whatever happens, the loop hears of it."""
        obj: Obj | None = None
        error: TaugridError | None = None
        try:
            obj = perform(self._api, action)
        except TaugridError as failed:
            error = failed
        finally:
            self._inbox.put(Written(action, obj, error))

    # What people see

    def _note(self, text: str) -> None:
        log.info(text)
        self._decisions.append((self._clock.now_s(), text))

    def _read_settings(self) -> None:
        config = self._cluster.config
        if config == self._read_config:
            return
        self._settings, error = configmaps.read(config, self._settings)
        before, self._read_config = self._read_config, config
        if before is None or config is None or config.text != before.text:
            self._note(f"configuration: {error or 'in force' if config else 'none'}")
        if config is not None and config.error != error:
            configmaps.report(self._api, config, error, self._clock.now_s())

    def _tell_status(self) -> None:
        """Written when it has changed; at rest nothing is written."""
        status = status_of(self._cluster.seen(), self._memory, self._settings, self._decisions)
        if status != self._told_status:
            configmaps.write_status(self._api, status)
            self._told_status = status


def _token(action: Action) -> str:
    """What the action writes to; no two writes to the same thing at a time."""
    if isinstance(action, (SetConditions, DeleteRequest)):
        return action.request.uid
    return f"node {action.name}"
