"""All process nodes of one cluster: watches in, one worker per pod, one heart per node.

Four watches feed it: nodes (those with the annotation), pods that are bound to any node, services
and endpoints. One watch for all pods, filtered here, costs the API server less than one per node.
Nodes and pods are kept in plain dicts under one lock; a pass over a node compares what is there
with what should be: a pod runs exactly if its node is booted and still ours.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

from e2e.cluster.processes import MARKER
from e2e.nodes import host, node, status
from e2e.nodes.addresses import Addresses, Subnet
from e2e.nodes.container import NODES_MARKER
from e2e.nodes.ground import Ground
from e2e.nodes.kubelet import Found, Server
from e2e.nodes.lifecycle import Backoff
from e2e.nodes.logs import LogFile, last_log
from e2e.nodes.names_book import NamesBook
from e2e.nodes.sandbox import Network
from e2e.nodes.worker import Changed, Gone, Worker
from taugrid_ray.errors import NotFound, TaugridError
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import ENDPOINTS, NODE, POD, SERVICE, Obj, Resource
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock, SystemClock
from taugrid_ray.kube.delta import Delta, Listed
from taugrid_ray.kube.reflector import Reflector

log = logging.getLogger(__name__)

TICK_S = 1.0
PROBES_AT_ONCE = 16
STOP_S = 30.0
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Path
    bridge: str
    subnet: Subnet
    prefix: str
    """Of links; names the cluster."""
    api_address: str
    """IP:PORT where pods reach the API server."""
    port: int = 0
    client_ca: Path | None = None
    backoff: Backoff = field(default_factory=Backoff)
    max_grace_s: float | None = None


@dataclass(slots=True)
class _Node:
    """One Node of ours."""

    obj: Obj
    boot: node.Boot
    heart: node.Heart

    @property
    def uid(self) -> str:
        return fields.text(self.obj, "metadata", "uid")

    def is_booted(self, now_s: float) -> bool:
        return self.boot.ready_at_s is not None and now_s >= self.boot.ready_at_s


def base_env() -> dict[str, str]:
    """What an image would set: Python and Ray come from the environment this program runs in.

    GRPC_DNS_RESOLVER: gRPC's own resolver reads no hosts file.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "GRPC_DNS_RESOLVER": "native",
    }


def markers_of(prefix: str, folder: Path) -> dict[str, str]:
    """In the environment of all processes of pods: by these, whoever cleans up finds them."""
    return {
        NODES_MARKER: prefix,
        MARKER: os.environ.get(MARKER) or str(folder),
    }


def service_env(api_address: str) -> dict[str, str]:
    address, _, port = api_address.rpartition(":")
    return {
        "KUBERNETES_SERVICE_HOST": address,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
    }


