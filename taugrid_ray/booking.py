"""From an admitted Workload to the ProvisioningRequests that book its gang, one per node pool.

Pure. Cluster Autoscaler's atomic class serves one node group per request, and a request over two
pools waits for ever, so pod sets are grouped by the flavors that Kueue assigned, all pod sets of a
pool in one request. The pod templates are what the pods will be: the flavor's node labels and
tolerations and other checks' pod set updates included, limits copied to missing requests as the
API server does.

Names are deterministic. A request belongs to one quota reservation, one attempt and one set of
counts; all of that goes into its hash, so a later one never bears an earlier one's name, except
the very same one made again after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass

from taugrid_ray import names
from taugrid_ray.errors import ManifestError
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import OwnerRef, format_time
from taugrid_ray.kinds.queues import ResourceFlavor
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST, Obj
from taugrid_ray.kinds.workload import Assignment, CheckState, PodSet, Workload

PARAMETER_PREFIX = "provreq.kueue.x-k8s.io/"
"""Annotations of the job with this prefix become parameters, as with Kueue's own check."""


@dataclass(frozen=True, slots=True)
class CoveredPodSet:
    """A pod set whose pods need booked capacity."""

    name: str
    count: int
    flavors: tuple[str, ...]
    template: Obj
    """The pod template as the pods will be."""


@dataclass(frozen=True, slots=True)
class PoolGang:
    """All covered pod sets of one pool: what one request asks for."""

    pool: str
    """The assigned flavors joined by "+", for people."""
    node_labels: Mapping[str, str]
    pod_sets: tuple[CoveredPodSet, ...]

    @property
    def pods(self) -> int:
        return sum(p.count for p in self.pod_sets)


@dataclass(frozen=True, slots=True)
class Asking:
    """Everything beside the pods that tells one request from another."""

    class_name: str
    parameters: Mapping[str, str]
    reservation: str
    """When Kueue reserved the quota, as the API wrote it."""
    attempt: int
    """Attempts so far in this gang's life, this one included."""
    salt: int = 0
    """Raised when an object of somebody else's bears the name we would use."""


@dataclass(frozen=True, slots=True)
class Booking:
    """One request and its templates, ready to be created: templates first."""

    pool: PoolGang
    spec_hash: str
    serial: int
    request: Obj
    templates: tuple[Obj, ...]

    @property
    def name(self) -> str:
        return fields.text(self.request, "metadata", "name")


def covered_pod_sets(
    workload: Workload,
    *,
    on_flavors: tuple[str, ...],
    managed_resources: tuple[str, ...],
    flavors: Mapping[str, ResourceFlavor],
    check_name: str,
    only: Container[str] | None = None,
) -> tuple[CoveredPodSet, ...]:
    """The pod sets that need booking: count > 0, a flavor that the check covers, a managed
    resource.

    on_flavors: flavors that the check applies to; empty means all. only: names of the pod sets to
    look at; None for all.
    Raises ManifestError where a pod set cannot be asked for; the message names it.
    """
    covered = []
    for pod_set in workload.pod_sets:
        if only is not None and pod_set.name not in only:
            continue
        assignment = workload.assignment(pod_set.name)
        if assignment is None or assignment.count < 1 or pod_set.template is None:
            continue
        assigned = tuple(sorted(set(assignment.flavors.values())))
        if on_flavors and not set(assigned) & set(on_flavors):
            continue
        if managed_resources and not _asks_for(pod_set.template, managed_resources):
            continue
        covered.append(
            _covered(workload, pod_set, assignment, assigned, flavors, check_name=check_name)
        )
    return tuple(covered)


def pools_of(
    covered: tuple[CoveredPodSet, ...], flavors: Mapping[str, ResourceFlavor]
) -> tuple[PoolGang, ...]:
    """Group by assigned flavors; sorted by pool name, pod sets in the Workload's order."""
    by_flavors: dict[tuple[str, ...], list[CoveredPodSet]] = {}
    for pod_set in covered:
        by_flavors.setdefault(pod_set.flavors, []).append(pod_set)
    return tuple(
        PoolGang(
            pool="+".join(assigned),
            node_labels=_merged_labels(assigned, flavors),
            pod_sets=tuple(pod_sets),
        )
        for assigned, pod_sets in sorted(by_flavors.items())
    )


