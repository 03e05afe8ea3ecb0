"""A RayCluster's spec as pod groups: the head, the worker groups, and a RayJob's submitter.

Counts. KubeRay makes clamp(replicas, minReplicas, maxReplicas) x numOfHosts pods, none for a
suspended group; missing numbers are the schema's 0, 0, no limit and 1. Kueue counts replicas x
numOfHosts as written, suspended or not.

Hidden containers, their numbers as in KubeRay: the autoscaler (500m, 512Mi, or
autoscalerOptions.resources) and the SidecarMode submitter (500m, 200Mi) in the head, a container in
every worker that waits for the head (200m, 256Mi, not counted by Kueue), the submitter's pod in
K8sJobMode. Kueue counts 200m, 256Mi or more for the head, for the Redis cleanup Job of fault
tolerance.

Source: kuberay 1.6.2 ray-operator/controllers/ray/{common/pod.go,common/job.go,utils/util.go};
kueue 0.19.2 pkg/controller/jobs/{raycluster/common.go,rayjob/rayjob_controller.go}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taugrid_ray.gang.model import Counted, Note, NoteCode, PodGroup, Role
from taugrid_ray.gang.pods import NOTHING_HIDDEN, Hidden, NamespaceDefaults, sums_of
from taugrid_ray.gang.ray_view import ray_resources
from taugrid_ray.gang.raycluster_rules import is_fault_tolerant
from taugrid_ray.kinds.pod_spec import Container, PodSpec, parse_pod_spec
from taugrid_ray.kinds.raycluster import WorkerGroup, parse_group
from taugrid_ray.kinds.rayjob import SubmissionMode
from taugrid_ray.kinds.strict import INT32_MAX, Field, FieldError, shown
from taugrid_ray.quantity import parse

HEAD, SUBMITTER = "head", "submitter"

_AUTOSCALER = {"cpu": parse("500m"), "memory": parse("512Mi")}
_SUBMITTER = Container(
    name="ray-job-submitter",
    requests={"cpu": parse("500m"), "memory": parse("200Mi")},
    limits={"cpu": parse("1"), "memory": parse("1Gi")},
)
_WAIT_FOR_HEAD = Container(
    name="wait-gcs-ready", requests={"cpu": parse("200m"), "memory": parse("256Mi")}
)
_REDIS_CLEANUP = {"cpu": parse("200m"), "memory": parse("256Mi")}


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The parsed templates of a cluster's spec, and where they stand."""

    spec: Field
    head: PodSpec
    workers: tuple[tuple[Field, PodSpec], ...]

    @property
    def all(self) -> tuple[PodSpec, ...]:
        return (self.head, *(pod for _, pod in self.workers))

    @property
    def templates(self) -> tuple[Field, ...]:
        groups = (self.spec["headGroupSpec"], *(group for group, _ in self.workers))
        return tuple(group["template"] for group in groups)


def parse_cluster(spec: Field) -> ClusterPods:
    return ClusterPods(
        spec=spec,
        head=_parse(spec["headGroupSpec"]["template"]["spec"]),
        workers=tuple(
            (group, _parse(group["template"]["spec"])) for group in spec["workerGroupSpecs"].items()
        ),
    )


def _parse(spec: Field) -> PodSpec:
    pod = parse_pod_spec(spec)
    if not pod.containers:
        raise spec["containers"].wrong("is empty: write at least one container")
    return pod


def head_group(
    cluster: ClusterPods, annotations: Field, mode: str, defaults: NamespaceDefaults
) -> PodGroup:
    spec, pod = cluster.spec, cluster.head
    hidden = Hidden(
        containers=tuple(_head_additions(spec, mode)),
        floor=_REDIS_CLEANUP if is_fault_tolerant(spec, annotations) else {},
    )
    sums = sums_of(pod, hidden, defaults)
    return PodGroup(
        name=HEAD,
        role=Role.HEAD,
        count=1,
        per_pod=sums.per_pod,
        parts=sums.parts,
        counted=Counted(HEAD, 1, sums.counted),
        ray=ray_resources(spec["headGroupSpec"], pod.containers[0]),
        node_selector=pod.node_selector,
        scheduler=pod.scheduler,
    )


def _head_additions(spec: Field, mode: str) -> Iterator[Container]:
    if mode == SubmissionMode.SIDECAR.value:
        yield _SUBMITTER
    if spec["enableInTreeAutoscaling"].flag():
        own = spec["autoscalerOptions"]["resources"]
        yield Container(
            name="autoscaler",
            requests=own["requests"].quantities() if own.exists else _AUTOSCALER,
            limits=own["limits"].quantities() if own.exists else _AUTOSCALER,
        )


