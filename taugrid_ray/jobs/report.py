"""A job as JSON: TauGrid's shape, with stage, sentence and requests added.

Lists are never null and are sorted. A part that could not be read is `unavailable` with its
reason, never "not found". Everything a person wrote is in here as it was written: JSON escapes it.

The shape is TauGrid's `status -o json`, v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from taugrid_ray.jobs.asked import asked_of
from taugrid_ray.jobs.model import JobState
from taugrid_ray.jobs.observed import Observed, Part, PodView
from taugrid_ray.jobs.phases import Phase, headline, phases_of
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import Condition, find
from taugrid_ray.kinds.job import Job
from taugrid_ray.kinds.meta import format_time
from taugrid_ray.kinds.rayjob import RayJob
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.workload import Workload

SCHEMA_VERSION = "v1alpha1"
_NEEDED = (Part.JOB, Part.WORKLOADS, Part.PODS)
"""Without these the state is a guess; without requests and events it only says less."""


def report_of(seen: Observed, state: JobState) -> Obj:
    job, ref = seen.job, seen.ref
    return {
        "schemaVersion": SCHEMA_VERSION,
        "name": ref.name,
        "namespace": ref.namespace,
        "kind": ref.kind.kind,
        "uid": ref.uid,
        **_state(seen, state),
        "observations": _observations(seen),
        "phases": [
            {
                "name": p.name,
                "status": p.mark.value,
                "detail": p.detail,
                "startTime": _at(p.since_s),
            }
            for p in phases_of(seen, state)
        ],
        "job": _job(job) if isinstance(job, Job) else None,
        "rayJob": _ray_job(job) if isinstance(job, RayJob) else None,
        "workloads": [
            _workload(w) for w in sorted(seen.workloads or (), key=lambda w: w.meta.name)
        ],
        "requests": _requests(seen),
        "pods": [_pod(p) for p in sorted(seen.pods or (), key=lambda p: p.name)],
    }


def list_report(rows: Iterable[tuple[Observed, JobState]]) -> Obj:
    """`taugrid list -o json`: the head of each job's report."""
    items = [
        {
            "name": seen.ref.name,
            "namespace": seen.ref.namespace,
            "kind": seen.ref.kind.kind,
            "uid": seen.ref.uid,
            "createdAt": _at(seen.job.meta.created_at_s if seen.job is not None else None),
            **_state(seen, state),
        }
        for seen, state in rows
    ]
    return {"schemaVersion": SCHEMA_VERSION, "items": items}


def _state(seen: Observed, state: JobState) -> Obj:
    counts = state.pods
    return {
        "state": headline(seen, state),
        "degraded": any(part in _NEEDED for part in state.unavailable),
        "stage": state.stage.value,
        "reason": state.reason,
        "message": state.sentence,
        "hint": state.hint,
        "outcome": state.outcome.value if state.outcome is not None else "",
        "attempt": state.attempt,
        "growth": state.growth,
        "queue": state.queue,
        "since": _at(state.since_s),
        "until": _at(state.until_s),
        "podCounts": {
            "expected": counts.expected,
            "created": counts.created,
            "scheduled": counts.bound,
            "ready": counts.ready,
            "ended": counts.ended,
            "nodes": counts.nodes,
        }
        if counts is not None
        else None,
    }


def _observations(seen: Observed) -> Obj:
    parts = {
        ("job" if seen.ref.kind.kind == "Job" else "rayJob"): (Part.JOB, seen.job),
        "workloads": (Part.WORKLOADS, seen.workloads),
        "requests": (Part.REQUESTS, seen.requests),
        "pods": (Part.PODS, seen.pods),
        "events": (Part.EVENTS, seen.events),
    }
    found: Obj = {}
    for name, (part, value) in parts.items():
        if part in seen.unavailable:
            found[name] = {"status": "unavailable", "reason": seen.unavailable[part]}
        else:
            there = value is not None and value != ()
            found[name] = {"status": "observed" if there else "notFound", "reason": ""}
    return found


def _phase_of(phase: Phase) -> Obj:
    return {
        "name": phase.name,
        "status": phase.mark.value,
        "detail": phase.detail,
        "startTime": _at(phase.since_s),
    }


def _at(at_s: float | None) -> str:
    return format_time(at_s) if at_s is not None else ""


def _conditions(conditions: Iterable[Condition]) -> list[Obj]:
    return [
        {
            "type": c.type,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "lastTransitionTime": c.changed_at,
        }
        for c in sorted(conditions, key=lambda c: c.type)
    ]


def _job(job: Job) -> Obj:
    return {
        "suspend": job.suspend,
        "active": job.active,
        "ready": job.ready,
        "succeeded": job.succeeded,
        "failed": job.failed,
        "startTime": _at(job.started_at_s),
        "completionTime": _at(job.ended_at_s),
        "conditions": _conditions(job.conditions),
    }


def _ray_job(job: RayJob) -> Obj:
    return {
        "suspend": job.suspend,
        "deploymentStatus": job.deployment_status,
        "jobStatus": job.job_status,
        "rayClusterName": job.cluster_name,
        "jobId": job.job_id,
        "reason": job.reason,
        "message": job.message,
        "startTime": _at(job.started_at_s),
        "endTime": _at(job.ended_at_s),
        "conditions": [],
    }


def _workload(workload: Workload) -> Obj:
    spoken = next(
        (c for t in (wl.QUOTA_RESERVED, wl.ADMITTED) if (c := find(workload.conditions, t))), None
    )
    return {
        "name": workload.meta.name,
        "queue": workload.queue,
        "active": workload.active,
        "phase": _phase(workload),
        "admitted": workload.is_true(wl.ADMITTED),
        "reason": spoken.reason if spoken is not None else "",
        "message": spoken.message if spoken is not None else "",
        "clusterQueue": workload.cluster_queue,
        "workerCluster": "",
        "nominatedClusters": [],
        "admissionChecks": [
            {
                "name": c.name,
                "state": c.state.value,
                "controller": "",
                "message": c.message,
                "lastTransitionTime": c.changed_at,
            }
            for c in sorted(workload.checks, key=lambda c: c.name)
        ],
        "conditions": _conditions(workload.conditions),
    }


def _phase(workload: Workload) -> str:
    for condition in (wl.FINISHED, wl.ADMITTED, wl.QUOTA_RESERVED):
        if workload.is_true(condition):
            return condition
    return "Pending"


def _requests(seen: Observed) -> list[Obj]:
    return [
        {
            "name": a.name,
            "pool": a.pool,
            "pods": a.pods,
            "provisioningClassName": a.class_name,
            "attempt": a.attempt,
            "verdict": a.answer.verdict.value,
            "message": a.answer.message,
            "since": _at(a.answer.since_s or None),
        }
        for a in asked_of(seen.requests or ())
    ]


def _pod(pod: PodView) -> dict[str, Any]:
    return {
        "name": pod.name,
        "phase": pod.phase,
        "ready": pod.ready,
        "node": pod.node,
        "podSet": pod.pod_set,
        "role": pod.ray_type,
        "terminating": pod.terminating,
        "gates": list(pod.gates),
        "restarts": sum(c.restarts for c in pod.containers),
        "unscheduled": pod.unscheduled,
    }