def booking_of(
    workload: Workload,
    job: OwnerRef,
    pool: PoolGang,
    asking: Asking,
    *,
    serial: int,
    asked_at_s: float,
    owned: bool = True,
    cluster_uid: str = "",
) -> Booking:
    """The request for one pool. `serial` counts the times this attempt asked for this pool, from 1.

    asked_at_s: when this attempt first asked; it does not go into the name, so a create repeated
    after a crash meets the first one. owned: False where an owner reference would mislead Kueue
    (see names_a_workload). cluster_uid: of the RayCluster whose growth this is; "" for a cold
    gang."""
    parameters = dict(asking.parameters) | {
        key.removeprefix(PARAMETER_PREFIX): value
        for key, value in workload.meta.annotations.items()
        if key.startswith(PARAMETER_PREFIX)
    }
    counts = {p.name: p.count for p in pool.pod_sets}
    content = json.dumps(
        [asking.class_name, parameters, counts, [p.template for p in pool.pod_sets]],
        sort_keys=True,
    )
    spec_hash = names.digest(
        workload.uid, asking.reservation, str(asking.attempt), pool.pool, content, str(asking.salt)
    )
    name = f"{names.safe(job.name, length=40)}-{serial}-{spec_hash}"
    labels = {
        names.MANAGED_BY: names.MANAGED_BY_US,
        names.WORKLOAD_UID: workload.uid,
        names.ATTEMPT: str(asking.attempt),
        names.SERIAL: str(serial),
    }
    if cluster_uid:
        labels[names.CLUSTER_UID] = cluster_uid
    owner = {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
    annotations = {
        names.POOL: pool.pool,
        names.SPEC_HASH: spec_hash,
        names.RESERVATION: asking.reservation,
        names.ASKED_AT: format_time(asked_at_s),
        names.COUNTS: json.dumps(counts),
    }

    def meta(of: str) -> Obj:
        found: Obj = {
            "name": of,
            "namespace": workload.meta.namespace,
            "labels": labels,
            "annotations": annotations,
        }
        if owned:
            found["ownerReferences"] = [owner]
        return found

    templates = tuple(
        {
            "apiVersion": POD_TEMPLATE.api_version,
            "kind": POD_TEMPLATE.kind,
            "metadata": meta(f"{name}-{names.safe(p.name)}-{names.digest(p.name, length=4)}"),
            "template": p.template,
        }
        for p in pool.pod_sets
    )
    spec: Obj = {
        "provisioningClassName": asking.class_name,
        "podSets": [
            {
                "count": p.count,
                "podTemplateRef": {"name": fields.text(t, "metadata", "name")},
            }
            for p, t in zip(pool.pod_sets, templates, strict=True)
        ],
    }
    if parameters:
        spec["parameters"] = parameters
    request = {
        "apiVersion": PROVISIONING_REQUEST.api_version,
        "kind": PROVISIONING_REQUEST.kind,
        "metadata": meta(name),
        "spec": spec,
    }
    return Booking(
        pool=pool, spec_hash=spec_hash, serial=serial, request=request, templates=templates
    )


def pod_set_updates(
    workload_uid: str, bookings: tuple[tuple[PoolGang, str], ...], class_name: str
) -> tuple[Obj, ...]:
    """What Kueue is to put on the gang's pods: whose booking they consume, and whose gang they are.

    bookings: each pool with the name of its request.
    """
    return tuple(
        {
            "name": pod_set.name,
            "labels": {names.WORKLOAD_UID: workload_uid},
            "annotations": {names.CONSUME: request, names.CONSUME_CLASS: class_name},
        }
        for pool, request in bookings
        for pod_set in pool.pod_sets
    )


def _covered(
    workload: Workload,
    pod_set: PodSet,
    assignment: Assignment,
    assigned: tuple[str, ...],
    flavors: Mapping[str, ResourceFlavor],
    *,
    check_name: str,
) -> CoveredPodSet:
    template = pod_set.template or {}
    if pod_set.is_gated and not workload.is_elastic:
        raise ManifestError(
            f'pod set "{pod_set.name}" carries the scheduling gate {names.GATE}, but the job is '
            "not elastic: nobody would take it off",
            hint=f'remove the gate, or set the annotation {names.ELASTIC}: "true" on the job',
        )
    if names.CONSUME in fields.string_map(template, "metadata", "annotations"):
        raise ManifestError(
            f'pod set "{pod_set.name}" already carries the annotation {names.CONSUME}',
            hint="remove it from the pod template: the booking's name is put there at admission",
        )
    labels = _merged_labels(assigned, flavors)
    tolerations = [t for name in assigned for t in flavors[name].tolerations]
    updates = [
        update
        for check in workload.checks
        if check.name != check_name and check.state is CheckState.READY
        for update in check.updates
        if fields.text(update, "name") == pod_set.name
    ]
    return CoveredPodSet(
        name=pod_set.name,
        count=assignment.count,
        flavors=assigned,
        template=_as_the_pod_will_be(template, labels, tolerations, updates),
    )


def _merged_labels(
    assigned: tuple[str, ...], flavors: Mapping[str, ResourceFlavor]
) -> dict[str, str]:
    merged: dict[str, str] = {}
    source: dict[str, str] = {}
    for name in assigned:
        if name not in flavors:
            raise ManifestError(f'ResourceFlavor "{name}" does not exist', hint="create it")
        for key, value in flavors[name].node_labels.items():
            if merged.setdefault(key, value) != value:
                raise ManifestError(
                    f'flavors "{source[key]}" and "{name}" put different values on the node label '
                    f'{key} ("{merged[key]}" and "{value}"): no node has both',
                    hint="give the pod set's resources flavors of one pool, in one resource group",
                )
            source.setdefault(key, name)
    return merged


def _as_the_pod_will_be(
    template: Obj, labels: Mapping[str, str], tolerations: list[Obj], updates: list[Obj]
) -> Obj:
    meta = fields.mapping(template, "metadata")
    spec = dict(fields.mapping(template, "spec"))
    # A gated pod counts as not schedulable; what is asked for is the pod as it will be once the
    # gates are gone.
    spec.pop("schedulingGates", None)
    # Kueue 0.19 counts the Ray autoscaler's container without an image, which no template may lack;
    # which one it is makes no difference to the room it takes.
    images = [fields.text(c, "image") for c in fields.objects(spec, "containers")]
    image = next((i for i in images if i), "")
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [
                _with_requests(c if fields.text(c, "image") or not image else {**c, "image": image})
                for c in fields.objects(spec, kind)
            ]
    selector = {**fields.string_map(spec, "nodeSelector"), **labels}
    own = [*fields.objects(spec, "tolerations"), *tolerations]
    pod_labels = fields.string_map(meta, "labels")
    annotations = fields.string_map(meta, "annotations")
    for update in updates:
        selector |= fields.string_map(update, "nodeSelector")
        own += fields.objects(update, "tolerations")
        pod_labels |= fields.string_map(update, "labels")
        annotations |= fields.string_map(update, "annotations")
    if selector:
        spec["nodeSelector"] = selector
    if own:
        spec["tolerations"] = [t for i, t in enumerate(own) if t not in own[:i]]
    out_meta: Obj = {}
    if pod_labels:
        out_meta["labels"] = pod_labels
    if annotations:
        out_meta["annotations"] = annotations
    return {"metadata": out_meta, "spec": spec}


def _with_requests(container: Obj) -> Obj:
    limits = fields.mapping(container, "resources", "limits")
    requests = fields.mapping(container, "resources", "requests")
    if not set(limits) - set(requests):
        return container
    resources = dict(fields.mapping(container, "resources")) | {"requests": {**limits, **requests}}
    return {**container, "resources": resources}


def _asks_for(template: Obj, managed: tuple[str, ...]) -> bool:
    containers = (
        *fields.objects(template, "spec", "containers"),
        *fields.objects(template, "spec", "initContainers"),
    )
    asked: set[str] = set()
    for container in (*containers, fields.mapping(template, "spec")):
        asked |= set(fields.mapping(container, "resources", "requests"))
        asked |= set(fields.mapping(container, "resources", "limits"))
    return bool(asked & set(managed))
