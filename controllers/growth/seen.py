"""What the growth decision looks at: one RayCluster and all that belongs to it, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controllers.gang.seen import SeenJob
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds.meta import ObjectMeta
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.queues import ResourceFlavor
from taugrid_ray.kinds.raycluster import RayCluster
from taugrid_ray.kinds.workload import Workload


@dataclass(frozen=True, slots=True)
class SeenGrowth:
    cluster: RayCluster | None = None
    job: SeenJob | None = None
    """Whom Kueue admits: the RayJob of this cluster, or the cluster itself."""
    current: Workload | None = None
    """The newest slice that holds quota."""
    replaced: Workload | None = None
    """The slice that `current` took the place of, while Kueue keeps it."""
    check: str = ""
    """Name of the check of ours that is listed on `current`."""
    on_flavors: tuple[str, ...] = ()
    policy: CapacityPolicySpec | None = None
    policy_fault: str = ""
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    """Of this cluster, the head's too; live and ended."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """Growth's own of this cluster and, while the job runs, the cold ones of its slices."""
    templates: tuple[ObjectMeta, ...] = ()
    """Of those requests."""
    refused: str = ""
    """The API server's words when it last refused to create an object of this growth."""
    salt: int = 0
