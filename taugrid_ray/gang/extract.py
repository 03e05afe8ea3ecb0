"""One object -> Gang, or one sentence why not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from taugrid_ray import names
from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import (
    job,
    kueue_rules,
    notes,
    pod_rules,
    ray,
    raycluster_rules,
    rayjob_rules,
    syntax,
)
from taugrid_ray.gang.model import Gang, Note, NoteCode, PodGroup
from taugrid_ray.gang.pods import NamespaceDefaults, namespace_defaults
from taugrid_ray.kinds.pod_spec import PodSpec, parse_pod_spec
from taugrid_ray.kinds.rayjob import SubmissionMode
from taugrid_ray.kinds.resource import JOB, RAY_CLUSTER, RAY_JOB, Obj, Resource
from taugrid_ray.kinds.strict import INT64_MAX, Field, FieldError, shown

GANG_KINDS = (JOB, RAY_JOB, RAY_CLUSTER)
RAY_JOB_NAME_MAX, RAY_CLUSTER_NAME_MAX = 47, 53
"""KubeRay appends to these names; services must stay under 63 characters."""
_RANDOM_SUFFIX = 5
_HINTS_MAX = 5
_GROUP = re.compile(r"\.workerGroupSpecs\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A gang in the making: its groups with their pods, and what was found on the way."""

    groups: tuple[tuple[PodGroup, PodSpec], ...]
    templates: tuple[Field, ...]
    notes: tuple[Note, ...]
    problems: tuple[FieldError, ...]
    queue_problems: tuple[FieldError, ...]
    """Problems only for an object with a queue."""


def gang_of(
    obj: Obj,
    *,
    limit_ranges: Iterable[Obj] = (),
    runtime_classes: Iterable[Obj] = (),
    queue: str = "",
) -> Gang:
    """Read a Job, RayJob or RayCluster as the pods that must be created together.

    Args:
        limit_ranges: the LimitRange objects of the namespace the object will live in.
        runtime_classes: RuntimeClass objects, for their pod overhead.
        queue: the LocalQueue it will be submitted to, where the manifest itself names none.

    Raises ManifestError: one sentence with object, field, value and the right form; the hint
    lists further problems.
    """
    root = Field(obj)
    try:
        defaults = namespace_defaults(map(Field, limit_ranges), map(Field, runtime_classes))
        return _gang(root, defaults, queue)
    except FieldError as problem:
        raise _refusal(obj, [problem]) from problem


def kind_of(obj: Any) -> Resource | None:
    """Which kind of gang this is; None for every other object."""
    if not isinstance(obj, dict):
        return None
    for kind in GANG_KINDS:
        if obj.get("kind") == kind.kind and obj.get("apiVersion") == kind.api_version:
            return kind
    return None


