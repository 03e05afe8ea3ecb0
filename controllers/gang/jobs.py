"""The user's own object, as far as admission looks at it: Job, RayJob or RayCluster -> SeenJob."""

from __future__ import annotations

from controllers.gang.seen import SeenJob
from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import is_true, parse_conditions
from taugrid_ray.kinds.meta import OwnerRef, parse_meta
from taugrid_ray.kinds.resource import JOB, RAY_CLUSTER, RAY_JOB, Obj, Resource

_RAY_JOB_ENDED = ("Complete", "Failed", "ValidationFailed")


def _seen(
    kind: Resource, obj: Obj, *, suspended: bool, entrypoint_started: bool, ended: bool
) -> SeenJob:
    meta = parse_meta(obj)
    return SeenJob(
        ref=OwnerRef(kind.api_version, kind.kind, meta.name, meta.uid, controller=True),
        suspended=suspended,
        entrypoint_started=entrypoint_started,
        ended=ended or meta.is_terminating,
        provision_deadline=meta.annotations.get(names.PROVISION_DEADLINE, ""),
    )


def parse_job(obj: Obj) -> SeenJob:
    conditions = parse_conditions(obj)
    return _seen(
        JOB,
        obj,
        suspended=fields.is_true(obj, "spec", "suspend"),
        entrypoint_started=False,
        ended=is_true(conditions, "Complete") or is_true(conditions, "Failed"),
    )


def parse_ray_job(obj: Obj) -> SeenJob:
    return _seen(
        RAY_JOB,
        obj,
        suspended=fields.is_true(obj, "spec", "suspend"),
        entrypoint_started=fields.text(obj, "status", "jobStatus") != "",
        ended=fields.text(obj, "status", "jobDeploymentStatus") in _RAY_JOB_ENDED,
    )


def parse_ray_cluster(obj: Obj) -> SeenJob:
    return _seen(
        RAY_CLUSTER,
        obj,
        suspended=fields.is_true(obj, "spec", "suspend"),
        entrypoint_started=False,
        ended=False,
    )