def worker_group(group: Field, pod: PodSpec, defaults: NamespaceDefaults) -> PodGroup:
    counts = parse_group(group.mapping())
    _check_counts(group, counts)
    sums = sums_of(pod, Hidden(uncounted_init=(_WAIT_FOR_HEAD,)), defaults)
    return PodGroup(
        name=counts.name,
        role=Role.WORKERS,
        count=counts.wanted_pods,
        per_pod=sums.per_pod,
        parts=sums.parts,
        counted=Counted(counts.pod_set, counts.counted_pods, sums.counted),
        replicas=counts.wanted_replicas,
        min_replicas=counts.min_replicas,
        max_replicas=counts.max_replicas,
        num_of_hosts=counts.num_of_hosts,
        ray=ray_resources(group, pod.containers[0]),
        node_selector=pod.node_selector,
        scheduler=pod.scheduler,
    )


def _check_counts(group: Field, counts: WorkerGroup) -> None:
    for name in ("replicas", "minReplicas", "maxReplicas", "numOfHosts"):
        group[name].integer()
    most = max(counts.wanted_pods, counts.counted_pods)
    if most > INT32_MAX:
        raise group["replicas"].wrong(
            f"{most // counts.num_of_hosts} x numOfHosts {counts.num_of_hosts} are {most} pods, "
            f"a pod set counts to {INT32_MAX}; lower one of the two"
        )


def submitter_group(spec: Field, defaults: NamespaceDefaults) -> tuple[PodGroup, PodSpec]:
    """The pod of K8sJobMode: the user's template, or KubeRay's with the head's image."""
    template = spec["submitterPodTemplate"]
    if template.exists:
        pod = _parse(template["spec"])
        _check_restart(template["spec"]["restartPolicy"], pod)
        hidden = NOTHING_HIDDEN
    else:
        pod, hidden = PodSpec(containers=()), Hidden(containers=(_SUBMITTER,))
    sums = sums_of(pod, hidden, defaults)
    group = PodGroup(
        name=SUBMITTER,
        role=Role.SUBMITTER,
        count=1,
        per_pod=sums.per_pod,
        parts=sums.parts,
        counted=Counted(SUBMITTER, 1, sums.counted),
        node_selector=pod.node_selector,
        scheduler=pod.scheduler,
    )
    return group, pod


def _check_restart(entry: Field, pod: PodSpec) -> None:
    if pod.restart_policy not in ("Never", "OnFailure"):
        written = shown(pod.restart_policy) if pod.restart_policy else "missing, which means Always"
        raise entry.wrong(f"is {written}; a Job's pods need Never or OnFailure")


def name_problems(cluster: ClusterPods, mode: str) -> Iterator[FieldError]:
    """Two groups of one name, or one of a name that Kueue gives to its own pod sets."""
    reserved = [HEAD, SUBMITTER] if mode == SubmissionMode.K8S_JOB.value else [HEAD]
    seen: dict[str, str] = {}
    for group, _ in cluster.workers:
        entry = group["groupName"]
        name = entry.text()
        lower = name.lower()
        if lower in reserved:
            yield entry.wrong(
                f"{shown(name)} is the name of a pod set of Kueue's own; write for example "
                f"'{lower}-workers'"
            )
        elif lower in seen:
            other = "" if seen[lower] == name else f" (as {shown(seen[lower])}, in lower case)"
            yield entry.wrong(f"{shown(name)} stands twice{other}; give each group its own name")
        seen.setdefault(lower, name)


def group_notes(group: Field, made: PodGroup) -> Iterator[Note]:
    """Where the pods that come differ from what was written, or from what Kueue counts."""
    name, counts = shown(made.name), parse_group(group.mapping())
    if counts.is_suspended:
        yield Note(
            NoteCode.GROUP_SUSPENDED,
            f"group {name} is suspended and makes no pods; Kueue counts {counts.counted_pods}",
            group["suspend"].path,
        )
    elif counts.wanted_replicas != counts.replicas:
        side = "raised" if counts.wanted_replicas > counts.replicas else "capped"
        yield Note(
            NoteCode.REPLICAS_CLAMPED,
            f"group {name} asks for {counts.replicas} replicas, {side} to {counts.wanted_replicas} "
            f"by KubeRay; Kueue counts {counts.counted_pods} pods instead of {counts.wanted_pods}",
            group["replicas"].path,
        )
    if made.name != made.counted.name:
        yield Note(
            NoteCode.GROUP_RENAMED,
            f"group {name} is the pod set '{made.counted.name}' in Kueue",
            group["groupName"].path,
        )