def subject(obj: Any) -> str:
    """`rayjob team-a/train`, for the start of a sentence; safe to print whatever is in it."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    kind = obj.get("kind") if isinstance(obj, dict) else None
    name = _word(meta.get("name")) or _word(meta.get("generateName"))
    namespace = _word(meta.get("namespace"))
    where = f"{namespace}/{name}" if namespace and name else name or "without a name"
    return f"{(_word(kind) or 'object').lower()} {where}"


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return ""
    return value if syntax.is_qualified(value.rstrip("-.")) else shown(value)


def _refusal(obj: Obj, problems: list[FieldError]) -> ManifestError:
    first, *others = [f"{p.path}{_group_name(obj, p.path)}: {p.problem}" for p in problems]
    hint = f"also: {'; '.join(others[:_HINTS_MAX])}" if others else ""
    if len(others) > _HINTS_MAX:
        hint += f"; and {len(others) - _HINTS_MAX} more"
    return ManifestError(f"{subject(obj)}: {first}", hint=hint)


def _group_name(obj: Obj, path: str) -> str:
    """` (worker group 'w')` for a path inside one: indexes are hard to count."""
    found = _GROUP.search(path)
    if found is None:
        return ""
    root = Field(obj)
    spec = root["spec"]["rayClusterSpec"] if ".rayClusterSpec." in path else root["spec"]
    group = spec["workerGroupSpecs"].items()[int(found.group(1))].value
    name = group.get("groupName") if isinstance(group, dict) else None
    return f" (worker group {shown(name)})" if isinstance(name, str) and name else ""


def _gang(root: Field, defaults: NamespaceDefaults, queue: str) -> Gang:
    kind = _kind(root)
    metadata, spec = root["metadata"], root["spec"]
    if not spec.mapping():
        raise spec.wrong("is missing: write what is to run")
    own_queue = metadata["labels"][names.QUEUE].text()
    draft = _drafts[kind.kind](root, defaults)
    effective = own_queue or queue
    problems = [
        *_metadata_problems(metadata),
        *draft.problems,
        *(draft.queue_problems if effective else ()),
        *(p for made, _ in draft.groups for p in _amount_problems(spec, made)),
    ]
    if problems:
        raise _refusal(root.value, problems)
    pods = tuple(pod for _, pod in draft.groups)
    return Gang(
        kind=kind.kind,
        namespace=metadata["namespace"].text(),
        name=metadata["name"].text(),
        generate_name=metadata["generateName"].text(),
        groups=tuple(made for made, _ in draft.groups),
        elastic=kueue_rules.is_elastic(metadata),
        autoscaling=_is_autoscaling(spec),
        suspended=spec["suspend"].flag(),
        queue=effective,
        priority_class=metadata["labels"][kueue_rules.PRIORITY_CLASS].text(),
        notes=tuple(_all_notes(root, draft, pods, defaults, effective)),
        unmanaged=kueue_rules.unmanaged(root, pods, effective),
    )


def _kind(root: Field) -> Resource:
    kind = kind_of(root.value)
    if kind is not None:
        return kind
    root.mapping()
    right = [k for k in GANG_KINDS if k.kind == root["kind"].text()]
    if right:
        written = shown(root["apiVersion"].value)
        raise root["apiVersion"].wrong(f"{written} is not served; write {right[0].api_version}")
    kinds = ", ".join(k.kind for k in GANG_KINDS)
    raise root["kind"].wrong(f"{shown(root['kind'].value)} is no gang; these are: {kinds}")


def _is_autoscaling(spec: Field) -> bool:
    cluster = spec["rayClusterSpec"] if spec["rayClusterSpec"].exists else spec
    return cluster["enableInTreeAutoscaling"].flag()


def _all_notes(
    root: Field,
    draft: _Draft,
    pods: tuple[PodSpec, ...],
    defaults: NamespaceDefaults,
    queue: str,
) -> Iterator[Note]:
    yield from draft.notes
    for made, pod in draft.groups:
        yield from notes.sum_notes(made, pod, defaults)
        yield from notes.job_notes(made)
    for template in draft.templates:
        yield from pod_rules.pod_notes(template["spec"])
    yield from notes.annotation_notes(root["metadata"], draft.templates)
    if queue:
        yield from kueue_rules.other_scheduler(root, pods)
    else:
        for problem in draft.queue_problems:
            yield Note(NoteCode.NEEDS_FOR_QUEUE, problem.problem, problem.path)


def _metadata_problems(metadata: Field) -> Iterator[FieldError]:
    if not metadata["name"].text() and not metadata["generateName"].text():
        yield metadata["name"].wrong("is missing: write a name, or generateName")
    namespace = metadata["namespace"].text()
    if namespace and not syntax.is_dns_label(namespace):
        yield metadata["namespace"].wrong(
            f"{shown(namespace)} is not a namespace; "
            f"write for example '{syntax.as_dns_label(namespace)}'"
        )
    metadata["annotations"].string_map()
    yield from syntax.label_problems(metadata["labels"])
    yield from kueue_rules.queue_problems(metadata)


def _ray_name_problems(metadata: Field, kind: str, longest: int) -> Iterator[FieldError]:
    if metadata["name"].text():
        yield from syntax.name_problems(metadata["name"], kind=kind, longest=longest)
    elif metadata["generateName"].text():
        prefix = Field(metadata["generateName"].text().rstrip("-"), metadata["generateName"].path)
        room = longest - _RANDOM_SUFFIX - 1
        yield from syntax.name_problems(prefix, kind=f"generated {kind}", longest=room)


def _amount_problems(spec: Field, made: PodGroup) -> Iterator[FieldError]:
    """Kueue and the scheduler count in 64 bits, CPUs in thousandths."""
    pods = max(made.count, made.counted.count)
    for resource, amount in {**made.total, **made.counted.total}.items():
        if amount * (1000 if resource == "cpu" else 1) > INT64_MAX:
            yield spec.wrong(
                f"{shown(made.name)} x {pods} asks for more {resource} "
                "than Kubernetes can count in 64 bits; lower the request or the number of pods"
            )


def _draft_job(root: Field, defaults: NamespaceDefaults) -> _Draft:
    metadata, spec = root["metadata"], root["spec"]
    template = spec["template"]
    pod = parse_pod_spec(template["spec"])
    elastic = kueue_rules.is_elastic(metadata)
    brake = Note(
        NoteCode.NO_BRAKE,
        "an elastic Job's growth cannot be held back for capacity; ask for its full size",
        metadata["annotations"][names.ELASTIC].path,
    )
    return _Draft(
        groups=((job.main_group(spec, metadata, pod, defaults), pod),),
        templates=(template,),
        notes=(brake,) if elastic else (),
        problems=(
            *job.job_problems(spec, metadata, pod),
            *pod_rules.template_problems(template),
            *kueue_rules.job_problems(spec, metadata),
        ),
        queue_problems=(),
    )


def _draft_cluster(root: Field, defaults: NamespaceDefaults) -> _Draft:
    metadata, spec = root["metadata"], root["spec"]
    draft = _cluster(root, spec, "", defaults)
    names_wrong = _ray_name_problems(metadata, RAY_CLUSTER.kind, RAY_CLUSTER_NAME_MAX)
    return _Draft(
        groups=draft.groups,
        templates=draft.templates,
        notes=draft.notes,
        problems=(*names_wrong, *draft.problems),
        queue_problems=(
            *kueue_rules.ray_problems(spec, metadata, pod_sets=len(draft.groups)),
            *kueue_rules.slice_problems(spec, metadata),
        ),
    )


def _draft_rayjob(root: Field, defaults: NamespaceDefaults) -> _Draft:
    metadata, spec = root["metadata"], root["spec"]
    mode = spec["submissionMode"].text() or SubmissionMode.K8S_JOB.value
    names_wrong = _ray_name_problems(metadata, RAY_JOB.kind, RAY_JOB_NAME_MAX)
    own = not spec["clusterSelector"].mapping() and spec["rayClusterSpec"].exists
    cluster = _cluster(root, spec["rayClusterSpec"], mode, defaults) if own else _NO_CLUSTER
    head = cluster.groups[0][1] if own else None
    groups, templates, problems = cluster.groups, cluster.templates, cluster.problems
    if mode == SubmissionMode.K8S_JOB.value:
        groups = (*groups, ray.submitter_group(spec, defaults))
    if spec["submitterPodTemplate"].exists:
        templates = (*templates, spec["submitterPodTemplate"])
        problems = (
            *problems,
            *pod_rules.template_problems(templates[-1]),
            *pod_rules.unquoted_fractions(templates[-1]),
        )
    queue_problems = list(kueue_rules.rayjob_problems(spec))
    if own:
        queue_problems += kueue_rules.ray_problems(
            spec["rayClusterSpec"], metadata, pod_sets=len(groups)
        )
    return _Draft(
        groups=groups,
        templates=templates,
        notes=(*notes.entrypoint_notes(spec, mode), *cluster.notes),
        problems=(*names_wrong, *rayjob_rules.rayjob_problems(spec, head), *problems),
        queue_problems=tuple(queue_problems),
    )


_NO_CLUSTER = _Draft(groups=(), templates=(), notes=(), problems=(), queue_problems=())


def _cluster(root: Field, spec: Field, mode: str, defaults: NamespaceDefaults) -> _Draft:
    """The head and the worker groups of a RayCluster's spec."""
    annotations = root["metadata"]["annotations"]
    pods = ray.parse_cluster(spec)
    groups = (
        ray.head_group(pods, annotations, mode, defaults),
        *(ray.worker_group(group, pod, defaults) for group, pod in pods.workers),
    )
    problems = [*ray.name_problems(pods, mode)]
    for group, _ in pods.workers:
        problems += raycluster_rules.group_problems(group, spec, pods.head)
    workers = [pod for _, pod in pods.workers]
    problems += raycluster_rules.cluster_problems(spec, annotations, pods.head, workers)
    for template in pods.templates:
        problems += pod_rules.template_problems(template)
        problems += pod_rules.unquoted_fractions(template)
    own = spec["autoscalerOptions"]["resources"]
    problems += (*pod_rules.resource_problems(own), *pod_rules.unquoted_in_resources(own))
    return _Draft(
        groups=tuple(zip(groups, pods.all, strict=True)),
        templates=pods.templates,
        notes=tuple(notes.cluster_notes(pods, groups)),
        problems=tuple(problems),
        queue_problems=(),
    )


_drafts = {
    JOB.kind: _draft_job,
    RAY_JOB.kind: _draft_rayjob,
    RAY_CLUSTER.kind: _draft_cluster,
}
