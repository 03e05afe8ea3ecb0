"""ray.io/v1 RayJob: its two states (the deployment's and the program's), and what they mean.

There are no conditions. `jobDeploymentStatus` is the operator's state machine, `jobStatus` is Ray's
word for the program; the two move separately, and either may hold a word of a later version.

Source: ray-project/kuberay, ray-operator/apis/ray/v1/rayjob_types.go, v1.6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from taugrid_ray import names
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import ObjectMeta, parse_meta, time_at
from taugrid_ray.kinds.resource import Obj

CLUSTER_SELECTOR = "ray.io/cluster"
OPERATOR = "ray.io/kuberay-operator"
SUBMITTER_POD_SET = "submitter"
"""Kueue's name for the pod that hands the program over in K8sJobMode."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


class SubmissionMode(str, Enum):
    """Who hands the program to Ray."""

    K8S_JOB = "K8sJobMode"
    """A submitter pod of its own; the default."""
    HTTP = "HTTPMode"
    SIDECAR = "SidecarMode"
    """A container in the head pod."""
    INTERACTIVE = "InteractiveMode"
    """Somebody else, later."""


NEW = ""
INITIALIZING, RUNNING, WAITING = "Initializing", "Running", "Waiting"
COMPLETE, FAILED, VALIDATION_FAILED = "Complete", "Failed", "ValidationFailed"
SUSPENDING, SUSPENDED, RETRYING = "Suspending", "Suspended", "Retrying"

JOB_PENDING, JOB_RUNNING = "PENDING", "RUNNING"
JOB_STOPPED, JOB_SUCCEEDED, JOB_FAILED = "STOPPED", "SUCCEEDED", "FAILED"


@dataclass(frozen=True, slots=True)
class RayJob:
    meta: ObjectMeta
    suspend: bool
    submission_mode: str
    entrypoint: str
    cluster_selector: Mapping[str, str]
    shuts_down: bool
    """`shutdownAfterJobFinishes`: the cluster goes when the job ends."""
    is_autoscaling: bool
    managed_by: str
    spec_job_id: str
    deployment_status: str
    job_status: str
    reason: str
    message: str
    job_id: str
    cluster_name: str
    """The RayCluster of this try; a retry makes another."""
    cluster_state: str
    dashboard_url: str
    failed_tries: int
    started_at_s: float | None
    ended_at_s: float | None
    """When the deployment ended, retries included."""

    @property
    def is_elastic(self) -> bool:
        return self.meta.annotations.get(names.ELASTIC) == "true"

    @property
    def uses_existing_cluster(self) -> bool:
        """Such a job brings no pods but its submitter, and Kueue leaves it alone."""
        return bool(self.cluster_selector)

    @property
    def is_suspended(self) -> bool:
        """Suspended and nothing of it left: `Suspending` is not there yet."""
        return self.suspend and self.deployment_status in (NEW, SUSPENDED)

    @property
    def is_finished(self) -> bool:
        """Ended for good. `ValidationFailed` is: KubeRay never looks at the spec again."""
        return self.deployment_status in (COMPLETE, FAILED, VALIDATION_FAILED)

    @property
    def has_failed(self) -> bool:
        if self.deployment_status in (FAILED, VALIDATION_FAILED):
            return True
        return self.is_finished and self.job_status == JOB_FAILED

    @property
    def was_stopped(self) -> bool:
        """Stopped by somebody: KubeRay calls that Complete."""
        return self.is_finished and self.job_status == JOB_STOPPED

    @property
    def entrypoint_started(self) -> bool:
        """Has Ray begun to run the program in this try?"""
        return self.job_status in (JOB_RUNNING, JOB_STOPPED, JOB_SUCCEEDED, JOB_FAILED)


def parse_rayjob(obj: Obj) -> RayJob:
    spec, status = fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    return RayJob(
        meta=parse_meta(obj),
        suspend=fields.is_true(spec, "suspend"),
        submission_mode=fields.text(spec, "submissionMode") or SubmissionMode.K8S_JOB.value,
        entrypoint=fields.text(spec, "entrypoint"),
        cluster_selector=fields.string_map(spec, "clusterSelector"),
        shuts_down=fields.is_true(spec, "shutdownAfterJobFinishes"),
        is_autoscaling=fields.is_true(spec, "rayClusterSpec", "enableInTreeAutoscaling"),
        managed_by=fields.text(spec, "managedBy"),
        spec_job_id=fields.text(spec, "jobId"),
        deployment_status=fields.text(status, "jobDeploymentStatus"),
        job_status=fields.text(status, "jobStatus"),
        reason=fields.text(status, "reason"),
        message=fields.text(status, "message"),
        job_id=fields.text(status, "jobId"),
        cluster_name=fields.text(status, "rayClusterName"),
        cluster_state=fields.text(status, "rayClusterStatus", "state"),
        dashboard_url=fields.text(status, "dashboardURL"),
        failed_tries=fields.integer(status, "failed") or 0,
        started_at_s=time_at(status, "startTime"),
        ended_at_s=time_at(status, "endTime"),
    )
