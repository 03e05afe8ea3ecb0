"""Stand-ins for everything below Kueue: job controllers, scheduler, kubelets, and the autoscaler,
whose core is the local cluster's own (`e2e.pools`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from e2e.pools.decide import decide
from e2e.pools.parse import parse_node, parse_pod, parse_request, parse_template
from e2e.pools.perform import perform
from e2e.pools.settings import Settings
from e2e.pools.state import HELD_ANNOTATION, Memory, Seen
from taugrid_ray import names, quantity
from taugrid_ray.errors import Conflict
from taugrid_ray.kinds.meta import format_time, parse_time
from taugrid_ray.kinds.resource import (
    JOB,
    NODE,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    RAY_JOB,
    Obj,
    Resource,
)
from tests.fake_kube import FakeKube
from tests.sim.kueue import JOB_KINDS, has_ended

LOOP_S = 10.0
"""Cluster Autoscaler's scan interval."""


class Autoscaler:
    def __init__(self, kube: FakeKube, settings: Settings) -> None:
        self._kube = kube
        self.settings = settings
        self._memory = Memory(seed="sim")
        self.due_s = kube.clock.now_s()
        self._parsed: dict[str, Any] = {}

    def _read(self, kind: Resource, parse: Callable[[Obj], Any]) -> list[Any]:
        """Parsed objects; each state of each is parsed once."""
        found = []
        for obj in self._kube.peek(kind):
            version = obj["metadata"]["resourceVersion"]
            if version not in self._parsed:
                self._parsed[version] = parse(obj)
            found.append(self._parsed[version])
        return found

    def step(self) -> None:
        now_s = self._kube.clock.now_s()
        if now_s < self.due_s:
            return
        kube = self._kube
        idle = (
            not kube.peek(PROVISIONING_REQUEST) and not kube.peek(POD) and not self._memory.orders
        )
        if idle and len(kube.peek(NODE)) == 1:
            self.due_s = now_s + LOOP_S
            return
        nodes = [n for n in self._read(NODE, parse_node) if n.pool]
        seen = Seen(
            nodes=tuple(nodes),
            pods=tuple(self._read(POD, parse_pod)),
            requests=tuple(self._read(PROVISIONING_REQUEST, parse_request)),
            templates={
                (t["metadata"]["namespace"], t["metadata"]["name"]): shape
                for t, shape in zip(
                    kube.peek(POD_TEMPLATE), self._read(POD_TEMPLATE, parse_template), strict=True
                )
            },
        )
        decision = decide(seen, self._memory, self.settings, now_s)
        self._memory = decision.memory
        for action in decision.actions:
            try:
                perform(kube, action)
            except Conflict:
                continue
        self.due_s = now_s if decision.again else now_s + LOOP_S


