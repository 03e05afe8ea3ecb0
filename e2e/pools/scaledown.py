"""Scale-down: idle nodes go, never below the pool's minimum.

Idle is a node without pods (daemon pods and finished ones aside), without a booking, and that no
pending pod would fit on: what `Snapshot` calls not busy. It must have been so for a while, and
the last scale-up must be long enough ago. A node that never came up, or is no longer Ready, goes
after a longer while. Pods are never moved to make a node idle.
"""

from __future__ import annotations

from dataclasses import replace

from e2e.pools import cloud
from e2e.pools.settings import Pool
from e2e.pools.state import DeleteNode, Node
from e2e.pools.turn import Turn


def run(turn: Turn) -> None:
    unneeded_since_s: dict[str, float] = {}
    sizes = {pool.name: turn.target(pool) for pool in turn.settings.pools}
    for node in turn.seen.nodes:
        pool = turn.settings.pool(node.pool)
        if pool is None or not _is_unneeded(turn, node):
            continue
        since_s = turn.memory.unneeded_since_s.get(node.name, turn.now_s)
        unneeded_since_s[node.name] = since_s
        if _may_go(turn, node, turn.now_s - since_s) and sizes[pool.name] > pool.min:
            sizes[pool.name] -= 1
            _remove(turn, node, pool)
    turn.memory = replace(turn.memory, unneeded_since_s=unneeded_since_s)


def _is_unneeded(turn: Turn, node: Node) -> bool:
    there = turn.snapshot.bins.get(node.name)
    if there is not None:
        return not there.busy and not cloud.is_upcoming(turn, node)
    return True


def _may_go(turn: Turn, node: Node, idle_s: float) -> bool:
    habits = turn.habits
    added_at_s = turn.memory.added_at_s
    if (
        added_at_s is not None
        and turn.now_s - added_at_s < habits.scale_down_delay_after_add_seconds
    ):
        return False
    if not node.ready:
        return idle_s >= habits.scale_down_unready_seconds
    return idle_s >= habits.scale_down_unneeded_seconds


def _remove(turn: Turn, node: Node, pool: Pool) -> None:
    turn.do(DeleteNode(node.name, node.uid))
    why = "is not needed" if node.ready else "is not Ready"
    turn.note(f"pool {pool.name}: node {node.name} {why} and goes")
