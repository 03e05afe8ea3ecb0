"""Where a kind lives on the API server, and the plain JSON that travels.

Nobody else spells a group, a version or a plural: `test_tidy` looks for such literals outside
`kinds/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
"""One object as JSON. Never changed in place once it came from a store or from the wire."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind's address: `/apis/GROUP/VERSION/[namespaces/NS/]PLURAL[/NAME]`."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """The URL path. `namespace=None` on a namespaced kind means all namespaces (list,
        watch).
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if sub:
            parts.append(sub)
        return "/" + "/".join(parts)


NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
POD = Resource("", "v1", "Pod", "pods")
POD_TEMPLATE = Resource("", "v1", "PodTemplate", "podtemplates")
SERVICE = Resource("", "v1", "Service", "services")
ENDPOINTS = Resource("", "v1", "Endpoints", "endpoints")
SECRET = Resource("", "v1", "Secret", "secrets")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
LIMIT_RANGE = Resource("", "v1", "LimitRange", "limitranges")
JOB = Resource("batch", "v1", "Job", "jobs")
EVENT = Resource("events.k8s.io", "v1", "Event", "events")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
CRD = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False)

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTER = Resource("ray.io", "v1", "RayCluster", "rayclusters")

WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
LOCAL_QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
CLUSTER_QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", False)
RESOURCE_FLAVOR = Resource("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", False)
ADMISSION_CHECK = Resource("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks", False)
PROVISIONING_REQUEST_CONFIG = Resource(
    "kueue.x-k8s.io", "v1beta2", "ProvisioningRequestConfig", "provisioningrequestconfigs", False
)
WORKLOAD_PRIORITY_CLASS = Resource(
    "kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", False
)

PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests"
)

CAPACITY_POLICY = Resource(
    "taugrid.io", "v1alpha1", "CapacityPolicy", "capacitypolicies", namespaced=False
)
