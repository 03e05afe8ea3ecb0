"""Which gangs to look at again when something changes. Too many is harmless, too few is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controllers.gang.seen import SeenJob
from controllers.world import World
from taugrid_ray import names
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.queues import AdmissionCheck
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kube.delta import Delta


def gangs_touched(delta: Delta[Any], world: World) -> Iterable[str]:
    """Workload uids."""
    some: Any = delta.new if delta.new is not None else delta.old
    if delta.kind == kinds.WORKLOAD:
        return (delta.uid,)
    if delta.kind in (kinds.PROVISIONING_REQUEST, kinds.POD_TEMPLATE, kinds.POD):
        meta = some if delta.kind == kinds.POD_TEMPLATE else some.meta
        return (meta.labels[names.WORKLOAD_UID],) if names.WORKLOAD_UID in meta.labels else ()
    if isinstance(some, (SeenJob, RayCluster)):
        return [w.uid for w in world.workloads_of_job(delta.uid)]
    if isinstance(some, AdmissionCheck):
        return [w.uid for w in world.workloads_with_check(some.meta.name)]
    if delta.kind == kinds.CAPACITY_POLICY:
        checks = world.checks_with_policy(delta.key.name)
        return [w.uid for c in checks for w in world.workloads_with_check(c.meta.name)]
    if delta.kind in (kinds.CLUSTER_QUEUE, kinds.RESOURCE_FLAVOR):
        return all_gangs(world)
    return ()


def all_gangs(world: World) -> set[str]:
    """Every Workload with a check or a memory of ours, and every uid that an object of ours names:
    among these is all that may have been left behind while nobody looked.
    """
    found = {
        workload.uid
        for workload in world.stores[kinds.WORKLOAD].values()
        if workload.checks or names.MEMORY in workload.meta.annotations
    }
    for kind in (kinds.PROVISIONING_REQUEST, kinds.POD_TEMPLATE):
        found.update(world.stores[kind].words("workload"))
    return found
