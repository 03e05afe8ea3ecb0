"""All stores of the controller, and what they need to be asked by: the cluster as last seen.

One thread owns it (the loop). Each store is filled by a reflector of its own with the same parser
and selector; `SOURCES` lists them once, so that stores, reflectors and RBAC cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controllers.gang.jobs import job_of_cluster, parse_job, parse_ray_job
from controllers.gang.seen import SeenJob
from taugrid_ray import names
from taugrid_ray.capacity_policy import CapacityPolicySpec, parse_policy
from taugrid_ray.errors import PolicyError
from taugrid_ray.kinds import fields
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.conditions import Conditions, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.node import Node, parse_node
from taugrid_ray.kinds.pod import Pod, parse_pod
from taugrid_ray.kinds.provisioning_request import (
    ProvisioningRequest,
    parse_provisioning_request,
)
from taugrid_ray.kinds.queues import (
    AdmissionCheck,
    ClusterQueue,
    ResourceFlavor,
    parse_admission_check,
    parse_cluster_queue,
    parse_resource_flavor,
)
from taugrid_ray.kinds.raycluster import RayCluster, parse_raycluster
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kinds.workload import Workload, parse_workload
from taugrid_ray.kube.delta import Key
from taugrid_ray.kube.store import Index, Store

OURS = f"{names.MANAGED_BY}={names.MANAGED_BY_US}"


@dataclass(frozen=True, slots=True)
class SeenPolicy:
    """A CapacityPolicy, usable or not."""

    meta: ObjectMeta
    spec: CapacityPolicySpec | None
    fault: str
    conditions: Conditions


def parse_seen_policy(obj: Obj) -> SeenPolicy:
    meta, conditions = parse_meta(obj), parse_conditions(obj)
    try:
        return SeenPolicy(meta, parse_policy(obj), "", conditions)
    except PolicyError as fault:
        return SeenPolicy(meta, None, fault.message, conditions)


@dataclass(frozen=True, slots=True)
class Source:
    """One kind that is listed and watched."""

    kind: Resource
    parse: Callable[[Obj], Any]
    labels: str = ""
    optional: bool = False
    """The kind may not be installed."""
    indexes: Mapping[str, Index[Any]] = field(default_factory=dict)


def _by_uid_label(value: Any) -> Iterable[str]:
    """Of the cold gang; what growth asked for belongs to its cluster alone."""
    labels = _meta(value).labels
    uid = labels.get(names.WORKLOAD_UID)
    return (uid,) if uid and names.CLUSTER_UID not in labels else ()


def _by_cluster_uid(value: Any) -> Iterable[str]:
    uid = _meta(value).labels.get(names.CLUSTER_UID)
    return (uid,) if uid else ()


def _meta(value: Any) -> ObjectMeta:
    found: ObjectMeta = value if isinstance(value, ObjectMeta) else value.meta
    return found


def parse_our_pod(obj: Obj) -> Pod | None:
    """Pods of gangs that we booked, and of Ray clusters; no other is of interest."""
    labels = fields.mapping(obj, "metadata", "labels")
    if names.WORKLOAD_UID not in labels and names.RAY_CLUSTER_LABEL not in labels:
        return None
    return parse_pod(obj)


def _pod_cluster(value: Pod) -> Iterable[str]:
    name = value.meta.labels.get(names.RAY_CLUSTER_LABEL)
    return (f"{value.meta.namespace}/{name}",) if name else ()


def _cluster_uid(value: RayCluster) -> Iterable[str]:
    return (value.meta.uid,)


def _cluster_owner(value: RayCluster) -> Iterable[str]:
    owner = value.meta.controller_owner
    return (owner.uid,) if owner else ()


def _workload_uid(value: Workload) -> Iterable[str]:
    return (value.uid,)


def _workload_job(value: Workload) -> Iterable[str]:
    return (value.job.uid,) if value.job else ()


def _workload_checks(value: Workload) -> Iterable[str]:
    return [check.name for check in value.checks]


def _job_uid(value: SeenJob) -> Iterable[str]:
    return (value.ref.uid,)


def _check_parameters(value: AdmissionCheck) -> Iterable[str]:
    return (value.parameters_name,) if value.controller == names.CONTROLLER else ()


SOURCES = (
    Source(kinds.ADMISSION_CHECK, parse_admission_check, indexes={"policy": _check_parameters}),
    Source(kinds.CLUSTER_QUEUE, parse_cluster_queue),
    Source(kinds.RESOURCE_FLAVOR, parse_resource_flavor),
    Source(kinds.CAPACITY_POLICY, parse_seen_policy),
    Source(kinds.NODE, parse_node),
    Source(kinds.JOB, parse_job, labels=names.QUEUE, indexes={"uid": _job_uid}),
    Source(
        kinds.RAY_JOB, parse_ray_job, labels=names.QUEUE, optional=True, indexes={"uid": _job_uid}
    ),
    # KubeRay copies the labels of a RayJob to its cluster, the queue's name among them.
    Source(
        kinds.RAY_CLUSTER,
        parse_raycluster,
        labels=names.QUEUE,
        optional=True,
        indexes={"uid": _cluster_uid, "owner": _cluster_owner},
    ),
    Source(
        kinds.WORKLOAD,
        parse_workload,
        indexes={"uid": _workload_uid, "job": _workload_job, "check": _workload_checks},
    ),
    Source(
        kinds.PROVISIONING_REQUEST,
        parse_provisioning_request,
        labels=OURS,
        indexes={"workload": _by_uid_label, "cluster": _by_cluster_uid},
    ),
    Source(
        kinds.POD_TEMPLATE,
        parse_meta,
        labels=OURS,
        indexes={"workload": _by_uid_label, "cluster": _by_cluster_uid},
    ),
    # Kueue labels every pod that it admits with its pod set.
    Source(
        kinds.POD,
        parse_our_pod,
        labels=names.POD_SET,
        indexes={"workload": _by_uid_label, "cluster": _pod_cluster},
    ),
)
_JOB_KINDS = {(s.kind.api_version, s.kind.kind): s.kind for s in SOURCES if "uid" in s.indexes}


class World:
    """Typed questions to the stores. Answers are frozen values."""

    def __init__(self) -> None:
        self.stores: dict[Resource, Store[Any]] = {
            s.kind: Store(s.kind, s.parse, indexes=s.indexes) for s in SOURCES
        }

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.stores.values())

    def workload(self, uid: str) -> Workload | None:
        return next(iter(self.stores[kinds.WORKLOAD].by("uid", uid)), None)

    def workloads_with_check(self, check: str) -> tuple[Workload, ...]:
        return self.stores[kinds.WORKLOAD].by("check", check)

    def workloads_of_job(self, uid: str) -> tuple[Workload, ...]:
        return self.stores[kinds.WORKLOAD].by("job", uid)

    def is_workload_name(self, namespace: str, name: str) -> bool:
        return Key(namespace, name) in self.stores[kinds.WORKLOAD]

    def requests(self, workload_uid: str) -> tuple[ProvisioningRequest, ...]:
        return self.stores[kinds.PROVISIONING_REQUEST].by("workload", workload_uid)

    def templates(self, workload_uid: str) -> tuple[ObjectMeta, ...]:
        return self.stores[kinds.POD_TEMPLATE].by("workload", workload_uid)

    def pods(self, workload_uid: str) -> tuple[Pod, ...]:
        return self.stores[kinds.POD].by("workload", workload_uid)

    def job(self, workload: Workload) -> SeenJob | None:
        ref = workload.job
        kind = _JOB_KINDS.get((ref.api_version, ref.kind)) if ref else None
        if ref is None or kind is None:
            return None
        found = next(iter(self.stores[kind].by("uid", ref.uid)), None)
        return job_of_cluster(found) if isinstance(found, RayCluster) else found

    def ray_job(self, uid: str) -> SeenJob | None:
        return next(iter(self.stores[kinds.RAY_JOB].by("uid", uid)), None)

    def ray_cluster(self, uid: str) -> RayCluster | None:
        return next(iter(self.stores[kinds.RAY_CLUSTER].by("uid", uid)), None)

    def ray_cluster_named(self, namespace: str, name: str) -> RayCluster | None:
        found: RayCluster | None = self.stores[kinds.RAY_CLUSTER].get(Key(namespace, name))
        return found

    def ray_clusters_of(self, job_uid: str) -> tuple[RayCluster, ...]:
        """The cluster of that uid itself, and those that a RayJob of that uid owns."""
        store = self.stores[kinds.RAY_CLUSTER]
        return (*store.by("uid", job_uid), *store.by("owner", job_uid))

    def cluster_pods(self, cluster: RayCluster) -> tuple[Pod, ...]:
        key = f"{cluster.meta.namespace}/{cluster.meta.name}"
        return self.stores[kinds.POD].by("cluster", key)

    def growth_requests(self, cluster_uid: str) -> tuple[ProvisioningRequest, ...]:
        return self.stores[kinds.PROVISIONING_REQUEST].by("cluster", cluster_uid)

    def growth_templates(self, cluster_uid: str) -> tuple[ObjectMeta, ...]:
        return self.stores[kinds.POD_TEMPLATE].by("cluster", cluster_uid)

    def check(self, name: str) -> AdmissionCheck | None:
        found: AdmissionCheck | None = self.stores[kinds.ADMISSION_CHECK].get(Key("", name))
        return found

    def checks_with_policy(self, policy: str) -> tuple[AdmissionCheck, ...]:
        return self.stores[kinds.ADMISSION_CHECK].by("policy", policy)

    def our_check_of(self, workload: Workload) -> str:
        """The name of the check of ours on this Workload; "" for none."""
        for listed in workload.checks:
            check = self.check(listed.name)
            if check is not None and check.controller == names.CONTROLLER:
                return listed.name
        return ""

    def policy(self, name: str) -> SeenPolicy | None:
        found: SeenPolicy | None = self.stores[kinds.CAPACITY_POLICY].get(Key("", name))
        return found

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        found: ClusterQueue | None = self.stores[kinds.CLUSTER_QUEUE].get(Key("", name))
        return found

    def flavor(self, name: str) -> ResourceFlavor | None:
        found: ResourceFlavor | None = self.stores[kinds.RESOURCE_FLAVOR].get(Key("", name))
        return found

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.stores[kinds.NODE].values())
