"""Are the booked nodes there? Booked is not ready; Ready does not mean that GPUs are advertised.

Nobody says which nodes belong to a booking, so the pool's Ready nodes are asked whether the gang
fits on them: without what device plugins bring (the nodes clock), then with it (the accelerators
clock). What other pods use of these nodes is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from controllers.gang.seen import SeenGang
from taugrid_ray import quantity, sentences
from taugrid_ray.booking import PoolGang
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import parse_time
from taugrid_ray.kinds.node import Node
from taugrid_ray.kinds.pod_spec import effective_requests, parse_pod_spec
from taugrid_ray.kinds.strict import Field, FieldError
from taugrid_ray.packing import count_that_fit, is_extended
from taugrid_ray.quantity import Resources
from taugrid_ray.reasons import Clock
from taugrid_ray.sentences import Told


@dataclass(frozen=True, slots=True)
class Held:
    """What is waited for, and for how long still."""

    clock: Clock
    ready: int
    """Pods for which Ready nodes have room."""
    total: int
    resource: str
    limit_s: float
    until_s: float
    now_s: float

    @property
    def left_s(self) -> float:
        return self.until_s - self.now_s

    @property
    def failed(self) -> bool:
        return self.left_s <= 0

    def told(self, gang: str) -> Told:
        if self.clock is Clock.NODES:
            if self.failed:
                return sentences.nodes_timed_out(gang, self.total - self.ready, self.limit_s)
            return sentences.waiting_for_nodes(gang, self.ready, self.until_s)
        if self.failed:
            return sentences.accelerators_timed_out(gang, self.resource, self.limit_s)
        return sentences.waiting_for_accelerators(gang, self.resource, self.until_s)


def hold(
    seen: SeenGang,
    policy: CapacityPolicySpec,
    *,
    asked_pools: Sequence[PoolGang],
    booked_at_s: float,
    now_s: float,
) -> Held | None:
    """What keeps a booked gang from Ready; None where the policy does not wait for nodes."""
    if policy.ready_when == "Booked":
        return None
    return progress(seen, policy, asked_pools=asked_pools, booked_at_s=booked_at_s, now_s=now_s)


def progress(
    seen: SeenGang,
    policy: CapacityPolicySpec,
    *,
    asked_pools: Sequence[PoolGang],
    booked_at_s: float,
    now_s: float,
) -> Held | None:
    """The clock that runs between booked and all nodes there; None once the gang fits on them.

    booked_at_s: when the nodes clock started. The accelerators clock starts with the last node that
    became Ready.
    """
    total = sum(p.pods for p in asked_pools)
    pods = {p.pool: _pods(p) for p in asked_pools}
    ready = {p.pool: _ready(seen.nodes, p) for p in asked_pools}
    plain = sum(
        count_that_fit(
            [(count, _without_extended(needs)) for count, needs in pods[p.pool]],
            [_allocatable(n) for n in ready[p.pool]],
        )
        for p in asked_pools
    )
    limits = policy.deadlines
    if plain < total:
        until_s = booked_at_s + limits.nodes
        return Held(Clock.NODES, plain, total, "", limits.nodes, until_s, now_s)
    whole = sum(
        count_that_fit(pods[p.pool], [_allocatable(n) for n in ready[p.pool]]) for p in asked_pools
    )
    if whole >= total:
        return None
    names = sorted({r for p in pods.values() for _, needs in p for r in needs if is_extended(r)})
    last_ready_s = max(
        (_ready_since(n) for nodes in ready.values() for n in nodes), default=booked_at_s
    )
    until_s = max(booked_at_s, last_ready_s) + limits.accelerators
    return Held(
        Clock.ACCELERATORS, whole, total, ", ".join(names), limits.accelerators, until_s, now_s
    )


def _pods(pool: PoolGang) -> list[tuple[int, Resources]]:
    return [(p.count, _needs(p.template)) for p in pool.pod_sets]


def _needs(template: object) -> dict[str, Fraction]:
    try:
        spec = parse_pod_spec(Field(fields.mapping(template, "spec")))
    except FieldError:
        # The API server took this template, so it is a form we do not know: it asks for nothing.
        return {}
    return effective_requests(spec)


def _without_extended(needs: Resources) -> dict[str, Fraction]:
    return {name: amount for name, amount in needs.items() if not is_extended(name)}


def _ready(nodes: Sequence[Node], pool: PoolGang) -> list[Node]:
    return [n for n in nodes if n.is_ready and not n.unschedulable and n.matches(pool.node_labels)]


def _allocatable(node: Node) -> dict[str, Fraction]:
    return {name: quantity.parse(text) for name, text in node.allocatable.items()}


def _ready_since(node: Node) -> float:
    try:
        return parse_time(node.ready_since)
    except ValueError:
        return 0.0
