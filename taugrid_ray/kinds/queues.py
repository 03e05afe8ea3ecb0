"""Kueue's set-up objects: AdmissionCheck, ClusterQueue, ResourceFlavor.

Source: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.conditions import Conditions, parse_conditions
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta
from taugrid_ray.kinds.resource import Obj


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    meta: ObjectMeta
    controller: str
    parameters_group: str
    parameters_kind: str
    parameters_name: str
    conditions: Conditions


def parse_admission_check(obj: Obj) -> AdmissionCheck:
    return AdmissionCheck(
        meta=parse_meta(obj),
        controller=fields.text(obj, "spec", "controllerName"),
        parameters_group=fields.text(obj, "spec", "parameters", "apiGroup"),
        parameters_kind=fields.text(obj, "spec", "parameters", "kind"),
        parameters_name=fields.text(obj, "spec", "parameters", "name"),
        conditions=parse_conditions(obj),
    )


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """Without its version: Kueue writes the status at every admission, and nobody here reads it, so
    such a change must look like none.
    """

    name: str
    on_flavors: Mapping[str, tuple[str, ...]]
    """Check name -> the flavors it applies to; an empty tuple means all."""


def parse_cluster_queue(obj: Obj) -> ClusterQueue:
    rules = fields.objects(obj, "spec", "admissionChecksStrategy", "admissionChecks")
    return ClusterQueue(
        name=parse_meta(obj).name,
        on_flavors={fields.text(r, "name"): fields.strings(r, "onFlavors") for r in rules},
    )


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    name: str
    node_labels: Mapping[str, str]
    tolerations: tuple[Obj, ...]


def parse_resource_flavor(obj: Obj) -> ResourceFlavor:
    return ResourceFlavor(
        name=parse_meta(obj).name,
        node_labels=fields.string_map(obj, "spec", "nodeLabels"),
        tolerations=fields.objects(obj, "spec", "tolerations"),
    )
