"""Which clusters to look at again when something changes. Too many is harmless, too few is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controllers.world import World
from taugrid_ray import names
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.kube.delta import Delta


def clusters_touched(delta: Delta[Any], world: World) -> Iterable[str]:
    """RayCluster uids."""
    some: Any = delta.new if delta.new is not None else delta.old
    if delta.kind == kinds.RAY_CLUSTER:
        return (delta.uid,)
    if delta.kind == kinds.POD:
        meta = some.meta
        name = meta.labels.get(names.RAY_CLUSTER_LABEL)
        cluster = world.ray_cluster_named(meta.namespace, name) if name else None
        return (cluster.meta.uid,) if cluster is not None and is_ours(cluster) else ()
    if delta.kind in (kinds.PROVISIONING_REQUEST, kinds.POD_TEMPLATE):
        labels = (some if delta.kind == kinds.POD_TEMPLATE else some.meta).labels
        if names.CLUSTER_UID in labels:
            return (labels[names.CLUSTER_UID],)
        workload = world.workload(labels.get(names.WORKLOAD_UID, ""))
        return _of(workload, world) if workload is not None else ()
    if delta.kind == kinds.WORKLOAD:
        return _of(some, world)
    if delta.kind == kinds.RAY_JOB:
        return [c.meta.uid for c in world.ray_clusters_of(delta.uid) if is_ours(c)]
    if delta.kind in (
        kinds.ADMISSION_CHECK,
        kinds.CAPACITY_POLICY,
        kinds.CLUSTER_QUEUE,
        kinds.RESOURCE_FLAVOR,
    ):
        return all_clusters(world)
    return ()


def all_clusters(world: World) -> set[str]:
    """Every elastic cluster or one with lowered limits, and every uid that an object of ours
    names."""
    found = {c.meta.uid for c in world.stores[kinds.RAY_CLUSTER].values() if is_ours(c)}
    for kind in (kinds.PROVISIONING_REQUEST, kinds.POD_TEMPLATE):
        found.update(world.stores[kind].words("cluster"))
    return found


def is_ours(cluster: RayCluster) -> bool:
    return cluster.is_elastic or names.GROWTH in cluster.meta.annotations


def _of(workload: Workload, world: World) -> Iterable[str]:
    if workload.job is None:
        return ()
    return [c.meta.uid for c in world.ray_clusters_of(workload.job.uid) if is_ours(c)]
