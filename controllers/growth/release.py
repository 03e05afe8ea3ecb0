"""Which gated pods may go, with which booking; and which have lost theirs.

A lost worker's successor goes at once and without a booking: its node is free, or the cluster
autoscaler helps it like any pod. A new worker goes with the name of its booking. The head, which
our gate never holds, gets the name of its cold booking while it waits for a node. Pods that Kueue
still holds are left: they may yet be withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable

from controllers.actions import PodRelease, Target
from controllers.growth.seen import SeenGrowth
from controllers.growth.tally import GroupTally, free_of, is_booked, is_head
from taugrid_ray import names
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.verdict import Verdict, answer_of

_LIVE = (Verdict.SILENT, Verdict.NO_ROOM, Verdict.BOOKED, Verdict.CONSUMED)


def held_by_kueue(pod: Pod) -> bool:
    return names.ELASTIC in pod.gates


def releases(
    seen: SeenGrowth,
    current: Workload,
    covered: Iterable[GroupTally],
    uncovered: Iterable[GroupTally],
    *,
    with_bookings: bool,
) -> tuple[PodRelease, ...]:
    """with_bookings: the whole wish is booked; before, only lost workers come back."""
    found = [_release(pod, current) for t in uncovered for pod in t.gated if not held_by_kueue(pod)]
    left = [(r, free_of(seen, r)) for r in sorted(seen.requests, key=_name) if is_booked(r)]
    for t in covered:
        ready = [pod for pod in t.gated if not held_by_kueue(pod)]
        found += [_release(pod, current) for pod in ready[: t.replacements]]
        if not with_bookings:
            continue
        for pod in ready[t.replacements : t.replacements + t.booked]:
            request, free = next((r, f) for r, f in left if f.get(t.group.pod_set, 0) > 0)
            free[t.group.pod_set] -= 1
            found.append(
                _release(pod, current, booking=request.meta.name, class_name=request.class_name)
            )
    for pod in waiting_heads(seen):
        pod_set = pod.meta.labels.get(names.POD_SET, "")
        for request, free in left:
            if free.get(pod_set, 0) > 0:
                free[pod_set] -= 1
                found.append(
                    _release(pod, current, booking=request.meta.name, class_name=request.class_name)
                )
                break
    return tuple(found)


def waiting_heads(seen: SeenGrowth) -> tuple[Pod, ...]:
    """Heads (one, or none) that wait for a node, and that no gate holds until they have a name."""
    return tuple(
        p
        for p in seen.pods
        if is_head(p) and p.is_live and not p.node and not p.gates and not p.booking
    )


def _release(pod: Pod, current: Workload, *, booking: str = "", class_name: str = "") -> PodRelease:
    meta = pod.meta
    at = Target(meta.namespace, meta.name, meta.uid, meta.resource_version)
    index = pod.gates.index(names.GATE) if names.GATE in pod.gates else None
    return PodRelease(at, index, bool(meta.annotations), current.uid, booking, class_name)


def _name(request: ProvisioningRequest) -> str:
    return request.meta.name


def lost_bookings(seen: SeenGrowth) -> tuple[Pod, ...]:
    """Live pods not bound to a node that name a booking which is over or gone: with the name on
    them the cluster autoscaler never helps them.
    """
    live = {r.meta.name for r in seen.requests if answer_of(r).verdict in _LIVE}
    return tuple(
        p for p in seen.pods if p.is_live and not p.node and p.booking and p.booking not in live
    )
