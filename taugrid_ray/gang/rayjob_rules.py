"""What KubeRay 1.6 would refuse in a RayJob, after the object exists: it turns ValidationFailed.

That state is sticky: mending the spec does not help, and the queue may keep the quota reserved.

Source: ray-project/kuberay, ray-operator/controllers/ray/utils/validation.go, v1.6.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_ray.gang.raycluster_rules import manager_problems
from taugrid_ray.gang.yaml_text import load_one
from taugrid_ray.kinds.pod_spec import PodSpec
from taugrid_ray.kinds.rayjob import CLUSTER_SELECTOR, SubmissionMode
from taugrid_ray.kinds.strict import Field, FieldError, shown

_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")
_POLICIES = (*_ORDER, "DeleteNone")


def rayjob_problems(spec: Field, head: PodSpec | None) -> Iterator[FieldError]:
    """All problems of a RayJob's spec but those of its cluster. `head` is None with a selector."""
    yield from manager_problems(spec)
    yield from _ending(spec)
    yield from _cluster_choice(spec)
    yield from _mode(spec, head)
    yield from _numbers(spec)
    yield from _runtime_env(spec["runtimeEnvYAML"])
    yield from _deletion(spec)
    cluster = spec["rayClusterSpec"]
    if cluster["authOptions"]["enableK8sTokenAuth"].flag():
        yield cluster["authOptions"]["enableK8sTokenAuth"].wrong("is not supported for a RayJob")
    if cluster["upgradeStrategy"]["type"].exists:
        yield cluster["upgradeStrategy"]["type"].wrong("cannot be set for a RayJob's cluster")


def _ending(spec: Field) -> Iterator[FieldError]:
    shutdown = spec["shutdownAfterJobFinishes"]
    if spec["suspend"].flag() and not shutdown.flag():
        yield shutdown.wrong("must be true for a RayJob that is suspended: write true")
    ttl = spec["ttlSecondsAfterFinished"]
    seconds = ttl.integer() or 0
    if seconds < 0:
        yield ttl.wrong(f"{seconds} must not be negative: write 0 or more")
    elif seconds > 0 and not shutdown.flag():
        yield ttl.wrong(f"{seconds} needs shutdownAfterJobFinishes: true")


def _cluster_choice(spec: Field) -> Iterator[FieldError]:
    selector = spec["clusterSelector"]
    if not selector.mapping():
        if not spec["rayClusterSpec"].exists:
            yield spec["rayClusterSpec"].wrong(
                "is missing: write the cluster to create, or a clusterSelector for one that exists"
            )
        return
    if spec["suspend"].flag():
        yield spec["suspend"].wrong(
            "a RayJob with a clusterSelector cannot be suspended: remove it"
        )
    if not selector.string_map().get(CLUSTER_SELECTOR):
        yield selector[CLUSTER_SELECTOR].wrong("is empty: write the RayCluster's name")
    if spec["submissionMode"].text() == SubmissionMode.SIDECAR.value:
        yield spec["submissionMode"].wrong(
            "SidecarMode puts a container into a new head pod and cannot use an existing cluster; "
            "write K8sJobMode or HTTPMode"
        )
    if (spec["backoffLimit"].integer() or 0) > 0:
        yield spec["backoffLimit"].wrong(
            "must be 0 with a clusterSelector: a retry is a new cluster"
        )


def _mode(spec: Field, head: PodSpec | None) -> Iterator[FieldError]:
    mode = spec["submissionMode"]
    known = [m.value for m in SubmissionMode]
    text = mode.text() or SubmissionMode.K8S_JOB.value
    if text not in known:
        same = [m for m in known if m.lower() == text.lower()]
        yield mode.wrong(f"{shown(text)} is unknown; write {' or '.join(same or known)}")
    if text == SubmissionMode.INTERACTIVE.value and (spec["backoffLimit"].integer() or 0) > 0:
        yield spec["backoffLimit"].wrong("must be 0 in InteractiveMode: there is nothing to repeat")
    if text == SubmissionMode.SIDECAR.value:
        for name in ("submitterPodTemplate", "submitterConfig"):
            if spec[name].exists:
                yield spec[name].wrong("has no effect in SidecarMode and is refused: remove it")
        if head is not None and head.restart_policy not in ("", "Never"):
            path = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"]
            yield path.wrong(f"{shown(head.restart_policy)} must be Never or none in SidecarMode")


