"""What the ConfigMap `e2e-pools-status` says: sizes and the last decisions, for people and
scenarios.

It is also the cloud's memory across a restart of the process: orders that are still to come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from e2e.pools import cloud
from e2e.pools.nodes import template
from e2e.pools.settings import Pool, Settings
from e2e.pools.state import Memory, Order, Seen
from taugrid_ray.kinds.meta import format_time, parse_time


def status_of(
    seen: Seen, memory: Memory, settings: Settings | None, decisions: Iterable[tuple[float, str]]
) -> dict[str, Any]:
    return {
        "pools": [_pool(pool, seen, memory) for pool in (settings.pools if settings else ())],
        "orders": [
            {"pool": o.pool, "name": o.name, "askedAt": format_time(o.asked_at_s)}
            for o in memory.orders
        ],
        "decisions": [{"at": format_time(at_s), "what": text} for at_s, text in decisions],
    }


def _pool(pool: Pool, seen: Seen, memory: Memory) -> dict[str, Any]:
    nodes = [node for node in seen.nodes if node.pool == pool.name]
    ordered = sum(1 for order in memory.orders if order.pool == pool.name)
    shape = template(pool)
    pause = memory.pauses.get(pool.name)
    return {
        "name": pool.name,
        "min": pool.min,
        "max": pool.max,
        "target": len(nodes) + ordered,
        "nodes": len(nodes),
        "up": sum(1 for node in nodes if cloud.is_up(node, shape)),
        **({"pausedUntil": format_time(pause.until_s)} if pause else {}),
    }


def orders_in(text: str) -> tuple[Order, ...]:
    """The orders in an earlier status; nothing where it cannot be read."""
    try:
        return tuple(
            Order(str(o["pool"]), str(o["name"]), parse_time(o["askedAt"]))
            for o in json.loads(text)["orders"]
        )
    except (ValueError, KeyError, TypeError):
        return ()
