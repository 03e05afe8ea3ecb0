"""What differs from kind to kind on the API server, and what may be written.

A validator gets (kind, old, new) before a write is kept and raises what the server would.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from taugrid_ray.errors import ApiError, Invalid
from taugrid_ray.kinds.resource import Obj, Resource

Validator = Callable[[Resource, Obj | None, Obj], None]

BUILT_IN = frozenset(
    {"", "apps", "batch", "coordination.k8s.io", "events.k8s.io", "scheduling.k8s.io",
     "apiextensions.k8s.io"}
)  # fmt: skip

WITH_STATUS = frozenset(
    {"Pod", "Node", "Namespace", "Service", "Job", "CustomResourceDefinition", "Workload",
     "LocalQueue", "ClusterQueue", "AdmissionCheck", "RayJob", "RayCluster",
     "ProvisioningRequest", "CapacityPolicy"}
)  # fmt: skip
"""Kinds with a status subresource: it is cut off on create and kept on other writes."""

WITHOUT_GENERATION = frozenset(
    {"Node", "Namespace", "Service", "Endpoints", "Secret", "ConfigMap", "ServiceAccount",
     "LimitRange", "Event", "Lease", "PodTemplate"}
)  # fmt: skip

UNCONDITIONAL = frozenset({"Node", "Namespace", "ConfigMap", "Secret", "Pod", "Job", "PodTemplate"})
"""Kinds that may be replaced without saying which version was read."""

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")


def has_status(kind: Resource) -> bool:
    return kind.kind in WITH_STATUS


def has_generation(kind: Resource) -> bool:
    return kind.kind not in WITHOUT_GENERATION


def is_custom(kind: Resource) -> bool:
    return kind.group not in BUILT_IN


def invalid(kind: Resource, name: str, why: str) -> Invalid:
    return Invalid(f'{kind.kind} "{name}" is invalid: {why}', reason="Invalid")


def bad_request(why: str) -> ApiError:
    return ApiError(why, status=400, reason="BadRequest")


def names_are_dns(kind: Resource, old: Obj | None, new: Obj) -> None:
    name = new["metadata"]["name"]
    if old is None and (len(name) > 253 or not _NAME.match(name)):
        raise invalid(
            kind, name, f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain'
        )


def label_values_are_short(kind: Resource, old: Obj | None, new: Obj) -> None:
    meta = new["metadata"]
    for key, value in (meta.get("labels") or {}).items():
        if not isinstance(value, str):
            raise bad_request(f"labels of {meta['name']}: {key} is not a string")
        if len(value) > 63:
            raise invalid(kind, meta["name"], f"metadata.labels: {key}: must be no more than 63")
    for key, value in (meta.get("annotations") or {}).items():
        if not isinstance(value, str):
            raise bad_request(f"annotations of {meta['name']}: {key} is not a string")


def provisioning_request_specs_stay(kind: Resource, old: Obj | None, new: Obj) -> None:
    """The CRD's own rules: the spec never changes, and each pod set has one pod or more."""
    if kind.kind != "ProvisioningRequest":
        return
    name, spec = new["metadata"]["name"], new.get("spec") or {}
    if old is not None and old.get("spec") != new.get("spec"):
        raise invalid(kind, name, "spec: Value is immutable")
    pod_sets = spec.get("podSets") or []
    if not 1 <= len(pod_sets) <= 32:
        raise invalid(kind, name, "spec.podSets: must have 1 to 32 items")
    for place, pod_set in enumerate(pod_sets):
        if pod_set.get("count", 0) < 1:
            where = f"spec.podSets[{place}].count"
            raise invalid(kind, name, f"{where}: should be greater than or equal to 1")


VALIDATORS: tuple[Validator, ...] = (
    names_are_dns,
    label_values_are_short,
    provisioning_request_specs_stay,
)
