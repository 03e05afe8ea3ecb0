"""Every label, annotation, gate and name that we create, and their length limits.

Names are deterministic, so that a second create of the same thing answers AlreadyExists; nothing
is ever read back out of a name. What somebody must know about an object stands in a label or an
annotation.
"""

from __future__ import annotations

import hashlib
import re

CONTROLLER = "taugrid.io/capacity"
"""Our AdmissionCheck's controllerName; also the pod scheduling gate of elastic groups."""
BUILTIN_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
"""Kueue's own provisioning check: where it stands on a queue, we stand back."""

GATE = "taugrid.io/capacity"
FIELD_MANAGER = "taugrid-ray"

# On everything we create.
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_US = "taugrid-ray"
WORKLOAD_UID = "taugrid.io/workload-uid"
ATTEMPT = "taugrid.io/attempt"

# On our ProvisioningRequests and PodTemplates, beside those.
SERIAL = "taugrid.io/serial"
POOL = "taugrid.io/pool"
SPEC_HASH = "taugrid.io/spec-hash"
RESERVATION = "taugrid.io/reservation"
"""When Kueue reserved the quota that this booking belongs to: a new reservation is a new
booking.
"""
COUNTS = "taugrid.io/counts"
"""JSON: pods by pod set name; a request's own pod sets bear no names."""
CLUSTER_UID = "taugrid.io/cluster-uid"
"""Label on what growth asks for: the RayCluster it belongs to, whatever slice stands for it."""
ASKED_AT = "taugrid.io/asked-at"
"""When this attempt first asked; a request made anew in the same attempt keeps it (the provision
clock goes on).
"""

# On a Workload that we parked, and on one that we un-parked: the only memory of attempts.
MEMORY = "taugrid.io/capacity"

MANIFEST = "taugrid.io/manifest"
"""On a Job or RayJob that `taugrid run` made: the hash of what was sent, so that the same file is
known again.
"""

GROWTH = "taugrid.io/growth"
"""On a RayCluster: what we remember of its growth, lowered limits included."""

# Set by a user on the Job or RayJob.
PROVISION_DEADLINE = "taugrid.io/provision-deadline-seconds"

# On pods, read by Cluster Autoscaler.
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CONSUME_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"

# Kueue's words on jobs and pods.
QUEUE = "kueue.x-k8s.io/queue-name"
POD_SET = "kueue.x-k8s.io/podset"
ELASTIC = "kueue.x-k8s.io/elastic-job"
SLICE_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
JOB_UID = "kueue.x-k8s.io/job-uid"
"""On each Workload: the uid of its job."""

# The Job controller's words on pods.
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"

# KubeRay's words on pods.
RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_GROUP_LABEL = "ray.io/group"
RAY_REPLICA = "ray.io/worker-group-replica-name"
RAY_NODE_TYPE = "ray.io/node-type"

NAME_MAX = 253
LABEL_MAX = 63

_UNSAFE = re.compile(r"[^a-z0-9-]+")


def digest(*parts: str, length: int = 10) -> str:
    """A short stable hash of the parts; hex, lower case."""
    joined = "\x1f".join(parts).encode()
    return hashlib.sha256(joined).hexdigest()[:length]


def safe(text: str, *, length: int = 40) -> str:
    """`text` as a piece of an object name: lower case, digits and dashes, at most `length` long;
    never empty.
    """
    cleaned = _UNSAFE.sub("-", text.lower()).strip("-")[:length].strip("-")
    return cleaned or "x"
