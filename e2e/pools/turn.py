"""One loop in the making: what was seen, what has been decided so far.

The only thing here that changes. It is made by `decide`, handed through the chapters of a loop, and
ends as a frozen Decision.
"""

from __future__ import annotations

from dataclasses import replace

from e2e.pools.fit import Snapshot
from e2e.pools.nodes import template
from e2e.pools.settings import Autoscaler, Pool, Settings
from e2e.pools.state import (
    Action,
    CreateNode,
    Decision,
    DeleteRequest,
    Memory,
    Node,
    Order,
    Pause,
    Request,
    Seen,
    SetConditions,
)
from taugrid_ray.kinds.conditions import Condition
from taugrid_ray.kinds.meta import format_time
from taugrid_ray.names import digest


class Turn:
    def __init__(self, seen: Seen, memory: Memory, settings: Settings, now_s: float) -> None:
        self.seen = seen
        self.settings = settings
        self.now_s = now_s
        self.requests = {request.uid: request for request in seen.requests}
        """As they will be after this loop."""
        self.templates = {pool.name: template(pool) for pool in settings.pools}
        self.snapshot = Snapshot(())
        self.memory = memory
        self.again = False
        self._actions: list[Action] = []
        self._notes: list[str] = []
        self._said: dict[str, None] = {}

    @property
    def habits(self) -> Autoscaler:
        return self.settings.autoscaler

    def do(self, action: Action) -> None:
        self._actions.append(action)

    def note(self, text: str) -> None:
        self._notes.append(text)

    def say(self, uid: str, type_: str, status: str, reason: str, message: str) -> None:
        """Put a condition on a request; all of one loop are written at once."""
        new = Condition(type_, status, reason, message, format_time(self.now_s))
        self.requests[uid] = self.requests[uid].with_condition(new)
        self._said[uid] = None

    def forget(self, request: Request) -> None:
        del self.requests[request.uid]
        self._said.pop(request.uid, None)
        self.do(DeleteRequest(request))

    def nodes_of(self, pool: Pool) -> tuple[Node, ...]:
        return tuple(node for node in self.seen.nodes if node.pool == pool.name)

    def target(self, pool: Pool) -> int:
        """The size that the cloud has been asked for."""
        ordered = sum(1 for order in self.memory.orders if order.pool == pool.name)
        return len(self.nodes_of(pool)) + ordered

    def is_paused(self, pool: Pool) -> bool:
        pause = self.memory.pauses.get(pool.name)
        return pause is not None and self.now_s < pause.until_s

    def pause(self, pool: Pool) -> None:
        """The cloud let the pool down: leave it alone, each time twice as long."""
        before = self.memory.pauses.get(pool.name)
        length = self.habits.initial_pool_backoff_seconds
        if before is not None:
            length = min(before.length_s * 2, self.habits.max_pool_backoff_seconds)
        pauses = {**self.memory.pauses, pool.name: Pause(self.now_s + length, length)}
        self.memory = replace(self.memory, pauses=pauses)
        self.note(f"pool {pool.name}: left alone for {length:g} s")

    def order(self, pool: Pool, count: int) -> None:
        """The cloud promises `count` nodes; those that boot at once are made in this loop."""
        taken = {node.name for node in self.seen.nodes}
        for _ in range(count):
            name = self._fresh_name(pool, taken)
            taken.add(name)
            order = Order(pool.name, name, self.now_s)
            self.memory = replace(self.memory, orders=(*self.memory.orders, order))
            if pool.boot_seconds == 0:
                self.do(CreateNode(pool, name))
        self.memory = replace(self.memory, added_at_s=self.now_s)

    def _fresh_name(self, pool: Pool, taken: set[str]) -> str:
        while True:
            serial = self.memory.serial
            self.memory = replace(self.memory, serial=serial + 1)
            name = f"{pool.name}-{digest(self.memory.seed, pool.name, str(serial), length=5)}"
            if name not in taken:
                return name

    def end(self) -> Decision:
        """Nodes first, then answers: Provisioned is said after the resize was accepted."""
        answers = [SetConditions(self.requests[uid]) for uid in self._said]
        live = {request.uid for request in self.seen.requests}
        backoff_s = {uid: s for uid, s in self.memory.backoff_s.items() if uid in live}
        memory = replace(self.memory, backoff_s=backoff_s)
        return Decision((*self._actions, *answers), memory, tuple(self._notes), self.again)
