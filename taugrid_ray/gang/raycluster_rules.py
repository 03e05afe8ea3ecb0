"""What KubeRay 1.6 would refuse in a cluster's spec, after the object exists.

KubeRay's webhooks are off by default, so the API server takes all of these. A RayJob then turns
ValidationFailed and never leaves it; a RayCluster only gets a warning event. Each rule yields a
problem, so that a person sees them all at once.

Source: ray-project/kuberay, ray-operator/controllers/ray/utils/validation.go, v1.6.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taugrid_ray.gang.syntax import as_dns_label, is_label_value, label_problems
from taugrid_ray.kinds.pod_spec import PodSpec
from taugrid_ray.kinds.strict import Field, FieldError, shown

FT_ANNOTATION = "ray.io/ft-enabled"
STORAGE_ANNOTATION = "ray.io/external-storage-namespace"
V2_ENV = "RAY_enable_autoscaler_v2"
_ON = ("1", "true")
_RAY_PARAMS = ("num-cpus", "num-gpus", "memory", "resources")
_MANAGERS = ("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")
_TOKEN_VERSION, _K8S_TOKEN_VERSION = (2, 52, 0), (2, 55, 0)
_UPGRADES = ("Recreate", "None")


def cluster_problems(
    spec: Field, annotations: Field, head: PodSpec, workers: Sequence[PodSpec]
) -> Iterator[FieldError]:
    """All problems of a RayCluster's spec but those of single groups and pods."""
    yield from manager_problems(spec)
    yield from _group_resources(spec["headGroupSpec"])
    yield from _fault_tolerance(spec, annotations, head)
    yield from _autoscaler(spec, head, workers)
    yield from _token(spec)
    yield from _upgrade(spec["upgradeStrategy"]["type"])


def manager_problems(spec: Field) -> Iterator[FieldError]:
    manager = spec["managedBy"]
    if manager.exists and manager.text() not in _MANAGERS:
        yield manager.wrong(f"{shown(manager.text())} is unknown; write {' or '.join(_MANAGERS)}")


def is_fault_tolerant(spec: Field, annotations: Field) -> bool:
    by_annotation = annotations.string_map().get(FT_ANNOTATION, "").lower() == "true"
    return by_annotation or spec["gcsFaultToleranceOptions"].exists


def is_v2(spec: Field, head: PodSpec) -> bool:
    """Is the second Ray autoscaler asked for, by field or by environment?"""
    by_field = spec["autoscalerOptions"]["version"].text() == "v2"
    return by_field or head.containers[0].env.get(V2_ENV, "") in _ON


def group_problems(group: Field, spec: Field, head: PodSpec) -> Iterator[FieldError]:
    """Problems of one worker group."""
    yield from _group_name(group["groupName"])
    yield from _group_counts(group)
    yield from _group_resources(group)
    idle = group["idleTimeoutSeconds"]
    seconds = idle.integer()
    if seconds is not None:
        if seconds < 0:
            yield idle.wrong(f"{seconds} must not be negative: write 0 or more")
        if not is_v2(spec, head):
            yield idle.wrong(
                "works only with the second autoscaler: "
                f"set {spec['autoscalerOptions']['version'].path}: v2, or leave it out"
            )
    if group["suspend"].flag() and spec["enableInTreeAutoscaling"].flag():
        yield group["suspend"].wrong(
            "a group cannot be suspended while enableInTreeAutoscaling is true; "
            "set replicas, minReplicas and maxReplicas to 0 instead"
        )


def _group_name(name: Field) -> Iterator[FieldError]:
    text = name.text()
    if not text:
        yield name.wrong("is empty: write a name such as workers")
    elif not is_label_value(text):
        yield name.wrong(
            f"{shown(text)} cannot be the label that KubeRay puts on every pod of the group; "
            f"write for example '{as_dns_label(text)}'"
        )


def _group_counts(group: Field) -> Iterator[FieldError]:
    for name in ("replicas", "minReplicas", "maxReplicas"):
        if (group[name].integer() or 0) < 0:
            yield group[name].wrong(f"{group[name].value} must not be negative: write 0 or more")
    least, most = group["minReplicas"].integer(), group["maxReplicas"].integer()
    if least is not None and most is not None and 0 <= most < least:
        yield group["minReplicas"].wrong(
            f"{least} is above maxReplicas {most}; write {most} or less, or raise maxReplicas"
        )
    hosts = group["numOfHosts"].integer()
    if hosts is not None and hosts < 1:
        yield group["numOfHosts"].wrong(
            f"{hosts} is less than one pod per replica; write 1 or more, or leave it out for 1"
        )


