"""A batch Job as one pod group.

Pods at once = min(parallelism, completions), parallelism where completions is not written, and 1
where parallelism is not. The pod set is called `main`.

Source: kubernetes 1.36 pkg/apis/batch/validation; kueue 0.19.2 pkg/controller/jobs/job.
"""

from __future__ import annotations

from collections.abc import Iterator

from taugrid_ray.gang.kueue_rules import min_parallelism
from taugrid_ray.gang.model import Counted, PodGroup, Role
from taugrid_ray.gang.pods import NOTHING_HIDDEN, NamespaceDefaults, sums_of
from taugrid_ray.gang.syntax import LABEL_MAX, as_dns_label, is_dns_label, is_subdomain
from taugrid_ray.kinds.job import INDEXED, pods_at_once
from taugrid_ray.kinds.pod_spec import PodSpec
from taugrid_ray.kinds.strict import INT64_MAX, Field, FieldError, shown

MAIN = "main"
_INDEXED_PARALLELISM_MAX = 100_000


def main_group(spec: Field, metadata: Field, pod: PodSpec, defaults: NamespaceDefaults) -> PodGroup:
    count = pods_at_once(spec["parallelism"].integer(), spec["completions"].integer())
    sums = sums_of(pod, NOTHING_HIDDEN, defaults)
    return PodGroup(
        name=MAIN,
        role=Role.MAIN,
        count=count,
        per_pod=sums.per_pod,
        parts=sums.parts,
        counted=Counted(MAIN, count, sums.counted),
        min_count=min_parallelism(metadata),
        replicas=count,
        min_replicas=count,
        max_replicas=count,
        node_selector=pod.node_selector,
        scheduler=pod.scheduler,
    )


def job_problems(spec: Field, metadata: Field, pod: PodSpec) -> Iterator[FieldError]:
    """What the API server refuses when a Job is created."""
    yield from _name(spec, metadata["name"])
    for name in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"):
        if (spec[name].integer() or 0) < 0:
            yield spec[name].wrong(f"{spec[name].value} must not be negative: write 0 or more")
    deadline = spec["activeDeadlineSeconds"].integer(most=INT64_MAX)
    if deadline is not None and deadline < 0:
        yield spec["activeDeadlineSeconds"].wrong(f"{deadline} must not be negative")
    yield from _completion_mode(spec)
    restart = spec["template"]["spec"]["restartPolicy"]
    if pod.restart_policy not in ("Never", "OnFailure"):
        written = shown(pod.restart_policy) if pod.restart_policy else "missing, which means Always"
        yield restart.wrong(f"is {written}; a Job's pods need Never or OnFailure")


def _name(spec: Field, name: Field) -> Iterator[FieldError]:
    text = name.text()
    if not text:
        return
    if not is_subdomain(text) or len(text) > LABEL_MAX:
        yield name.wrong(
            f"{shown(text)} is not a Job's name: at most {LABEL_MAX} lower-case letters, digits, "
            f"dashes and dots; write for example '{as_dns_label(text)}'"
        )
        return
    completions = spec["completions"].integer() or 0
    if spec["completionMode"].text() == INDEXED and completions > 0:
        last = f"{text}-{completions - 1}"
        if not is_dns_label(last):
            yield name.wrong(
                f"makes the host name {shown(last)} in an Indexed Job, which needs at most "
                f"{LABEL_MAX} letters, digits and dashes; shorten it"
            )


def _completion_mode(spec: Field) -> Iterator[FieldError]:
    mode = spec["completionMode"].text()
    if mode not in ("", "NonIndexed", INDEXED):
        yield spec["completionMode"].wrong(f"{shown(mode)} is unknown; write NonIndexed or Indexed")
    if mode == INDEXED:
        if not spec["completions"].exists:
            yield spec["completions"].wrong("is missing: an Indexed Job needs a number")
        if (spec["parallelism"].integer() or 0) > _INDEXED_PARALLELISM_MAX:
            yield spec["parallelism"].wrong(
                f"{spec['parallelism'].value} is above {_INDEXED_PARALLELISM_MAX}, the most for an "
                "Indexed Job"
            )
