"""What a scenario is given: a namespace, queues and pools of its own, and eyes on the cluster.

Scenarios share a cluster one after the other; everything of one carries its name, so that what it
leaves behind can be found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e import installation
from e2e.cluster import Cluster
from e2e.cluster.extras import CONTROLLER
from e2e.scenarios.record import Record
from taugrid_ray import names
from taugrid_ray.errors import NotFound, TaugridError
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.conditions import is_true, parse_conditions
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.provisioning_request import (
    ProvisioningRequest,
    parse_provisioning_request,
)
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kinds.workload import Check, Workload, parse_workload
from taugrid_ray.kube.api import KubeApi, Patch, list_all
from taugrid_ray.memory import Memory, parse_memory

QUICK_SCALING: Mapping[str, object] = {
    "scaleDownUnneededSeconds": 2,
    "scaleDownDelayAfterAddSeconds": 2,
    "initialBackoffSeconds": 2,
    "maxBackoffSeconds": 4,
    "initialPoolBackoffSeconds": 2,
    "maxPoolBackoffSeconds": 4,
}
"""A cloud that lets go quickly, so that a scenario need not take twenty minutes."""


class Failed(TaugridError):
    """A scenario that did not go as it should."""


@dataclass
class Stage:
    """One scenario's own piece of the cluster."""

    name: str
    cluster: Cluster
    record: Record
    started_at_s: float = field(default_factory=time.time)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)
    mark: int = 0
    provision_s: float = 900.0
    figures: dict[str, float] = field(default_factory=dict)
    _made: list[tuple[Resource, str]] = field(default_factory=list)

    @property
    def api(self) -> KubeApi:
        return self.cluster.api

    @property
    def namespace(self) -> str:
        return f"s-{self.name}"

    @property
    def check(self) -> str:
        return self.own("check")

    @property
    def queue(self) -> str:
        return "queue"

    def own(self, name: str) -> str:
        """The cluster-wide name of something of this scenario's."""
        return f"{self.name}-{name}"

    # The story

    def say(self, text: str) -> None:
        self.timeline.append((time.time() - self.started_at_s, text))

    def expect(self, holds: object, otherwise: str) -> None:
        if not holds:
            raise Failed(otherwise)

    def wait_for(self, what: str, holds: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """The first true answer of `holds`, asked again after every change in the cluster."""
        answer = self.record.wait_until(holds, timeout_s)
        if not answer:
            raise Failed(f"waited {timeout_s:.0f} s in vain until {what}")
        self.say(what)
        return answer

    def never(self, what: str, holds: Callable[[], Any], for_s: float) -> None:
        """Watch for `for_s` seconds that something does not happen."""
        if self.record.wait_until(holds, for_s):
            raise Failed(f"happened within {for_s:.0f} s, and must not: {what}")
        self.say(f"not within {for_s:.0f} s: {what}")

    # Setting up

    def create(self, kind: Resource, obj: Obj) -> Obj:
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        if kind.namespaced:
            full["metadata"] = {"namespace": self.namespace, **full["metadata"]}
        made = self.api.create(kind, full, self.namespace if kind.namespaced else None)
        if not kind.namespaced:
            self._made.append((kind, full["metadata"]["name"]))
        return made

    def open(self) -> None:
        self.mark = self.record.mark()
        self.create(kinds.NAMESPACE, {"metadata": {"name": self.namespace}})

    def pool(self, name: str = "cpu", *, max_: int = 5, **settings: Any) -> Obj:
        """A pool of 4-CPU nodes; label `pool` = the scenario's own name for it."""
        allocatable = settings.pop("allocatable", {"cpu": "4", "memory": "16Gi", "pods": "110"})
        return {
            "name": self.own(name)[:40].strip("-"),
            "max": max_,
            "node": {"labels": {"pool": self.own(name)}, "allocatable": allocatable},
            "kind": self.cluster.nodes.value,
            **settings,
        }

    def pools(self, *pools: Obj, **autoscaler: Any) -> None:
        installation.set_pools(self.cluster, list(pools), {**QUICK_SCALING, **autoscaler})

    def policy(self, **spec: Any) -> None:
        """The CapacityPolicy and the AdmissionCheck that names it."""
        quick = {"provision": 60, "nodes": 60, "accelerators": 60, "pods": 60}
        deadlines = {**quick, **spec.pop("deadlines", {})}
        self.provision_s = float(deadlines["provision"])
        full = {
            "managedResources": ["cpu"],
            "backoff": {"baseSeconds": 3, "maxSeconds": 10},
            "deadlines": deadlines,
            **spec,
        }
        self.create(kinds.CAPACITY_POLICY, {"metadata": {"name": self.own("policy")}, "spec": full})
        self.create(
            kinds.ADMISSION_CHECK,
            {
                "metadata": {"name": self.check},
                "spec": {
                    "controllerName": names.CONTROLLER,
                    "parameters": {
                        "apiGroup": kinds.CAPACITY_POLICY.group,
                        "kind": kinds.CAPACITY_POLICY.kind,
                        "name": self.own("policy"),
                    },
                },
            },
        )

    def queues(
        self,
        flavors: Sequence[tuple[str, Mapping[str, str]]] = (("cpu", {"cpu": "100"}),),
        *,
        checks: Sequence[Obj] | None = None,
        **cluster_queue: Any,
    ) -> None:
        """One ClusterQueue with these flavors (name, quota by resource), and a LocalQueue.

        A flavor's nodes carry the label `pool` of the same name: to a flavor without labels Kueue
        gives any pod, whatever node it selects. checks: admissionChecks of the
        queue; by default ours, for all flavors.
        """
        resources = sorted({r for _, quota in flavors for r in quota} | {"memory"})
        for name, _ in flavors:
            self.create(
                kinds.RESOURCE_FLAVOR,
                {
                    "metadata": {"name": self.own(name)},
                    "spec": {"nodeLabels": {"pool": self.own(name)}},
                },
            )
        rules = [{"name": self.check}] if checks is None else list(checks)
        self.create(
            kinds.CLUSTER_QUEUE,
            {
                "metadata": {"name": self.own("queue")},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": resources,
                            "flavors": [
                                {
                                    "name": self.own(name),
                                    "resources": [
                                        {
                                            "name": r,
                                            "nominalQuota": quota.get(
                                                r, "1000Gi" if r == "memory" else "0"
                                            ),
                                        }
                                        for r in resources
                                    ],
                                }
                                for name, quota in flavors
                            ],
                        }
                    ],
                    **({"admissionChecksStrategy": {"admissionChecks": rules}} if rules else {}),
                    **cluster_queue,
                },
            },
        )
        self.create(
            kinds.LOCAL_QUEUE,
            {"metadata": {"name": self.queue}, "spec": {"clusterQueue": self.own("queue")}},
        )

    # Looking

    def workload(self, job: str) -> Workload | None:
        """The newest Workload of the Job or RayJob of this name."""
        found = [
            w
            for obj in self.record.all(kinds.WORKLOAD, self.namespace)
            if (w := parse_workload(obj)).job is not None and w.job.name == job
        ]
        return max(found, key=lambda w: w.meta.created_at_s or 0.0, default=None)

    def our_check(self, job: str) -> Check | None:
        workload = self.workload(job)
        return workload.check(self.check) if workload else None

    def memory(self, job: str) -> Memory:
        workload = self.workload(job)
        notes = workload.meta.annotations if workload else {}
        return parse_memory(notes.get(names.MEMORY))

    def requests(self) -> list[ProvisioningRequest]:
        return [
            parse_provisioning_request(o)
            for o in self.record.all(kinds.PROVISIONING_REQUEST, self.namespace)
        ]

    def templates(self) -> list[str]:
        return [
            parse_meta(o).name
            for o in self.record.all(kinds.POD_TEMPLATE, self.namespace)
            if parse_meta(o).labels.get(names.MANAGED_BY) == names.MANAGED_BY_US
        ]

    def pods(self) -> list[Obj]:
        return self.record.all(kinds.POD, self.namespace)

    def nodes(self, pool: str = "cpu") -> list[Obj]:
        return [
            n
            for n in self.record.all(kinds.NODE)
            if parse_meta(n).labels.get("pool") == self.own(pool)
        ]

    def job_is(self, kind: Resource, name: str, condition: str) -> bool:
        obj = self.record.get(kind, name, self.namespace)
        return obj is not None and is_true(parse_conditions(obj), condition)

    def events(self, reason: str) -> list[Obj]:
        return [
            e
            for e in self.record.all(kinds.EVENT, self.namespace)
            if e.get("reason") == reason and e.get("reportingController") == names.CONTROLLER
        ]

    def nothing_of_ours(self) -> bool:
        return not self.requests() and not self.templates()

    # Acting

    def delete(self, kind: Resource, name: str) -> None:
        self.api.delete(kind, name, self.namespace)

    def patch(
        self, kind: Resource, name: str, body: Any, *, sub: str = "", how: Patch = Patch.MERGE
    ) -> Obj:
        return self.api.patch(kind, name, body, self.namespace, sub=sub, how=how)

    @contextmanager
    def controller_down(self) -> Iterator[None]:
        """SIGKILL now, start again at the end of the block."""
        from_s = time.time()
        self.cluster.kill_part(CONTROLLER.name)
        self.say("controller killed (SIGKILL)")
        try:
            yield
        finally:
            self.cluster.start_part_again(CONTROLLER.name)
            self.down.append((from_s, time.time()))
            self.say("controller started again")

    # Cleaning up

    def close(self) -> list[str]:
        """Take everything of this scenario away; what is still there after a minute, as text."""
        for kind in (kinds.JOB, kinds.RAY_JOB, kinds.RAY_CLUSTER):
            for obj in list_all(self.api, kind, self.namespace):
                self._gone(kind, obj["metadata"]["name"], self.namespace)
        self.record.wait_until(lambda: not self._left(), 20.0)
        left = self._left()
        # Not before: a pod whose node went first waits for somebody to say that it has ended.
        self.pools()
        for node in [*self.record.all(kinds.NODE)]:
            if parse_meta(node).labels.get("pool", "").startswith(f"{self.name}-"):
                self._gone(kinds.NODE, parse_meta(node).name, None)
        self._gone(kinds.NAMESPACE, self.namespace, None)
        for kind, name in reversed(self._made):
            self._gone(kind, name, None)
        return left

    def _left(self) -> list[str]:
        watched = (
            kinds.PROVISIONING_REQUEST,
            kinds.POD_TEMPLATE,
            kinds.WORKLOAD,
            kinds.POD,
            kinds.RAY_CLUSTER,
        )
        return [
            f"{kind.kind} {parse_meta(obj).name}"
            for kind in watched
            for obj in self.record.all(kind, self.namespace)
        ]

    def _gone(self, kind: Resource, name: str, namespace: str | None) -> None:
        try:
            self.api.delete(kind, name, namespace)
        except NotFound:
            return
