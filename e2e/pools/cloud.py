"""The cloud: what becomes of a resize, and of the nodes it promised.

An accepted resize is a promise, an Order. After the pool's boot time it becomes a Node object;
the node is brought up after the pool's ready time, and shows its accelerators later still, if
ever. Until all of that has happened the node is *upcoming*: the autoscaler counts on it as if it
were empty and complete, but for no longer than the provision limit.
"""

from __future__ import annotations

from dataclasses import replace

from e2e.pools.nodes import accelerators, advertised_later, ready_after_s
from e2e.pools.settings import Pool
from e2e.pools.state import HELD_ANNOTATION, Advertise, BringUp, CreateNode, Node, NodeShape
from e2e.pools.turn import Turn


def increase(turn: Turn, pool: Pool, count: int) -> bool:
    """Ask for `count` more nodes. False: the cloud refused, and the pool is paused."""
    possible = count
    if pool.stock_out is not None:
        possible = max(0, min(count, pool.stock_out.after_nodes - turn.target(pool)))
    if possible == count:
        turn.note(f"pool {pool.name}: {count} more nodes, {turn.target(pool) + count} in all")
        turn.order(pool, count)
        pauses = {k: v for k, v in turn.memory.pauses.items() if k != pool.name}
        turn.memory = replace(turn.memory, pauses=pauses)
        return True
    turn.note(f"pool {pool.name}: out of stock, {count} more nodes refused")
    if possible and pool.stock_out is not None and pool.stock_out.partial:
        turn.order(pool, possible)
    turn.pause(pool)
    return False


def run(turn: Turn) -> None:
    """Let the time pass for everything that the cloud has promised or made."""
    _settle_orders(turn)
    was_up = set()
    for node in turn.seen.nodes:
        pool = turn.settings.pool(node.pool)
        if pool is None:
            continue
        if node.uid in turn.memory.was_up or is_up(node, turn.templates[pool.name]):
            was_up.add(node.uid)
        if pool.kind == "fake":
            _bring_up(turn, node)
    turn.memory = replace(turn.memory, was_up=frozenset(was_up))
    for pool in turn.settings.pools:
        missing = pool.min - turn.target(pool)
        if missing > 0 and not turn.is_paused(pool):
            increase(turn, pool, missing)


def _settle_orders(turn: Turn) -> None:
    """Orders become nodes, or run out of time and are taken back."""
    there = {node.name for node in turn.seen.nodes}
    kept = []
    overdue: dict[str, Pool] = {}
    for order in turn.memory.orders:
        pool = turn.settings.pool(order.pool)
        if pool is None or order.name in there:
            continue
        waited_s = turn.now_s - order.asked_at_s
        if waited_s >= turn.habits.max_node_provision_seconds:
            overdue[pool.name] = pool
            turn.note(f"pool {pool.name}: node {order.name} did not come in {waited_s:.0f} s")
            continue
        kept.append(order)
        if pool.boot_seconds != "never" and waited_s >= pool.boot_seconds:
            turn.do(CreateNode(pool, order.name))
    turn.memory = replace(turn.memory, orders=tuple(kept))
    for pool in overdue.values():
        turn.pause(pool)


def _bring_up(turn: Turn, node: Node) -> None:
    after_s = ready_after_s(node)
    due = after_s is not None and turn.now_s - node.created_at_s >= after_s
    if due and HELD_ANNOTATION in node.annotations:
        turn.do(BringUp(node.name, node.uid))
    if not node.ready:
        return
    later = advertised_later(node)
    # kwok dates its first Ready back to the node's creation.
    up_for_s = turn.now_s - max(node.ready_since_s, node.created_at_s + (after_s or 0.0))
    amounts = {
        name: amount
        for name, (amount, seconds) in later.items()
        if seconds is not None and up_for_s >= seconds and name not in node.shape.allocatable
    }
    if amounts:
        turn.do(Advertise(node.name, amounts))


def is_up(node: Node, template: NodeShape) -> bool:
    """Ready, with every accelerator that the pool's nodes have."""
    return node.ready and all(
        node.shape.allocatable.get(name, 0) >= amount
        for name, amount in accelerators(template.allocatable).items()
    )


def is_upcoming(turn: Turn, node: Node) -> bool:
    """Does the autoscaler still count on it as a new, complete, empty node?"""
    if node.uid in turn.memory.was_up:
        return False
    return turn.now_s - node.created_at_s < turn.habits.max_node_provision_seconds
