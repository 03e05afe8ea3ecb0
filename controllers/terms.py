"""On what terms a Workload is admitted: the check of ours on it, and what queue and policy say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controllers.world import World
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds.queues import ResourceFlavor
from taugrid_ray.kinds.resource import CAPACITY_POLICY
from taugrid_ray.kinds.workload import Workload


@dataclass(frozen=True, slots=True)
class Terms:
    check: str = ""
    """Name of the check of ours that is listed; "" for none, and then nothing else is filled."""
    on_flavors: tuple[str, ...] = ()
    """Flavors that the check applies to; empty for all."""
    policy: CapacityPolicySpec | None = None
    policy_fault: str = ""
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    """Those that are assigned, by name."""


def terms_of(world: World, workload: Workload) -> Terms:
    name = world.our_check_of(workload)
    if not name:
        return Terms()
    queue = world.cluster_queue(workload.cluster_queue)
    assigned = {name for a in workload.assignments for name in a.flavors.values()}
    found = Terms(
        check=name,
        on_flavors=queue.on_flavors.get(name, ()) if queue is not None else (),
        flavors={f: flavor for f in assigned if (flavor := world.flavor(f)) is not None},
    )
    check = world.check(name)
    if check is None:
        return found
    if check.parameters_group != CAPACITY_POLICY.group or not check.parameters_name:
        fault = (
            f'AdmissionCheck "{name}" names no CapacityPolicy '
            f"(spec.parameters with apiGroup {CAPACITY_POLICY.group}, kind CapacityPolicy)"
        )
        return replace(found, policy_fault=fault)
    policy = world.policy(check.parameters_name)
    if policy is None:
        return replace(found, policy_fault=f'CapacityPolicy "{check.parameters_name}" is missing')
    return replace(found, policy=policy.spec, policy_fault=policy.fault)
