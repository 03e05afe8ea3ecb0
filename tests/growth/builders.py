"""One running Ray cluster at one moment, short to write; everything goes through the parsers.

A `Cluster` has one admitted slice, a head that runs, and per group how many workers run and how
many wait behind our gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controllers.actions import Action, Create, Decision, Release, SetGroups
from controllers.gang.jobs import parse_ray_job
from controllers.growth.decide import decide
from controllers.growth.seen import SeenGrowth
from taugrid_ray import names
from taugrid_ray.growth_memory import GrowthMemory, format_growth_memory
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.pod import Pod, parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.queues import parse_resource_flavor
from taugrid_ray.kinds.raycluster import parse_raycluster
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST, Obj
from taugrid_ray.kinds.workload import parse_workload
from tests.controllers.builders import (
    CHECK,
    CLASS,
    NOW_S,
    RESERVED_S,
    answered,
    condition,
    flavor,
    pod_template,
    policy,
    shown,
    with_uid,
)

SLICE_UID, CLUSTER_UID, JOB_UID = "slice-uid", "cluster-uid", "job-uid"
POLICY = policy(growth={"deadline": 60, "cooldown": {"baseSeconds": 10, "maxSeconds": 100}})


@dataclass(frozen=True)
class Group:
    name: str = "small"
    replicas: int = 1
    count: int | None = None
    """Of the slice, in pods; default: what `replicas` make."""
    running: int = 1
    gated: int = 0
    most: int = 10
    least: int = 0
    hosts: int = 1
    flavor: str = "pool"

    @property
    def counted(self) -> int:
        return self.replicas * self.hosts if self.count is None else self.count


def worker(
    name: str, group: str, *, gates: Iterable[str] = (), booking: str = "", **more: Any
) -> Obj:
    notes = {names.CONSUME: booking, names.CONSUME_CLASS: CLASS} if booking else {}
    labels = {
        names.RAY_CLUSTER_LABEL: "ray",
        names.RAY_GROUP_LABEL: group,
        names.RAY_NODE_TYPE: "worker",
        names.POD_SET: group.lower(),
        **more.pop("labels", {}),
    }
    spec = {"nodeName": more.pop("node", ""), "schedulingGates": [{"name": g} for g in gates]}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "3",
            "labels": labels,
            "annotations": notes,
            **more.pop("meta", {}),
        },
        "spec": spec,
        "status": {"phase": more.pop("phase", "Pending")},
    }


def head(**more: Any) -> Obj:
    labels = {names.RAY_NODE_TYPE: "head", names.POD_SET: "head"}
    more = {"node": "n0", "phase": "Running", **more}
    return worker("head", "headgroup", labels=labels, **more)


@dataclass(frozen=True)
class Cluster:
    groups: tuple[Group, ...] = (Group(),)
    memory: GrowthMemory | None = None
    check: str = "Pending"
    message: str = ""
    admitted: bool = False
    kueue_holds: bool = False
    """Do the gated pods carry Kueue's gate as well?"""
    job: Obj = field(default_factory=lambda: {"spec": {"suspend": False}})
    requests: tuple[Obj, ...] = ()
    templates: tuple[Obj, ...] = ()
    more_pods: tuple[Obj, ...] = ()
    has_head: bool = True
    seen: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> Cluster:
        return replace(self, **changes)

    def looks(self, **seen: Any) -> Cluster:
        return replace(self, seen={**self.seen, **seen})

    def pods(self) -> tuple[Pod, ...]:
        gates = (names.GATE, *((names.ELASTIC,) if self.kueue_holds else ()))
        found = [head()] if self.has_head else []
        for g in self.groups:
            found += [
                worker(f"{g.name}-run-{i}", g.name, node="n1", phase="Running")
                for i in range(g.running)
            ]
            found += [worker(f"{g.name}-wait-{i}", g.name, gates=gates) for i in range(g.gated)]
        return tuple(map(parse_pod, (*found, *self.more_pods)))

    def cluster(self) -> Obj:
        notes = {names.ELASTIC: "true"}
        if self.memory is not None:
            notes[names.GROWTH] = format_growth_memory(self.memory)
        groups = [
            {
                "groupName": g.name,
                "replicas": g.replicas,
                "minReplicas": g.least,
                "maxReplicas": g.most,
                "numOfHosts": g.hosts,
            }
            for g in self.groups
        ]
        meta = {"name": "ray", "namespace": "team", "uid": CLUSTER_UID, "resourceVersion": "9"}
        return {
            "metadata": {**meta, "annotations": notes},
            "spec": {"enableInTreeAutoscaling": True, "workerGroupSpecs": groups},
        }

    def workload(self) -> Obj:
        sets = [("head", 1, "static"), *((g.name, g.counted, g.flavor) for g in self.groups)]
        conditions = [condition(wl.QUOTA_RESERVED, RESERVED_S)]
        if self.admitted:
            conditions.append(condition(wl.ADMITTED, NOW_S))
        return {
            "metadata": {
                "name": "slice",
                "namespace": "team",
                "uid": SLICE_UID,
                "resourceVersion": "7",
                "annotations": {names.ELASTIC: "true"},
                "ownerReferences": [
                    {
                        "apiVersion": "ray.io/v1",
                        "kind": "RayJob",
                        "name": "train",
                        "uid": JOB_UID,
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "podSets": [
                    {"name": name, "count": count, "template": pod_template()}
                    for name, count, _ in sets
                ]
            },
            "status": {
                "conditions": conditions,
                "admission": {
                    "clusterQueue": "queue",
                    "podSetAssignments": [
                        {"name": name, "count": count, "flavors": {"cpu": of}}
                        for name, count, of in sets
                    ],
                },
                "admissionChecks": [{"name": CHECK, "state": self.check, "message": self.message}],
            },
        }

    def seen_now(self) -> SeenGrowth:
        flavors = {f for g in self.groups for f in (g.flavor, "static")}
        meta = {"name": "train", "namespace": "team", "uid": JOB_UID}
        found = SeenGrowth(
            cluster=parse_raycluster(self.cluster()),
            job=parse_ray_job({"metadata": meta, **self.job}),
            current=parse_workload(self.workload()),
            check=CHECK,
            on_flavors=tuple(sorted(flavors - {"static"})),
            policy=POLICY,
            flavors={f: parse_resource_flavor(flavor(f, {"pool": f})) for f in flavors},
            pods=self.pods(),
            requests=tuple(map(parse_provisioning_request, self.requests)),
            templates=tuple(map(parse_meta, self.templates)),
        )
        return replace(found, **self.seen)

    def decides(self, now_s: float = NOW_S) -> Decision:
        return decide(self.seen_now(), now_s)

    def asked(self, at_s: float = NOW_S, *answers: Obj) -> Cluster:
        """After its creates were carried out; `answers`: conditions on every request."""
        made = [a for a in self.decides(at_s).actions if isinstance(a, Create)]
        return replace(
            self,
            requests=self.requests
            + tuple(
                answered(a.obj, at_s, *answers) for a in made if a.kind == PROVISIONING_REQUEST
            ),
            templates=self.templates
            + tuple(with_uid(a.obj, at_s) for a in made if a.kind == POD_TEMPLATE),
        )

    def answered(self, *answers: Obj, only: int | None = None) -> Cluster:
        requests = tuple(
            {**r, "status": {"conditions": list(answers)}} if only in (None, place) else r
            for place, r in enumerate(self.requests)
        )
        return replace(self, requests=requests)


def counts(decision: Decision) -> list[dict[str, int]]:
    """By pod set name, of each request that is made."""
    import json

    return [
        json.loads(a.obj["metadata"]["annotations"][names.COUNTS])
        for a in decision.actions
        if isinstance(a, Create) and a.kind == PROVISIONING_REQUEST
    ]


def released(decision: Decision) -> dict[str, str]:
    """Pod -> the booking whose name it gets."""
    return {
        pod.pod.name: pod.booking
        for a in decision.actions
        if isinstance(a, Release)
        for pod in a.pods
    }


def groups_set(decision: Decision) -> SetGroups | None:
    found = [a for a in decision.actions if isinstance(a, SetGroups)]
    assert len(found) <= 1
    return found[0] if found else None


def words(decision: Decision) -> list[str]:
    """Actions as short words."""

    def word(action: Action) -> list[str]:
        if isinstance(action, Release):
            return [f"release {len(action.pods)}"]
        if isinstance(action, SetGroups):
            fields = [
                f"{g.name} {key}={value}"
                for g in action.groups
                for key, value in (
                    ("max", g.max_replicas),
                    ("min", g.min_replicas),
                    ("replicas", g.replicas),
                    ("delete", g.workers_to_delete),
                )
                if value is not None
            ]
            return [f"set {', '.join(fields) or 'memory'}"]
        return shown([action])

    return [w for action in decision.actions for w in word(action)]
