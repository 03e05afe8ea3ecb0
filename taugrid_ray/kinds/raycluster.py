"""ray.io/v1 RayCluster: the live numbers of its worker groups.

Pods of a group = clamp(replicas, minReplicas, maxReplicas) x numOfHosts, none while the group is
suspended. KubeRay clamps; Kueue counts `replicas` as written.

Source: ray-project/kuberay, ray-operator/apis/ray/v1/raycluster_types.go and
controllers/ray/utils/util.go, v1.6.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Conditions, is_true, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.strict import INT32_MAX

READY, SUSPENDED = "ready", "suspended"
HEAD_POD_READY = "HeadPodReady"
PROVISIONED = "RayClusterProvisioned"
IS_SUSPENDING, IS_SUSPENDED = "RayClusterSuspending", "RayClusterSuspended"


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    name: str
    replicas: int
    min_replicas: int = 0
    max_replicas: int = INT32_MAX
    num_of_hosts: int = 1
    is_suspended: bool = False
    workers_to_delete: tuple[str, ...] = ()

    @property
    def pod_set(self) -> str:
        """The name of this group's pod set in a Workload."""
        return self.name.lower()

    @property
    def wanted_replicas(self) -> int:
        """Replicas that KubeRay makes."""
        if self.is_suspended:
            return 0
        if self.replicas < self.min_replicas:
            return self.min_replicas
        return min(self.replicas, self.max_replicas)

    @property
    def wanted_pods(self) -> int:
        """Pods that KubeRay makes."""
        return self.wanted_replicas * self.num_of_hosts

    @property
    def counted_pods(self) -> int:
        """Pods that Kueue counts."""
        return self.replicas * self.num_of_hosts


@dataclass(frozen=True, slots=True)
class RayCluster:
    meta: ObjectMeta
    suspend: bool
    is_autoscaling: bool
    groups: tuple[WorkerGroup, ...]
    state: str
    conditions: Conditions
    head_pod: str
    head_service: str
    """From the status; never built from the name, which KubeRay may cut."""
    desired_workers: int
    ready_workers: int

    @property
    def is_elastic(self) -> bool:
        return self.meta.annotations.get(names.ELASTIC) == "true"

    @property
    def is_ready(self) -> bool:
        """Were all pods ready at the same time once? Never taken back."""
        return self.state == READY

    @property
    def is_suspended(self) -> bool:
        """Suspended and its pods gone, by KubeRay's word."""
        return self.state == SUSPENDED or is_true(self.conditions, IS_SUSPENDED)

    @property
    def is_head_ready(self) -> bool:
        return is_true(self.conditions, HEAD_POD_READY)

    def group(self, name: str) -> WorkerGroup | None:
        return next((g for g in self.groups if g.name == name), None)


def parse_raycluster(obj: Obj) -> RayCluster:
    spec, status = fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    return RayCluster(
        meta=parse_meta(obj),
        suspend=fields.is_true(spec, "suspend"),
        is_autoscaling=fields.is_true(spec, "enableInTreeAutoscaling"),
        groups=tuple(parse_group(g) for g in fields.objects(spec, "workerGroupSpecs")),
        state=fields.text(status, "state"),
        conditions=parse_conditions(obj),
        head_pod=fields.text(status, "head", "podName"),
        head_service=fields.text(status, "head", "serviceName"),
        desired_workers=fields.integer(status, "desiredWorkerReplicas") or 0,
        ready_workers=fields.integer(status, "readyWorkerReplicas") or 0,
    )


def parse_group(group: Obj) -> WorkerGroup:
    """Missing numbers are what the custom resource's schema fills in: 0, 0, no limit, 1 host."""
    most = fields.integer(group, "maxReplicas")
    return WorkerGroup(
        name=fields.text(group, "groupName"),
        replicas=fields.integer(group, "replicas") or 0,
        min_replicas=fields.integer(group, "minReplicas") or 0,
        max_replicas=INT32_MAX if most is None else most,
        num_of_hosts=max(1, fields.integer(group, "numOfHosts") or 1),
        is_suspended=fields.is_true(group, "suspend"),
        workers_to_delete=fields.strings(group, "scaleStrategy", "workersToDelete"),
    )
