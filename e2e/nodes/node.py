"""A Node object: when it is Ready, what its status says, and its heartbeat.

Whoever makes the Node writes what it offers into its status, and annotations say when it boots and
what it offers only later. A booted node is Ready, renews its lease every 10 s, and writes its
status only where that changes something, or every five minutes, as the kubelet does.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from e2e.nodes import names
from taugrid_ray.errors import NotFound
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_micro_time, format_time, time_at
from taugrid_ray.kinds.resource import LEASE, NODE, Obj
from taugrid_ray.kube.api import KubeApi, Patch

LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40
RENEW_S = 10.0
REPORT_S = 300.0
DEFAULT_RESOURCES = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110"}


@dataclass(frozen=True, slots=True)
class Boot:
    """When a node is to be up, in seconds since the epoch."""

    ready_at_s: float | None
    """None: never."""
    later: tuple[Later, ...] = ()
    mistakes: tuple[str, ...] = ()
    """Annotations that cannot be read, each as a sentence. The node is then as if without them."""


@dataclass(frozen=True, slots=True)
class Later:
    """A resource that the node offers only some time after it is up."""

    resource: str
    amount: str
    after_s: float


def is_ours(node: Obj) -> bool:
    return fields.text(node, "metadata", "annotations", names.NODE) == names.PROCESS


def boot_of(node: Obj) -> Boot:
    annotations = fields.string_map(node, "metadata", "annotations")
    created_s = time_at(node, "metadata", "creationTimestamp") or 0.0
    mistakes: list[str] = []
    ready_at_s: float | None = created_s
    after = annotations.get(names.READY_AFTER, "0")
    if after == "never":
        ready_at_s = None
    else:
        try:
            ready_at_s = created_s + float(after)
        except ValueError:
            mistakes.append(f"{names.READY_AFTER}: {after!r} is neither a number nor never")
    later: list[Later] = []
    found = _json_object(annotations.get(names.ADVERTISE_AFTER, "{}"))
    if found is None:
        mistakes.append(f"{names.ADVERTISE_AFTER}: not a JSON object")
    for resource, told in (found or {}).items():
        seconds = told.get("seconds") if isinstance(told, dict) else None
        if isinstance(seconds, (int, float)):
            later.append(Later(resource, fields.text(told, "amount"), float(seconds)))
        elif seconds != "never":
            mistakes.append(f'{names.ADVERTISE_AFTER}: want {{"seconds": 20}} for {resource}')
    return Boot(ready_at_s, tuple(later), tuple(mistakes))


def _json_object(text: str) -> Obj | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def offered(node: Obj, boot: Boot, now_s: float) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable as they are to be now."""
    annotation = fields.text(node, "metadata", "annotations", names.RESOURCES)
    default = fields.string_map(_json_object(annotation)) or DEFAULT_RESOURCES
    capacity = fields.string_map(node, "status", "capacity") or dict(default)
    allocatable = fields.string_map(node, "status", "allocatable") or dict(capacity)
    up_for_s = now_s - (boot.ready_at_s or now_s)
    shown = {each.resource: each.amount for each in boot.later if up_for_s >= each.after_s}
    capacity, allocatable = {**capacity, **shown}, {**allocatable, **shown}
    return capacity, allocatable


def node_status(node: Obj, boot: Boot, *, address: str, port: int, now_s: float) -> Obj:
    """What a booted node reports. The creator's numbers stay."""
    capacity, allocatable = offered(node, boot, now_s)
    ready = [("Ready", "True", "KubeletReady", "pods run as processes")]
    healthy = [
        (kind, "False", f"KubeletHasSufficient{kind[:-8]}", "")
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    before = {fields.text(c, "type"): c for c in fields.objects(node, "status", "conditions")}
    conditions = []
    for kind, status, reason, message in [*ready, *healthy]:
        old = before.get(kind)
        since_s = now_s
        if old is not None and fields.text(old, "status") == status:
            since_s = time_at(old, "lastTransitionTime") or now_s
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": format_time(now_s),
                "lastTransitionTime": format_time(since_s),
            }
        )
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions,
        # Without a Hostname: the API server would take that first, and nobody can resolve it.
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": _node_info(),
    }


def _node_info() -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "architecture": machine,
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "osImage": "process node",
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
    }


def without_heartbeat(status: Obj) -> Obj:
    """The status as far as a change of it is worth a write."""
    conditions = [
        {k: v for k, v in each.items() if k != "lastHeartbeatTime"}
        for each in fields.objects(status, "conditions")
    ]
    return {**status, "conditions": conditions}


class Heart:
    """The heartbeat of one booted node."""

    def __init__(self, api: KubeApi, name: str, uid: str) -> None:
        self._api, self._name, self._uid = api, name, uid
        self._sent: Obj = {}
        self._sent_at_s = 0.0
        self._renewed_at_s = 0.0

    def beat(self, status: Obj, now_s: float) -> Obj | None:
        """Write what is due; the Node as the answer shows it, or None where its status was not."""
        answer = None
        worth = without_heartbeat(status)
        if worth != self._sent or now_s - self._sent_at_s >= REPORT_S:
            body = {"metadata": {"uid": self._uid}, "status": status}
            answer = self._api.patch(
                NODE, self._name, body, how=Patch.STRATEGIC, sub="status", manager="process-node"
            )
            self._sent, self._sent_at_s = worth, now_s
        if now_s - self._renewed_at_s >= RENEW_S:
            self._renew(now_s)
            self._renewed_at_s = now_s
        return answer

    def _renew(self, now_s: float) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": format_micro_time(now_s),
        }
        try:
            self._api.patch(
                LEASE, self._name, {"spec": spec}, LEASE_NAMESPACE, manager="process-node"
            )
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            lease: Obj = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {
                    "name": self._name,
                    "namespace": LEASE_NAMESPACE,
                    "ownerReferences": [owner],
                },
                "spec": spec,
            }
            self._api.create(LEASE, lease, LEASE_NAMESPACE)
