"""How many pods of a gang the nodes of its pool could hold, by their sizes alone.

First fit, largest pods first. It is an estimate in one direction: first fit may need more room
than the best packing, so "they fit" is true and "they do not fit yet" may be too careful.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from taugrid_ray.quantity import Resources


def is_extended(resource: str) -> bool:
    """A resource that a device plugin advertises after the node is Ready, such as a GPU."""
    return "/" in resource and not resource.startswith("kubernetes.io/")


def count_that_fit(pods: Iterable[tuple[int, Resources]], nodes: Sequence[Resources]) -> int:
    """Pods placed, of `pods` as (count, per pod), on `nodes` by what each has free."""
    free = [dict(node) for node in nodes]
    placed = 0
    for count, needs in sorted(pods, key=lambda p: sorted(p[1].items()), reverse=True):
        left = count
        for node in free:
            if left == 0:
                break
            fits = min(left, _times(needs, node))
            for resource, amount in needs.items():
                node[resource] = node.get(resource, Fraction(0)) - amount * fits
            left -= fits
        placed += count - left
    return placed


def _times(needs: Resources, free: Mapping[str, Fraction]) -> int:
    """How often one pod fits into what a node has free."""
    counts = [
        free.get(resource, Fraction(0)) // amount
        for resource, amount in needs.items()
        if amount > 0
    ]
    # A pod that asks for nothing fits as often as a node takes pods; kubelets take 110 by default.
    return max(0, min(counts, default=110))
