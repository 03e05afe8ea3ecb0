"""How long many gangs take from creation to admission, with different checks on the queue.

Each variant gets a new cluster with the same parts: etcd, API server, controller-manager and Kueue
at its release settings. Scheduler, nodes and KubeRay stay out: what happens after admission is
the same for all, and would only blur the difference. The autoscaler stand-in books every request
at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from e2e import installation
from e2e.bench.measure import Figures, Gang, figures
from e2e.cluster import Cluster, Nodes, Settings
from e2e.cluster.settings import Audit, ClusterError
from taugrid_ray import names
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kinds.workload import ADMITTED, Workload, parse_workload
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.delta import Delta, Listed
from taugrid_ray.kube.reflector import Reflector

VARIANTS = ("none", "oracle", "builtin", "ours")
NAMESPACE = "bench"
CREATORS = 16
PATIENCE_S = 600.0
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def run(variant: str, gangs: int, *, progress: Callable[[str], None]) -> Figures:
    """Raises ClusterError where not all gangs were admitted within ten minutes."""
    settings = Settings(
        name=f"bench-{variant}-{os.getpid()}",
        nodes=Nodes.FAKE,
        parts=("kcm", "kueue"),
        audit=Audit.OFF,
        frameworks=("batch/job",),
    )
    progress(f"{variant}: starting a cluster")
    with Cluster.up(settings) as cluster:
        installation.install(cluster, controller=variant == "ours")
        installation.set_pools(cluster, [], {"instant": True})
        _queue(cluster.api, variant)
        if variant == "oracle":
            argv = ("{python}", "-m", "e2e.bench.oracle", "--kubeconfig", "{kubeconfig}")
            cluster.start_part("oracle", (*argv, "--check", variant))
        progress(f"{variant}: creating {gangs} Jobs of three pods")
        return _measure(cluster.api, gangs)


def _queue(api: KubeApi, variant: str) -> None:
    create(api, kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
    create(api, kinds.RESOURCE_FLAVOR, {"metadata": {"name": "cpu"}, "spec": {}})
    if variant == "ours":
        policy = {"managedResources": ["cpu"], "steps": [{"provisioningClassName": CLASS}]}
        create(api, kinds.CAPACITY_POLICY, {"metadata": {"name": variant}, "spec": policy})
        _check(api, variant, names.CONTROLLER, kinds.CAPACITY_POLICY)
    elif variant == "builtin":
        config = {"managedResources": ["cpu"], "provisioningClassName": CLASS}
        create(
            api, kinds.PROVISIONING_REQUEST_CONFIG, {"metadata": {"name": variant}, "spec": config}
        )
        _check(api, variant, names.BUILTIN_CONTROLLER, kinds.PROVISIONING_REQUEST_CONFIG)
    elif variant == "oracle":
        _check(api, variant, "taugrid.io/oracle", None)
    checks = [] if variant == "none" else [{"name": variant}]
    resources = [{"name": name, "nominalQuota": "1000000Gi"} for name in ("cpu", "memory")]
    spec: Obj = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [{"name": "cpu", "resources": resources}],
            }
        ],
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
    create(api, kinds.CLUSTER_QUEUE, {"metadata": {"name": "bench"}, "spec": spec})
    create(
        api,
        kinds.LOCAL_QUEUE,
        {"metadata": {"name": "bench"}, "spec": {"clusterQueue": "bench"}},
    )


def _check(api: KubeApi, name: str, controller: str, parameters: Resource | None) -> None:
    spec: Obj = {"controllerName": controller}
    if parameters is not None:
        spec["parameters"] = {
            "apiGroup": parameters.group,
            "kind": parameters.kind,
            "name": name,
        }
    create(api, kinds.ADMISSION_CHECK, {"metadata": {"name": name}, "spec": spec})
    if parameters is None:
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "it is",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        api.patch(
            kinds.ADMISSION_CHECK, name, {"status": {"conditions": [condition]}}, sub="status"
        )


def create(api: KubeApi, kind: Resource, obj: Obj) -> None:
    full = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    api.create(kind, full, NAMESPACE if kind.namespaced else None)


def _measure(api: KubeApi, gangs: int) -> Figures:
    clock = SystemClock()
    reserved: dict[str, float] = {}
    admitted: dict[str, float] = {}
    complete, over = threading.Event(), threading.Event()

    def take(change: Delta[Workload] | Listed) -> None:
        if isinstance(change, Listed) or change.new is None:
            return
        now_s = clock.monotonic_s()
        if change.new.reservation is not None:
            reserved.setdefault(change.new.uid, now_s)
        if change.new.is_true(ADMITTED):
            admitted.setdefault(change.new.uid, now_s)
        if len(admitted) >= gangs:
            complete.set()

    reflector = Reflector(api, kinds.WORKLOAD, parse_workload, take, clock=clock)

    def follow() -> None:
        while not over.is_set():
            over.wait(reflector.step().wait_s)

    threading.Thread(target=follow, daemon=True).start()
    began_s = clock.monotonic_s()
    with ThreadPoolExecutor(CREATORS) as creators:
        # Consumed, so that a Job that could not be created is an error here and not a timeout.
        list(creators.map(lambda n: create(api, kinds.JOB, _job(f"gang-{n:04}")), range(gangs)))
    if not complete.wait(PATIENCE_S):
        raise ClusterError(f"{len(admitted)} of {gangs} gangs admitted within {PATIENCE_S:.0f} s")
    over.set()
    return figures(began_s, [Gang(reserved[uid], at_s) for uid, at_s in admitted.items()])


def _job(name: str) -> Obj:
    container = {
        "name": "main",
        "image": "example.org/none",
        "resources": {"requests": {"cpu": "1", "memory": "1Mi"}},
    }
    return {
        "metadata": {"name": name, "labels": {names.QUEUE: "bench"}},
        "spec": {
            "suspend": True,
            "parallelism": 3,
            "completions": 3,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
