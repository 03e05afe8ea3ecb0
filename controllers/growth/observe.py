"""Gather what the growth decision looks at, from the stores alone."""

from __future__ import annotations

from dataclasses import replace

from controllers.gang.jobs import job_of_cluster
from controllers.gang.seen import SeenJob
from controllers.growth.seen import SeenGrowth
from controllers.terms import terms_of
from controllers.world import World
from taugrid_ray import names
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.resource import RAY_JOB
from taugrid_ray.kinds.workload import Workload


def observe(world: World, uid: str, *, refused: str = "", salt: int = 0) -> SeenGrowth:
    """uid: of a RayCluster that is or was there. Only asked once every store is synced."""
    cluster = world.ray_cluster(uid)
    requests = world.growth_requests(uid)
    found = SeenGrowth(
        requests=requests, templates=world.growth_templates(uid), refused=refused, salt=salt
    )
    if cluster is None:
        return found
    job = _job_of(world, cluster)
    found = replace(found, cluster=cluster, job=job, pods=world.cluster_pods(cluster))
    if job is None:
        return found
    slices = world.workloads_of_job(job.ref.uid)
    current = _newest([w for w in slices if _is_in_force(w)])
    if current is None:
        return found
    # While the job is suspended or over, what was asked for coldly is the gang's own.
    cold_of = () if job.suspended or job.ended else slices
    cold = tuple(r for w in cold_of for r in world.requests(w.uid))
    cold_templates = tuple(t for w in cold_of for t in world.templates(w.uid))
    terms = terms_of(world, current)
    return replace(
        found,
        current=current,
        replaced=_replaced(current, slices),
        requests=(*requests, *cold),
        templates=(*found.templates, *cold_templates),
        check=terms.check,
        on_flavors=terms.on_flavors,
        flavors=terms.flavors,
        policy=terms.policy,
        policy_fault=terms.policy_fault,
    )


def _job_of(world: World, cluster: RayCluster) -> SeenJob | None:
    """Whom Kueue admits for this cluster: the RayJob that owns it, else the cluster."""
    owner = cluster.meta.controller_owner
    if owner is None or owner.kind != RAY_JOB.kind:
        return job_of_cluster(cluster)
    return world.ray_job(owner.uid)


def _is_in_force(workload: Workload) -> bool:
    return (
        workload.reservation is not None
        and not workload.is_true(wl.FINISHED)
        and not workload.meta.is_terminating
    )


def _newest(slices: list[Workload]) -> Workload | None:
    return max(slices, key=lambda w: (w.meta.created_at_s or 0.0, w.meta.name), default=None)


def _replaced(current: Workload, slices: tuple[Workload, ...]) -> Workload | None:
    """The slice it names as the one it takes the place of, which Kueue has finished."""
    named = current.meta.annotations.get(names.SLICE_FOR, "")
    return next((w for w in slices if named and named == w.meta.key), None)