def _group_resources(group: Field) -> Iterator[FieldError]:
    params = group["rayStartParams"].string_map()
    both = [p for p in _RAY_PARAMS if params.get(p)]
    if both and group["resources"].mapping():
        yield group["resources"].wrong(
            f"excludes rayStartParams {', '.join(both)}: KubeRay takes only one "
            "of the two, so remove either"
        )
    if "labels" in params:
        yield group["rayStartParams"]["labels"].wrong(
            f"is not supported; write the labels under {group['labels'].path}"
        )
    yield from label_problems(group["labels"])


def _fault_tolerance(spec: Field, annotations: Field, head: PodSpec) -> Iterator[FieldError]:
    options = spec["gcsFaultToleranceOptions"]
    env = head.containers[0].env
    params = spec["headGroupSpec"]["rayStartParams"]
    if not is_fault_tolerant(spec, annotations) and "RAY_REDIS_ADDRESS" in env:
        yield options.wrong("is missing while the head has RAY_REDIS_ADDRESS: write redisAddress")
    for named in (params["redis-username"],):
        if named.text():
            yield named.wrong(f"belongs in {options['redisUsername'].path}")
    if "REDIS_USERNAME" in env:
        yield options["redisUsername"].wrong("is the place for REDIS_USERNAME of the head")
    if not options.exists:
        return
    if annotations[FT_ANNOTATION].text():
        yield annotations[FT_ANNOTATION].wrong(f"excludes {options.path}: keep the latter")
    if annotations[STORAGE_ANNOTATION].text():
        yield annotations[STORAGE_ANNOTATION].wrong(
            f"belongs in {options['externalStorageNamespace'].path}"
        )
    if params["redis-password"].text():
        yield params["redis-password"].wrong(f"belongs in {options['redisPassword'].path}")
    for name, field in (
        ("REDIS_PASSWORD", "redisPassword"),
        ("RAY_REDIS_ADDRESS", "redisAddress"),
    ):
        if name in env:
            yield options[field].wrong(f"is the place for {name}; remove it from the head's env")


def _autoscaler(spec: Field, head: PodSpec, workers: Sequence[PodSpec]) -> Iterator[FieldError]:
    options = spec["autoscalerOptions"]
    idle = options["idleTimeoutSeconds"].integer()
    if idle is not None and idle < 0:
        yield options["idleTimeoutSeconds"].wrong(f"{idle} must not be negative: write 0 or more")
    version = options["version"]
    if version.text() not in ("", "v1", "v2"):
        yield version.wrong(f"{shown(version.text())} is unknown; write v1 or v2")
    switch = head.containers[0].env.get(V2_ENV)
    if not spec["enableInTreeAutoscaling"].flag():
        if switch in _ON:
            yield spec["enableInTreeAutoscaling"].wrong(
                f"must be true where the head has {V2_ENV}={switch}; set it, or remove that"
            )
        return
    if version.exists and switch is not None:
        yield version.wrong(f"excludes {V2_ENV} in the head's env: remove that")
    if version.text() == "v2":
        for name, pod in (("head", head), *((f"worker group {i}", w) for i, w in _count(workers))):
            if pod.restart_policy not in ("", "Never"):
                yield version.wrong(
                    f"v2 needs restartPolicy Never or none in the {name}, "
                    f"not {shown(pod.restart_policy)}"
                )


def _count(workers: Sequence[PodSpec]) -> list[tuple[int, PodSpec]]:
    return list(enumerate(workers))


def _token(spec: Field) -> Iterator[FieldError]:
    auth = spec["authOptions"]
    by_kubernetes = auth["enableK8sTokenAuth"].flag()
    if auth["mode"].text() != "token":
        if by_kubernetes:
            yield auth["mode"].wrong("must be token where enableK8sTokenAuth is true")
        return
    least, what = _TOKEN_VERSION, "authOptions.mode token"
    if by_kubernetes:
        least, what = _K8S_TOKEN_VERSION, "authOptions.enableK8sTokenAuth"
        if auth["secretName"].text():
            yield auth["secretName"].wrong("excludes enableK8sTokenAuth: keep one of the two")
    version = spec["rayVersion"]
    if _version(version.text()) < least:
        yield version.wrong(
            f"{shown(version.text())} is too old or unreadable for {what}; "
            f"write {'.'.join(map(str, least))} or later"
        )


def _upgrade(kind: Field) -> Iterator[FieldError]:
    if kind.exists and kind.text() not in _UPGRADES:
        yield kind.wrong(f"{shown(kind.text())} is unknown; write {' or '.join(_UPGRADES)}")


def _version(text: str) -> tuple[int, ...]:
    """Leading numbers of a version such as 2.52.0 or v2.52.0rc1; () where there are none."""
    numbers: list[int] = []
    for piece in text.removeprefix("v").split(".")[:3]:
        digits = piece[: len(piece) - len(piece.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
