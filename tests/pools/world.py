"""A cluster in memory: performs what `decide` asks for, and lets time pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from e2e.pools.decide import decide
from e2e.pools.nodes import manifest
from e2e.pools.parse import parse_node, parse_pod_shape
from e2e.pools.settings import Settings, load
from e2e.pools.state import (
    HELD_ANNOTATION,
    Advertise,
    BringUp,
    CreateNode,
    DeleteNode,
    DeleteRequest,
    Memory,
    Node,
    Pod,
    PodSet,
    PodShape,
    Request,
    Seen,
    SetConditions,
)

BEST_EFFORT = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
NOW_S = 1_800_000_000.0

TWO_POOLS = """
pools:
- name: scale
  max: 5
  node: {labels: {pool: scale}, allocatable: {cpu: 4, memory: 16Gi}}
- name: gpu
  max: 2
  node: {labels: {pool: gpu}, allocatable: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}}
"""


def shape(cpu: str = "2", pool: str = "scale", **more: Any) -> PodShape:
    """`more`: keys of a pod spec."""
    container = {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    selector = {"nodeSelector": {"pool": pool}} if pool else {}
    return parse_pod_shape({"containers": [container], **selector, **more})


@dataclass
class World:
    """`boots`: new nodes become Ready by themselves, as kwok makes them."""

    settings: Settings = field(default_factory=lambda: load(TWO_POOLS))
    now_s: float = NOW_S
    seen: Seen = field(default_factory=Seen)
    memory: Memory = field(default_factory=lambda: Memory(seed="test"))
    boots: bool = True
    notes: list[str] = field(default_factory=list)
    again: bool = False

    def set(self, yaml_text: str) -> World:
        self.settings = load(yaml_text)
        return self

    def ask(
        self,
        name: str,
        *sets: tuple[int, str],
        class_name: str = BEST_EFFORT,
        **parameters: str,
    ) -> None:
        """A new request for so many pods of so named templates."""
        request = Request(
            namespace="team",
            name=name,
            uid=f"uid-{name}",
            class_name=class_name,
            pod_sets=tuple(PodSet(count, template) for count, template in sets),
            created_at_s=self.now_s,
            parameters=parameters,
        )
        self.seen = replace(self.seen, requests=(*self.seen.requests, request))

    def template(self, name: str, pod: PodShape) -> None:
        self.seen = replace(self.seen, templates={**self.seen.templates, ("team", name): pod})

    def pod(self, name: str, pod: PodShape, **more: Any) -> None:
        """Without a node it is pending, and the scheduler has said that it does not fit."""
        more.setdefault("is_unschedulable", not more.get("node"))
        self.seen = replace(
            self.seen, pods=(*self.seen.pods, Pod(namespace="team", name=name, shape=pod, **more))
        )

    def add_node(self, pool: str, name: str) -> None:
        found = self.settings.pool(pool)
        assert found is not None
        obj = manifest(found, name)
        obj["metadata"]["uid"] = f"uid-{name}"
        node = replace(parse_node(obj), created_at_s=self.now_s)
        self.seen = replace(self.seen, nodes=(*self.seen.nodes, node))
        if self.boots and HELD_ANNOTATION not in node.annotations:
            self.bring_up(name)

    def bring_up(self, name: str) -> None:
        node = self.node(name)
        notes = {k: v for k, v in node.annotations.items() if k != HELD_ANNOTATION}
        self._change(name, ready=True, ready_since_s=node.created_at_s, annotations=notes)

    def _change(self, name: str, **changes: Any) -> None:
        nodes = tuple(replace(n, **changes) if n.name == name else n for n in self.seen.nodes)
        self.seen = replace(self.seen, nodes=nodes)

    def loop(self, *, after_s: float = 1.0) -> tuple[object, ...]:
        """One loop; performs its actions and returns them."""
        self.now_s += after_s
        decision = decide(self.seen, self.memory, self.settings, self.now_s)
        self.memory = decision.memory
        self.notes += decision.notes
        self.again = decision.again
        for action in decision.actions:
            self._perform(action)
        return decision.actions

    def loops(self, seconds: int) -> None:
        for _ in range(seconds):
            self.loop()

    def _perform(self, action: object) -> None:
        match action:
            case CreateNode(pool, name):
                self.add_node(pool.name, name)
            case BringUp(name):
                self.bring_up(name)
            case Advertise(name, amounts):
                node = self.node(name)
                more = {k: int(v) for k, v in amounts.items()}
                allocatable = {**node.shape.allocatable, **more}
                self._change(name, shape=replace(node.shape, allocatable=allocatable))
            case DeleteNode(name):
                nodes = tuple(n for n in self.seen.nodes if n.name != name)
                self.seen = replace(self.seen, nodes=nodes)
            case SetConditions(request):
                requests = tuple(request if r.uid == request.uid else r for r in self.seen.requests)
                self.seen = replace(self.seen, requests=requests)
            case DeleteRequest(request):
                self.remove(request.name)
            case _:
                raise AssertionError(f"unknown action {action}")

    def remove(self, name: str) -> None:
        requests = tuple(r for r in self.seen.requests if r.name != name)
        self.seen = replace(self.seen, requests=requests)

    def node(self, name: str) -> Node:
        return next(n for n in self.seen.nodes if n.name == name)

    def nodes(self, pool: str = "") -> list[Node]:
        return [n for n in self.seen.nodes if not pool or n.pool == pool]

    def request(self, name: str) -> Request:
        return next(r for r in self.seen.requests if r.name == name)

    def said(self, name: str) -> list[str]:
        """The request's conditions, as `Type=Status Reason`."""
        return [f"{c.type}={c.status} {c.reason}" for c in self.request(name).conditions]
