"""Gather what the gang decision looks at, from the stores alone."""

from __future__ import annotations

from dataclasses import replace

from controllers.gang.seen import SeenGang
from controllers.terms import terms_of
from controllers.world import World
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
    terms = terms_of(world, workload)
    found = replace(
        found,
        workload=workload,
        job=job,
        check=terms.check,
        on_flavors=terms.on_flavors,
        flavors=terms.flavors,
        policy=terms.policy,
        policy_fault=terms.policy_fault,
    )
    return replace(found, nodes=world.nodes()) if _looks_at_nodes(found, workload) else found


def _looks_at_nodes(found: SeenGang, workload: Workload) -> bool:
    """Only while a booking waits for its nodes; most decisions never look at one of thousands."""
    check = workload.check(found.check)
    waits = found.policy is not None and found.policy.ready_when == "NodesReady"
    ready = check is not None and check.state is CheckState.READY
    return bool(found.requests) and (waits or ready)
