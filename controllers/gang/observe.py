"""Gather what the gang decision looks at, from the stores alone."""

from __future__ import annotations

from dataclasses import replace

from controllers.gang.seen import SeenGang
from controllers.terms import Terms, terms_of
from controllers.world import World
from taugrid_ray.kinds.workload import CheckState, Workload


def observe(world: World, uid: str, *, refused: str = "", salt: int = 0) -> SeenGang:
    """uid: of a Workload that is or was there. Only asked once every store is synced."""
    workload = world.workload(uid)
    requests = world.requests(uid)
    if workload is None:
        return SeenGang(
            requests=requests,
            templates=world.templates(uid),
            pods=world.pods(uid),
            refused=refused,
            salt=salt,
        )
    job = world.job(workload)
    if job is not None and world.is_workload_name(workload.meta.namespace, job.ref.name):
        job = replace(job, name_is_a_workloads=True)
    terms = terms_of(world, workload)
    return SeenGang(
        workload=workload,
        check=terms.check,
        on_flavors=terms.on_flavors,
        policy=terms.policy,
        policy_fault=terms.policy_fault,
        flavors=terms.flavors,
        job=job,
        requests=requests,
        templates=world.templates(uid),
        pods=world.pods(uid),
        nodes=world.nodes() if requests and _waits_for_nodes(terms, workload) else (),
        refused=refused,
        salt=salt,
    )


def _waits_for_nodes(terms: Terms, workload: Workload) -> bool:
    """Only while a booking waits for its nodes; most decisions never look at one of thousands."""
    check = workload.check(terms.check)
    waits = terms.policy is not None and terms.policy.ready_when == "NodesReady"
    return waits or (check is not None and check.state is CheckState.READY)
