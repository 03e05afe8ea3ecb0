"""What the gang decision looks at: parsed values of one moment, nothing to be asked further."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds.meta import ObjectMeta, OwnerRef
from taugrid_ray.kinds.node import Node
from taugrid_ray.kinds.pod import RUNNING, Pod
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.queues import ResourceFlavor
from taugrid_ray.kinds.workload import Workload


@dataclass(frozen=True, slots=True)
class SeenJob:
    """The user's own object, as far as admission goes."""

    ref: OwnerRef
    suspended: bool
    entrypoint_started: bool
    """A RayJob whose entrypoint runs or ran; False for a Job, whose pods say it themselves."""
    ended: bool
    provision_deadline: str
    """The annotation's text; "" for none."""
    name_is_a_workloads: bool = False
    """Kueue collects requests owned by anything that bears a Workload's name."""


@dataclass(frozen=True, slots=True)
class SeenGang:
    """One Workload with everything that belongs to it. Fields are empty where nothing is there."""

    workload: Workload | None = None
    check: str = ""
    """Name of the check of ours that is listed on the Workload."""
    on_flavors: tuple[str, ...] = ()
    policy: CapacityPolicySpec | None = None
    policy_fault: str = ""
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    job: SeenJob | None = None
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[ObjectMeta, ...] = ()
    pods: tuple[Pod, ...] = ()
    """Live and ended pods that carry this Workload's uid."""
    nodes: tuple[Node, ...] = ()
    refused: str = ""
    """The API server's words when it last refused to create an object of this gang."""
    salt: int = 0

    @property
    def runs(self) -> bool:
        """Does a covered pod of the gang run? Then nothing may stop it (rule R1)."""
        return any(p.is_live and p.phase == RUNNING for p in self.pods)