class Agent:
    def __init__(self, api: KubeApi, settings: Settings, clock: Clock | None = None) -> None:
        self._api, self._settings = api, settings
        self._clock = clock or SystemClock()
        self._lock = RLock()
        self._stop = Event()
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[tuple[str, str], Obj] = {}
        self._workers: dict[str, Worker] = {}
        self._names = NamesBook(settings.api_address.rpartition(":")[0])
        self._names_known = {SERVICE: False, ENDPOINTS: False}
        markers = markers_of(settings.prefix, settings.folder)
        self._ground = Ground(
            api=api,
            clock=self._clock,
            folder=settings.folder,
            network=Network(settings.bridge, settings.prefix, Addresses(settings.subnet)),
            names=self._names,
            executor=ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="probe"),
            base_env={**base_env(), **markers},
            service_env=service_env(settings.api_address),
            process_env={"PATH": SYSTEM_PATH, **markers},
            backoff=settings.backoff,
            max_grace_s=settings.max_grace_s,
        )
        self._server = Server(
            str(settings.subnet.bridge),
            self.find_log,
            self.find_process,
            port=settings.port,
            client_ca=settings.client_ca,
        )

    def run(self) -> None:
        """Until `stop`. All pods end with it."""
        run_folder = self._ground.run_folder
        ended = host.clean_up(self._settings.prefix, run_folder)
        (run_folder / "scratch").mkdir()
        if ended:
            log.info("ended %d processes of an earlier run", ended)
        self._server.start()
        log.info("serving logs on %s:%d", self._settings.subnet.bridge, self._server.port)
        for reflector in self._reflectors():
            Thread(
                target=self._reflect, args=(reflector,), name=reflector.kind.plural, daemon=True
            ).start()
        while not self._stop.wait(TICK_S):
            self._beat()
        self._end_all()

    def stop(self) -> None:
        self._stop.set()

    # What the watches say

    def _reflectors(self) -> list[Reflector[Obj]]:
        def of(kind: Resource, sink: Any, selector: str = "") -> Reflector[Obj]:
            return Reflector(
                self._api, kind, lambda obj: obj, sink, clock=self._clock, fields=selector
            )

        return [
            of(SERVICE, self._name_changed),
            of(ENDPOINTS, self._name_changed),
            of(NODE, self._node_changed),
            of(POD, self._pod_changed, "spec.nodeName!="),
        ]

    def _reflect(self, reflector: Reflector[Obj]) -> None:
        while not self._stop.is_set():
            wait_s = reflector.step().wait_s
            if reflector.trouble is not None and wait_s:
                log.warning("%s: %s", reflector.kind.plural, reflector.trouble)
            self._stop.wait(wait_s)

    def _name_changed(self, change: Delta[Obj] | Listed) -> None:
        if isinstance(change, Listed):
            with self._lock:
                self._names_known[change.kind] = True
                self._look_at_all()
            return
        some = change.new or change.old
        assert some is not None
        self._names.changed(change.kind, some, gone=change.new is None)

    def _node_changed(self, change: Delta[Obj] | Listed) -> None:
        if isinstance(change, Listed):
            return
        name = change.key.name
        with self._lock:
            known = self._nodes.get(name)
            if change.new is None or not node.is_ours(change.new):
                if known is not None and known.uid == change.uid:
                    del self._nodes[name]
                    self._node_is_gone(name)
                return
            boot = node.boot_of(change.new)
            for mistake in boot.mistakes:
                if known is None:
                    log.warning("node %s: %s", name, mistake)
            if known is None:
                heart = node.Heart(self._api, name, change.uid)
                self._nodes[name] = _Node(change.new, boot, heart)
            else:
                known.obj, known.boot = change.new, boot

    def _node_is_gone(self, name: str) -> None:
        log.info("node %s is gone", name)
        for worker in self._workers.values():
            if worker.node == name:
                worker.tell(Gone())

    def _pod_changed(self, change: Delta[Obj] | Listed) -> None:
        if isinstance(change, Listed):
            return
        key = (change.key.namespace, change.key.name)
        with self._lock:
            if change.new is None:
                self._pods.pop(key, None)
                worker = self._workers.pop(change.uid, None)
                if worker is not None:
                    worker.tell(Gone())
                return
            self._pods[key] = change.new
            self._look_at(change.new)

    def _look_at_all(self) -> None:
        for pod in self._pods.values():
            self._look_at(pod)

    def _look_at(self, pod: Obj) -> None:
        """Give the pod a worker if it should run here, or tell the one it has."""
        uid = fields.text(pod, "metadata", "uid")
        worker = self._workers.get(uid)
        if worker is not None:
            worker.tell(Changed(pod))
            return
        home = self._nodes.get(fields.text(pod, "spec", "nodeName"))
        if home is None or not home.is_booted(self._clock.now_s()):
            return
        if not all(self._names_known.values()):
            return  # its hosts file would lack names; soon they are there
        allocatable: Mapping[str, str] = fields.string_map(home.obj, "status", "allocatable")
        worker = Worker(self._ground, pod, allocatable)
        self._workers[uid] = worker
        worker.start()

    # Heartbeats

    def _beat(self) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            booted = [(n, home) for n, home in self._nodes.items() if home.is_booted(now_s)]
            self._look_at_new(now_s)
        for name, home in booted:
            status = node.node_status(
                home.obj,
                home.boot,
                address=str(self._settings.subnet.bridge),
                port=self._server.port,
                now_s=now_s,
            )
            try:
                answer = home.heart.beat(status, now_s)
            except NotFound:
                continue  # deleted; the watch tells
            except TaugridError as error:
                log.warning("node %s: %s", name, error)
                continue
            if answer is not None:
                with self._lock:
                    home.obj = answer

    def _look_at_new(self, now_s: float) -> None:
        """Pods that were bound before their node was up or known, or whose node came back."""
        for uid in [uid for uid, worker in self._workers.items() if worker.has_quit]:
            del self._workers[uid]
        for pod in self._pods.values():
            home = self._nodes.get(fields.text(pod, "spec", "nodeName"))
            is_new = fields.text(pod, "metadata", "uid") not in self._workers
            if is_new and home is not None and home.is_booted(now_s):
                self._look_at(pod)

    def _end_all(self) -> None:
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.tell(Gone())
        for worker in workers:
            worker.join(STOP_S)
        self._server.close()

    # What the API server asks

    def find_process(self, namespace: str, pod: str, container: str) -> int:
        """The first process of a running container; 0 for none."""
        with self._lock:
            obj = self._pods.get((namespace, pod))
            worker = self._workers.get(fields.text(obj, "metadata", "uid"))
        return worker.process_of(container) if worker is not None else 0

    def find_log(self, namespace: str, pod: str, container: str, previous: bool) -> Found | str:
        with self._lock:
            obj = self._pods.get((namespace, pod))
            worker = self._workers.get(fields.text(obj, "metadata", "uid"))
        if obj is None:
            return f'pod "{pod}" is not on this node'
        logs = worker.logs_of(container) if worker is not None else []
        # While a container waits for its restart, its last attempt is the previous one already.
        back = 2 if previous and not status.waits(obj, container) else 1
        if worker is None or not logs:
            left = None if previous else self._left_log(namespace, pod, container, obj)
            if left is not None:
                return Found(left, lambda: False)
        elif len(logs) >= back:
            chosen = logs[-back]
            return Found(chosen, lambda: worker.is_running(chosen))
        if previous:
            return f'previous terminated container "{container}" in pod "{pod}" not found'
        return f'container "{container}" in pod "{pod}" is waiting to start'

    def _left_log(self, namespace: str, pod: str, container: str, obj: Obj) -> LogFile | None:
        """Of a run of this program that is over. The name is looked up, not believed."""
        everyone = (
            *fields.objects(obj, "spec", "containers"),
            *fields.objects(obj, "spec", "initContainers"),
        )
        if container not in [fields.text(each, "name") for each in everyone]:
            return None
        return last_log(self._settings.folder / "pods" / namespace / pod / container)
