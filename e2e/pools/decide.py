"""One loop of the autoscaler and its cloud, as a pure function.

In the order of the real one: what ran out is ended; the cloud's promises become nodes; all
nodes, upcoming ones included, are laid out with their pods; pending pods that fit are placed;
one request is taken up; bookings are placed; then either the request or the ordinary pods that
found no place get a scale-up (in turns where both wait); last, idle nodes go.

Pods with the consume annotation never cause a scale-up, whatever became of their request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from e2e.pools import cloud, requests, scaledown
from e2e.pools.fit import Bin, Group, Snapshot, empty_bin, fill
from e2e.pools.settings import Pool, Settings
from e2e.pools.state import Decision, Memory, PodShape, Seen
from e2e.pools.turn import Turn


def decide(seen: Seen, memory: Memory, settings: Settings, now_s: float) -> Decision:
    turn = Turn(seen, memory, settings, now_s)
    requests.end_what_ran_out(turn)
    cloud.run(turn)
    turn.snapshot = lay_out(turn)
    if settings.autoscaler.instant:
        requests.answer_all_at_once(turn)
        waiting = _place_pending(turn)
        requests.book(turn)
        _scale_up_for_pods(turn, waiting)
    else:
        _scale_up(turn)
    scaledown.run(turn)
    return turn.end()


def decide_instant(seen: Seen, memory: Memory, settings: Settings, now_s: float) -> Decision:
    """Between two loops: only the answers of an instant autoscaler. Looks at no node."""
    turn = Turn(seen, memory, settings, now_s)
    requests.answer_all_at_once(turn)
    return turn.end()


def lay_out(turn: Turn) -> Snapshot:
    """Nodes with the pods that run there; nodes still to come are complete and empty.

    A node that is not Ready and no longer upcoming offers nothing.
    """
    bins: dict[str, Bin] = {}
    for node in turn.seen.nodes:
        pool = turn.settings.pool(node.pool)
        if pool is not None and cloud.is_upcoming(turn, node):
            bins[node.name] = empty_bin(node.name, turn.templates[pool.name])
        elif node.ready and not node.cordoned:
            bins[node.name] = empty_bin(node.name, node.shape)
        else:
            bins[node.name] = Bin(node.name, node.shape, {})
    for pod in turn.seen.pods:
        if pod.node in bins and not pod.has_ended:
            bins[pod.node].take(pod.shape, busy=not pod.is_daemon)
    for order in turn.memory.orders:
        bins[order.name] = empty_bin(order.name, turn.templates[order.pool])
    return Snapshot(bins.values())


def _place_pending(turn: Turn) -> Counter[PodShape]:
    """Pending pods take their place first; returns the ordinary ones that found none."""
    pending = Counter(
        (pod.shape, bool(pod.consumes))
        for pod in turn.seen.pods
        if pod.is_unschedulable and not pod.node and not pod.has_ended
    )
    waiting: Counter[PodShape] = Counter()
    for (shape, is_consuming), count in pending.items():
        left = count - turn.snapshot.place(shape, count)
        if left and not is_consuming:
            waiting[shape] += left
    return waiting


def _scale_up(turn: Turn) -> None:
    waiting = _place_pending(turn)
    taken = requests.take_up(turn)
    requests.book(turn)
    is_requests_turn = bool(taken) and (not waiting or turn.memory.requests_turn)
    if is_requests_turn:
        for request in taken:
            requests.answer(turn, request)
    else:
        _scale_up_for_pods(turn, waiting)
        turn.again = bool(taken)
    turn.memory = replace(turn.memory, requests_turn=not is_requests_turn)


def _scale_up_for_pods(turn: Turn, waiting: Counter[PodShape]) -> None:
    """Ordinary scale-up: the pool that helps most pods, then with the fewest nodes."""
    groups: tuple[Group, ...] = tuple(waiting.items())
    options: list[tuple[int, int, int, Pool]] = []
    for rank, pool in enumerate(turn.settings.pools if groups else ()):
        if turn.is_paused(pool):
            continue
        filling = fill(groups, turn.templates[pool.name], pool.max - turn.target(pool))
        if filling.placed:
            options.append((-filling.placed, filling.nodes, rank, pool))
    if options:
        _, nodes, _, pool = min(options, key=lambda option: option[:3])
        cloud.increase(turn, pool, nodes)
