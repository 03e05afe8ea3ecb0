"""ProvisioningRequest: what we ask of the cluster autoscaler, and what it answered.

A request can carry several true conditions at once: the open-source autoscaler never takes
Provisioned back, so later news (BookingExpired, CapacityRevoked) stands beside it.
`taugrid_ray.verdict` reads them in the right order.

Source: kubernetes/autoscaler, apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go, 2026-08.
"""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Conditions, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.resource import Obj

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"
CAPACITY_REVOKED = "CapacityRevoked"

BOOKING_CONSUMED = "CapacityBookingConsumed"
"""Reason of a BookingExpired that is good news: all pods of the booking are bound."""

POD_SETS_MAX = 32


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    meta: ObjectMeta
    class_name: str
    pods: int
    """Sum of the pod sets' counts."""
    templates: tuple[str, ...]
    """Names of the PodTemplates it refers to."""
    conditions: Conditions

    def label(self, key: str) -> str:
        return self.meta.labels.get(key, "")

    @property
    def workload_uid(self) -> str:
        return self.label(names.WORKLOAD_UID)


def parse_provisioning_request(obj: Obj) -> ProvisioningRequest:
    pod_sets = fields.objects(obj, "spec", "podSets")
    return ProvisioningRequest(
        meta=parse_meta(obj),
        class_name=fields.text(obj, "spec", "provisioningClassName"),
        pods=sum(fields.integer(p, "count") or 0 for p in pod_sets),
        templates=tuple(fields.text(p, "podTemplateRef", "name") for p in pod_sets),
        conditions=parse_conditions(obj),
    )
