"""Say on each AdmissionCheck of ours whether it is Active, and on each CapacityPolicy whether it is
Ready.

A ClusterQueue admits nothing through a check that is not Active, so a broken policy stops its
queues with a sentence instead of starting jobs that wait for ever.
"""

from __future__ import annotations

from controllers.actions import Decision, SetCondition, Target
from controllers.world import SeenPolicy, World
from taugrid_ray import names
from taugrid_ray.kinds.conditions import Conditions, find
from taugrid_ray.kinds.meta import ObjectMeta
from taugrid_ray.kinds.queues import AdmissionCheck
from taugrid_ray.kinds.resource import ADMISSION_CHECK, CAPACITY_POLICY, Resource


def decide_check(check: AdmissionCheck | None, world: World, now_s: float) -> Decision:
    if check is None or check.controller != names.CONTROLLER or check.meta.is_terminating:
        return Decision()
    fault = _fault(check, world)
    reason = "PolicyInvalid" if fault else "Active"
    message = fault or f'books capacity as CapacityPolicy "{check.parameters_name}" says'
    return _say(
        ADMISSION_CHECK, check.meta, check.conditions, "Active", not fault, reason, message, now_s
    )


def decide_policy(policy: SeenPolicy | None, now_s: float) -> Decision:
    if policy is None or policy.meta.is_terminating:
        return Decision()
    ready = policy.spec is not None
    return _say(
        CAPACITY_POLICY,
        policy.meta,
        policy.conditions,
        "Ready",
        ready,
        "Valid" if ready else "PolicyInvalid",
        "" if ready else policy.fault,
        now_s,
    )


def _fault(check: AdmissionCheck, world: World) -> str:
    if check.parameters_group != CAPACITY_POLICY.group or check.parameters_kind != "CapacityPolicy":
        return (
            "spec.parameters must name a CapacityPolicy: "
            f"apiGroup {CAPACITY_POLICY.group}, kind CapacityPolicy, name NAME"
        )
    policy = world.policy(check.parameters_name)
    if policy is None:
        return f'CapacityPolicy "{check.parameters_name}" is missing'
    return policy.fault


def _say(
    kind: Resource,
    meta: ObjectMeta,
    conditions: Conditions,
    type_: str,
    is_true: bool,
    reason: str,
    message: str,
    now_s: float,
) -> Decision:
    there = find(conditions, type_)
    if there is not None and (there.is_true, there.reason, there.message) == (
        is_true,
        reason,
        message,
    ):
        return Decision()
    at = Target("", meta.name, meta.uid, meta.resource_version)
    return Decision(
        (SetCondition(kind, at, type_, is_true, reason, message, meta.generation, now_s),)
    )
