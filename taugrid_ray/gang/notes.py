"""What is right and probably not meant: notes that need the finished groups."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from taugrid_ray import names
from taugrid_ray.gang import ray_view
from taugrid_ray.gang.model import Note, NoteCode, PodGroup, Role
from taugrid_ray.gang.pods import NamespaceDefaults
from taugrid_ray.gang.ray import ClusterPods, group_notes
from taugrid_ray.kinds.pod_spec import PodSpec
from taugrid_ray.kinds.rayjob import SubmissionMode
from taugrid_ray.kinds.strict import Field, shown
from taugrid_ray.quantity import human

REQUESTS_READ_SINCE = "2.41"
"""The first Ray whose autoscaler reads requests where a container has no limits (ray#49613)."""


def cluster_notes(cluster: ClusterPods, groups: tuple[PodGroup, ...]) -> Iterator[Note]:
    """Of a RayCluster's spec; `groups` are the head's and the workers', in that order."""
    head, workers = groups[0], groups[1:]
    yield from _ray_notes(cluster.spec["headGroupSpec"], head)
    for (group, pod), made in zip(cluster.workers, workers, strict=True):
        yield from group_notes(group, made)
        yield from _ray_notes(group, made)
        if cluster.spec["enableInTreeAutoscaling"].flag():
            yield from _autoscaler_notes(group, pod, made)
    yield from _head_notes(cluster, workers)
    if all(made.count == 0 for made in workers):
        yield Note(
            NoteCode.HEAD_ALONE,
            "no worker is asked for at the start: the gang is the head alone",
            cluster.spec["workerGroupSpecs"].path,
        )


def _ray_notes(group: Field, made: PodGroup) -> Iterator[Note]:
    yield from ray_view.spelling_notes(group)
    yield from ray_view.view_notes(group, made.name, made.per_pod, made.ray)


def _autoscaler_notes(group: Field, pod: PodSpec, made: PodGroup) -> Iterator[Note]:
    ray_container = pod.containers[0]
    said = group["rayStartParams"]["num-cpus"].exists or group["resources"].mapping()
    if said or ray_container.limits.get("cpu"):
        return
    if ray_container.requests.get("cpu"):
        problem = f"Ray before {REQUESTS_READ_SINCE} cannot size it and stops autoscaling"
    else:
        problem = "the Ray autoscaler cannot tell what a worker offers and will not start"
    yield Note(
        NoteCode.AUTOSCALER_CANNOT_SIZE,
        f"group {shown(made.name)} has no CPU limit and no num-cpus: {problem}",
        group["template"]["spec"]["containers"].path,
    )


def _head_notes(cluster: ClusterPods, workers: tuple[PodGroup, ...]) -> Iterator[Note]:
    """A head that may land on the workers' special nodes sees devices that nobody gave it."""
    head = cluster.head
    own = {n for c in head.containers for n in (*c.requests, *c.limits)}
    special = {n for made in workers for n in made.per_pod if "/" in n} - own
    for key in sorted(special.intersection(head.tolerated_keys)):
        yield Note(
            NoteCode.HEAD_TOLERATES_ACCELERATORS,
            f"the head tolerates the taint {key} and asks for no {key}: it may take a worker's "
            "node, where Ray would use devices that nobody gave it",
            cluster.spec["headGroupSpec"]["template"]["spec"]["tolerations"].path,
        )


def sum_notes(made: PodGroup, pod: PodSpec, defaults: NamespaceDefaults) -> Iterator[Note]:
    """About one group's sums, of any kind."""
    name = shown(made.name)
    if pod.runtime_class and not pod.overhead and pod.runtime_class not in defaults.overheads:
        yield Note(
            NoteCode.OVERHEAD_UNKNOWN,
            f"the overhead of runtime class {shown(pod.runtime_class)} is not known here and not "
            f"in the sum of {name}",
        )
    if made.count and not any(made.counted.per_pod.values()):
        yield Note(
            NoteCode.NO_REQUESTS,
            f"a pod of {name} asks for nothing, so neither quota nor capacity can be kept for it",
        )
    if made.per_pod != made.counted.per_pod:
        yield Note(
            NoteCode.KUEUE_COUNTS_DIFFERENTLY,
            f"a pod of {name} will ask for {_differences(made)}",
        )


def _differences(made: PodGroup) -> str:
    pairs = []
    zero = Fraction(0)
    for resource in sorted({*made.per_pod, *made.counted.per_pod}):
        asks, counts = made.per_pod.get(resource, zero), made.counted.per_pod.get(resource, zero)
        if asks != counts:
            pairs.append(f"{human(resource, asks)} where Kueue counts {human(resource, counts)}")
    return " and ".join(pairs)


def entrypoint_notes(spec: Field, mode: str) -> Iterator[Note]:
    if mode != SubmissionMode.INTERACTIVE.value and not spec["entrypoint"].text().strip():
        yield Note(
            NoteCode.NO_ENTRYPOINT,
            "there is no entrypoint, so the job will fail once its pods run",
            spec["entrypoint"].path,
        )


def job_notes(made: PodGroup) -> Iterator[Note]:
    if made.role is Role.MAIN and made.count == 0:
        yield Note(NoteCode.NO_PODS, "it runs no pods: parallelism or completions is 0")


def annotation_notes(metadata: Field, templates: tuple[Field, ...]) -> Iterator[Note]:
    """Consume annotations written by hand; ours are put on pods, one booking at a time."""
    for place in (metadata, *(t["metadata"] for t in templates)):
        for key, entry in place["annotations"].entries():
            if key.rpartition("/")[2] != names.CONSUME.rpartition("/")[2]:
                continue
            effect = (
                "has no effect on pods"
                if place is metadata
                else "keeps Cluster Autoscaler from ever helping pods that this booking lacks"
            )
            yield Note(NoteCode.STALE_ANNOTATION, f"{key} written by hand {effect}", entry.path)
