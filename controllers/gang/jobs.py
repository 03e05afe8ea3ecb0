"""The user's own object, as far as admission looks at it: Job, RayJob or RayCluster -> SeenJob."""

from __future__ import annotations

from controllers.gang.seen import SeenJob
from taugrid_ray import names
from taugrid_ray.kinds import job as jobs
from taugrid_ray.kinds import rayjob as rayjobs
from taugrid_ray.kinds.meta import ObjectMeta, OwnerRef
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.resource import JOB, RAY_CLUSTER, RAY_JOB, Obj, Resource


def _seen(
    kind: Resource,
    meta: ObjectMeta,
    *,
    suspended: bool,
    ended: bool = False,
    entrypoint_started: bool = False,
) -> SeenJob:
    return SeenJob(
        ref=OwnerRef(kind.api_version, kind.kind, meta.name, meta.uid, controller=True),
        suspended=suspended,
        entrypoint_started=entrypoint_started,
        ended=ended or meta.is_terminating,
        provision_deadline=meta.annotations.get(names.PROVISION_DEADLINE, ""),
    )


def parse_job(obj: Obj) -> SeenJob:
    job = jobs.parse_job(obj)
    return _seen(JOB, job.meta, suspended=job.suspend, ended=job.is_finished)


def parse_ray_job(obj: Obj) -> SeenJob:
    job = rayjobs.parse_rayjob(obj)
    return _seen(
        RAY_JOB,
        job.meta,
        suspended=job.suspend,
        ended=job.is_finished,
        entrypoint_started=job.entrypoint_started,
    )


def job_of_cluster(cluster: RayCluster) -> SeenJob:
    """A RayCluster that Kueue admits itself, as a job."""
    return _seen(RAY_CLUSTER, cluster.meta, suspended=cluster.suspend)
