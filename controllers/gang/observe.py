"""Gather what the gang decision looks at, from the stores alone."""

from __future__ import annotations

from dataclasses import replace

from controllers.gang.seen import SeenGang
from controllers.world import World
from taugrid_ray.kinds.resource import CAPACITY_POLICY
from taugrid_ray.kinds.workload import CheckState, Workload


def observe(world: World, uid: str, *, refused: str = "", salt: int = 0) -> SeenGang:
    """uid: of a Workload that is or was there. Only asked once every store is synced."""
    workload = world.workload(uid)
    found = SeenGang(
        requests=world.requests(uid),
        templates=world.templates(uid),
        pods=world.pods(uid),
        refused=refused,
        salt=salt,
    )
    if workload is None:
        return found
    job = world.job(workload)
    if job is not None and world.is_workload_name(workload.meta.namespace, job.ref.name):
        job = replace(job, name_is_a_workloads=True)
    found = replace(found, workload=workload, job=job)
    check = world.our_check_of(workload)
    if not check:
        return found
    queue = world.cluster_queue(workload.cluster_queue)
    assigned = {name for a in workload.assignments for name in a.flavors.values()}
    flavors = {name: flavor for name in assigned if (flavor := world.flavor(name)) is not None}
    found = replace(
        found,
        check=check,
        on_flavors=queue.on_flavors.get(check, ()) if queue is not None else (),
        flavors=flavors,
    )
    found = _with_policy(found, world, workload, check)
    return replace(found, nodes=world.nodes()) if _looks_at_nodes(found, workload) else found


def _looks_at_nodes(found: SeenGang, workload: Workload) -> bool:
    """Only while a booking waits for its nodes; most decisions never look at one of thousands."""
    check = workload.check(found.check)
    waits = found.policy is not None and found.policy.ready_when == "NodesReady"
    ready = check is not None and check.state is CheckState.READY
    return bool(found.requests) and (waits or ready)


def _with_policy(found: SeenGang, world: World, workload: Workload, name: str) -> SeenGang:
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