class Machines:
    """Jobs become pods, pods find nodes and run. A Job ends when each pod ran `seconds`."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self._serial = 0

    def step(self) -> None:
        self._bring_up_nodes()
        for kind in JOB_KINDS:
            for job in self._kube.peek(kind):
                self._job(kind, job)
        self._kube.collect_garbage()
        self._run_pods()

    def next_due_s(self) -> float:
        """Seconds until a pod that runs will be done."""
        now_s = self._kube.clock.now_s()
        left = [
            _done_s(pod) - now_s
            for pod in self._kube.peek(POD)
            if pod["status"].get("phase") == "Running"
        ]
        return max(0.0, min(left, default=1e9))

    def lose_node(self, rng: random.Random) -> None:
        """A machine dies: its node goes, and the pods on it."""
        nodes = [n for n in self._kube.peek(NODE) if n["metadata"]["name"] != "static"]
        if not nodes:
            return
        name = rng.choice(nodes)["metadata"]["name"]
        self._kube.delete(NODE, name)
        for pod in self._kube.peek(POD):
            if pod["spec"].get("nodeName") == name:
                meta = pod["metadata"]
                self._kube.delete(POD, meta["name"], meta["namespace"], grace_s=0)

    # Nodes

    def _bring_up_nodes(self) -> None:
        now = format_time(self._kube.clock.now_s())
        for node in self._kube.peek(NODE):
            held = HELD_ANNOTATION in (node["metadata"].get("annotations") or {})
            conditions = (node.get("status") or {}).get("conditions") or [{"status": "False"}]
            if held or conditions[0]["status"] == "True":
                continue
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            body = {"status": {"conditions": [ready]}}
            self._kube.patch(NODE, node["metadata"]["name"], body, sub="status")

    # Jobs

    def _job(self, kind: Resource, job: Obj) -> None:
        if has_ended(job):
            return
        uid = job["metadata"]["uid"]
        pods = [
            p
            for p in self._kube.peek(POD)
            if p["metadata"]["ownerReferences"][0]["uid"] == uid
            and "deletionTimestamp" not in p["metadata"]
        ]
        if job["spec"]["suspend"]:
            for pod in pods:
                self._kube.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
            return
        done = [p for p in pods if p["status"].get("phase") == "Succeeded"]
        running = [p for p in pods if p["status"].get("phase") == "Running"]
        total = sum(s["count"] for s in job["spec"]["sets"])
        if len(done) == total:
            self._end(kind, job)
            return
        if kind == RAY_JOB:
            self._ray_status(job, all_run=len(running) + len(done) == total)
        for pod_set in job["spec"]["sets"]:
            there = [p for p in pods if p["spec"]["set"] == pod_set["name"]]
            for _ in range(pod_set["count"] - len(there)):
                self._make_pod(kind, job, pod_set)

    def _ray_status(self, job: Obj, *, all_run: bool) -> None:
        before = (job.get("status") or {}).get("jobStatus", "")
        now = "RUNNING" if all_run or before == "RUNNING" else "PENDING"
        if now != before:
            self._status(RAY_JOB, job, {"jobDeploymentStatus": "Running", "jobStatus": now})

    def _end(self, kind: Resource, job: Obj) -> None:
        if kind == JOB:
            now = format_time(self._kube.clock.now_s())
            done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
            self._status(kind, job, {"conditions": [done]})
        else:
            self._status(kind, job, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"})

    def _status(self, kind: Resource, job: Obj, status: Obj) -> None:
        meta = job["metadata"]
        self._kube.patch(kind, meta["name"], {"status": status}, meta["namespace"], sub="status")

    def _make_pod(self, kind: Resource, job: Obj, pod_set: Obj) -> None:
        self._serial += 1
        meta, template = job["metadata"], pod_set["template"]
        owner = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        spec = {**template["spec"], "set": pod_set["name"], "seconds": job["spec"]["seconds"]}
        pod = {
            "metadata": {
                "name": f"{meta['name']}-{pod_set['name']}-{self._serial}",
                "labels": {
                    **template["metadata"].get("labels", {}),
                    names.POD_SET: pod_set["name"],
                },
                "annotations": template["metadata"].get("annotations", {}),
                "ownerReferences": [owner],
            },
            "spec": spec,
        }
        self._kube.create(POD, pod, meta["namespace"])

    # Pods

    def _run_pods(self) -> None:
        nodes = {n["metadata"]["name"]: n for n in self._kube.peek(NODE)}
        pods = self._kube.peek(POD)
        free = {name: _offers(node) for name, node in nodes.items()}
        for pod in pods:
            name = pod["spec"].get("nodeName")
            if name in free and pod["status"].get("phase") != "Succeeded":
                _take(free[name], _asks(pod))
        for pod in pods:
            self._pod(pod, nodes, free)

    def _pod(self, pod: Obj, nodes: dict[str, Obj], free: dict[str, dict[str, Fraction]]) -> None:
        meta, status = pod["metadata"], pod["status"]
        now_s = self._kube.clock.now_s()
        if "deletionTimestamp" in meta:
            self._kube.delete(POD, meta["name"], meta["namespace"], grace_s=0)
        elif not pod["spec"].get("nodeName"):
            self._bind(pod, nodes, free)
        elif status.get("phase") == "Pending":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(now_s)}
            more = {"startTime": format_time(now_s), "conditions": [ready]}
            self._pod_status(pod, {"phase": "Running", **more})
        elif status["phase"] == "Running" and now_s >= _done_s(pod):
            self._pod_status(pod, {"phase": "Succeeded"})

    def _bind(self, pod: Obj, nodes: dict[str, Obj], free: dict[str, dict[str, Fraction]]) -> None:
        asks, meta = _asks(pod), pod["metadata"]
        pool = pod["spec"]["nodeSelector"]["pool"]
        for name, node in nodes.items():
            if node["metadata"]["labels"].get("pool") != pool or not _is_ready(node):
                continue
            if all(free[name].get(k, Fraction(0)) >= v for k, v in asks.items()):
                _take(free[name], asks)
                body = {"spec": {"nodeName": name}}
                self._kube.patch(POD, meta["name"], body, meta["namespace"])
                return
        if not pod["status"].get("conditions"):
            no = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._pod_status(pod, {"conditions": [no]})

    def _pod_status(self, pod: Obj, status: Obj) -> None:
        meta = pod["metadata"]
        self._kube.patch(POD, meta["name"], {"status": status}, meta["namespace"], sub="status")


def _done_s(pod: Obj) -> float:
    started_s: float = parse_time(pod["status"]["startTime"])
    return started_s + float(pod["spec"]["seconds"])


def _is_ready(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


_amount = lru_cache(quantity.parse)


def _offers(node: Obj) -> dict[str, Fraction]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {name: _amount(text) for name, text in allocatable.items()}


def _asks(pod: Obj) -> dict[str, Fraction]:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return {name: _amount(text) for name, text in requests.items()}


def _take(free: dict[str, Fraction], asks: dict[str, Fraction]) -> None:
    for name, amount in asks.items():
        free[name] = free.get(name, Fraction(0)) - amount
