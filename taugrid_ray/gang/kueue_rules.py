"""What Kueue 0.19 would refuse or leave alone.

Its webhooks check an object that has a queue. For one without, the same rules become notes: it is
fine as it is, and will not be once somebody gives it a queue.

Source: kubernetes-sigs/kueue 0.19.2, pkg/controller/jobs/{job,rayjob,raycluster}, jobframework.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taugrid_ray import names
from taugrid_ray.gang.model import Note, NoteCode
from taugrid_ray.gang.syntax import as_dns_label, is_dns_label, is_label_value, is_subdomain
from taugrid_ray.kinds.job import INDEXED, JOB_CONTROLLER, pods_at_once
from taugrid_ray.kinds.pod_spec import DEFAULT_SCHEDULER, PodSpec
from taugrid_ray.kinds.rayjob import OPERATOR
from taugrid_ray.kinds.strict import Field, FieldError, shown

POD_SETS_MAX = 18
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
SYNC_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


def is_elastic(metadata: Field) -> bool:
    return metadata["annotations"][names.ELASTIC].text() == "true"


def queue_problems(metadata: Field) -> Iterator[FieldError]:
    queue = metadata["labels"][names.QUEUE]
    if is_label_value(queue.text()) and not is_subdomain(queue.text()):
        yield queue.wrong(
            f"{shown(queue.text())} is not a queue's name; write for example "
            f"'{as_dns_label(queue.text())}'"
        )


def ray_problems(spec: Field, metadata: Field, *, pod_sets: int) -> Iterator[FieldError]:
    """Rules of a queue for a cluster's spec, in a RayJob or on its own."""
    if spec["enableInTreeAutoscaling"].flag() and not is_elastic(metadata):
        yield spec["enableInTreeAutoscaling"].wrong(
            "needs workload slices on a queue: "
            f"add the annotation {names.ELASTIC}: 'true', or turn it off"
        )
    if pod_sets > POD_SETS_MAX:
        yield spec["workerGroupSpecs"].wrong(
            f"make {pod_sets} pod sets with the head and the submitter, a Workload holds at most "
            f"{POD_SETS_MAX}; merge groups"
        )
    for group in spec["workerGroupSpecs"].items():
        name = group["groupName"]
        if is_label_value(name.text()) and not is_dns_label(name.text().lower()):
            yield name.wrong(
                f"{shown(name.text())} cannot be the name of a pod set: letters, digits and "
                f"dashes; write for example '{as_dns_label(name.text())}'"
            )


def slice_problems(spec: Field, metadata: Field) -> Iterator[FieldError]:
    """Kueue writes an elastic RayCluster anew to gate its pods, and then what is missing here as
    null, which the API server refuses.
    """
    if not is_elastic(metadata):
        return
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"].items()):
        if not group["rayStartParams"].exists:
            yield group["rayStartParams"].wrong(
                "is missing, and an elastic RayCluster cannot be created without: write {}"
            )


def rayjob_problems(spec: Field) -> Iterator[FieldError]:
    if spec["clusterSelector"].mapping():
        if spec["rayClusterSpec"].exists:
            yield spec["clusterSelector"].wrong(
                "both this and rayClusterSpec are set; keep one of the two"
            )
        return
    if not spec["shutdownAfterJobFinishes"].flag():
        yield spec["shutdownAfterJobFinishes"].wrong(
            "must be true on a queue, or the cluster would keep its quota: write true"
        )


def job_problems(spec: Field, metadata: Field) -> Iterator[FieldError]:
    """Kueue's annotations on a batch Job; checked with and without a queue."""
    annotations = metadata["annotations"]
    pods = pods_at_once(spec["parallelism"].integer(), spec["completions"].integer())
    least = annotations[MIN_PARALLELISM]
    if least.exists:
        number = _whole(least.text())
        if number is None:
            yield least.wrong(f"{shown(least.text())} is not a whole number; write 1 to {pods - 1}")
        elif not 0 < number < pods:
            yield least.wrong(
                f"{number} is not between 0 and the Job's {pods} pods; "
                + (f"write 1 to {pods - 1}" if pods > 1 else "remove it")
            )
        if is_elastic(metadata):
            yield least.wrong(f"excludes {names.ELASTIC}: keep one of the two")
    yield from _sync_problems(spec, annotations[SYNC_COMPLETIONS])


def _sync_problems(spec: Field, sync: Field) -> Iterator[FieldError]:
    if not sync.exists:
        return
    if sync.text() not in (*_TRUE, *_FALSE):
        yield sync.wrong(f"{shown(sync.text())} is neither 'true' nor 'false'; write one of them")
    elif sync.text() in _TRUE:
        if spec["completionMode"].text() != INDEXED:
            yield sync.wrong("needs completionMode: Indexed")
        parallelism, completions = (spec[n].integer() for n in ("parallelism", "completions"))
        if (1 if parallelism is None else parallelism) != (
            1 if completions is None else completions
        ):
            yield spec["completions"].wrong(
                f"{completions} must equal parallelism {parallelism} where "
                f"{SYNC_COMPLETIONS} is true"
            )


def min_parallelism(metadata: Field) -> int | None:
    least = metadata["annotations"][MIN_PARALLELISM]
    return _whole(least.text()) if least.exists else None


def _whole(text: str) -> int | None:
    digits = text.removeprefix("-").removeprefix("+")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 12
    return int(text) if is_number and len(text) - len(digits) <= 1 else None


def unmanaged(root: Field, pods: Sequence[PodSpec], queue: str) -> Note | None:
    """Why Kueue will not make a Workload for this object; None where it will."""
    spec, metadata = root["spec"], root["metadata"]
    for owner in metadata["ownerReferences"].items():
        if owner["controller"].flag():
            return Note(
                NoteCode.OWNED,
                f"it belongs to {owner['kind'].text()} {shown(owner['name'].text())}, "
                "whose Workload covers it",
                owner.path,
            )
    if spec["clusterSelector"].mapping():
        return Note(
            NoteCode.CLUSTER_SELECTOR,
            "it uses an existing RayCluster, so no quota and no capacity is asked for",
            spec["clusterSelector"].path,
        )
    manager = spec["managedBy"].text()
    if manager not in ("", JOB_CONTROLLER, OPERATOR):
        return Note(
            NoteCode.MANAGED_ELSEWHERE,
            f"its pods are made elsewhere, by {shown(manager)}",
            spec["managedBy"].path,
        )
    if queue:
        return None
    foreign = next(other_scheduler(root, pods), None)
    if foreign is not None:
        return foreign
    return Note(
        NoteCode.NO_QUEUE,
        f"it has no label {names.QUEUE}, so Kueue leaves it alone unless the namespace has a "
        "default queue",
        metadata["labels"].path,
    )


def other_scheduler(root: Field, pods: Sequence[PodSpec]) -> Iterator[Note]:
    """Signs that another scheduler or queueing system is meant to place the pods."""
    for pod in pods:
        if pod.scheduler not in ("", DEFAULT_SCHEDULER):
            yield Note(
                NoteCode.OTHER_SCHEDULER,
                f"its pods go to the scheduler {shown(pod.scheduler)}, which does not see bookings",
            )
            return
    labels = root["metadata"]["labels"]
    for key, entry in labels.entries():
        if key != names.QUEUE and key.rpartition("/")[2] in ("queue", "queue-name"):
            yield Note(
                NoteCode.OTHER_SCHEDULER,
                f"its label {shown(key)} belongs to another queueing system",
                entry.path,
            )
            return