def _numbers(spec: Field) -> Iterator[FieldError]:
    for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        seconds = spec[name].integer()
        if seconds is not None and seconds <= 0:
            yield spec[name].wrong(f"{seconds} must be 1 or more")
    retries = spec["backoffLimit"].integer() or 0
    if retries < 0:
        yield spec["backoffLimit"].wrong(f"{retries} must be 0 or more")


def _runtime_env(entry: Field) -> Iterator[FieldError]:
    text = entry.text()
    if not text.strip():
        return
    try:
        loaded = load_one(text)
    except ValueError as refused:
        yield entry.wrong(f"is not YAML: {refused}")
        return
    if loaded is not None and not isinstance(loaded, dict):
        yield entry.wrong(
            f"{shown(text)} is not a mapping; write keys such as pip or working_dir with values"
        )


def _deletion(spec: Field) -> Iterator[FieldError]:
    strategy = spec["deletionStrategy"]
    if not strategy.exists:
        return
    rules = strategy["deletionRules"].items()
    legacy = strategy["onSuccess"].exists or strategy["onFailure"].exists
    if rules and legacy:
        yield strategy.wrong("has both deletionRules and onSuccess/onFailure; keep deletionRules")
    elif rules:
        if spec["shutdownAfterJobFinishes"].flag():
            yield strategy["deletionRules"].wrong(
                "excludes shutdownAfterJobFinishes: keep one of the two (a queue needs the latter)"
            )
        yield from _deletion_rules(spec, rules)
    elif legacy:
        yield from _legacy_deletion(spec, strategy)
    else:
        yield strategy.wrong("is empty; write deletionRules, or remove it")


def _deletion_rules(spec: Field, rules: tuple[Field, ...]) -> Iterator[FieldError]:
    ttls: dict[tuple[str, str], dict[str, int]] = {}
    for rule in rules:
        condition = rule["condition"]
        when = [k for k in ("jobStatus", "jobDeploymentStatus") if condition[k].exists]
        if len(when) != 1:
            yield condition.wrong("needs exactly one of jobStatus and jobDeploymentStatus")
            continue
        ttl = condition["ttlSeconds"].integer() or 0
        if ttl < 0:
            yield condition["ttlSeconds"].wrong(f"{ttl} must not be negative: write 0 or more")
        policy = rule["policy"].text()
        yield from _policy_problems(spec, rule["policy"])
        of_state = ttls.setdefault((when[0], condition[when[0]].text()), {})
        if policy in of_state:
            yield rule["policy"].wrong(f"{shown(policy)} stands twice for the same state")
        of_state[policy] = ttl
    for (_, state), by_policy in ttls.items():
        ordered = [by_policy[p] for p in _ORDER if p in by_policy]
        if ordered != sorted(ordered):
            yield spec["deletionStrategy"]["deletionRules"].wrong(
                f"for {shown(state)} must delete workers, then the cluster, then the RayJob: "
                "let ttlSeconds grow in that order"
            )


def _legacy_deletion(spec: Field, strategy: Field) -> Iterator[FieldError]:
    for name in ("onSuccess", "onFailure"):
        policy = strategy[name]["policy"]
        if not policy.exists:
            yield policy.wrong(f"is missing; write {' or '.join(_POLICIES)}")
            continue
        yield from _policy_problems(spec, policy)
        if policy.text() == "DeleteNone" and spec["shutdownAfterJobFinishes"].flag():
            yield policy.wrong(
                "DeleteNone excludes shutdownAfterJobFinishes: remove one of the two"
            )


def _policy_problems(spec: Field, policy: Field) -> Iterator[FieldError]:
    text = policy.text()
    if text not in _POLICIES:
        yield policy.wrong(f"{shown(text)} is unknown; write {' or '.join(_POLICIES)}")
    elif spec["clusterSelector"].mapping() and text in ("DeleteCluster", "DeleteWorkers"):
        yield policy.wrong(f"{text} is not possible with a clusterSelector: write DeleteSelf")
    elif text == "DeleteWorkers" and spec["rayClusterSpec"]["enableInTreeAutoscaling"].flag():
        yield policy.wrong("DeleteWorkers is not possible with autoscaling: write DeleteCluster")
