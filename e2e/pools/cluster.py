"""What the loop knows of the cluster: one store per kind, fed by one thread per kind.

The threads only read, and put what they hear into one inbox; whoever owns the stores empties it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from e2e.pools.configmaps import CONFIG_NAME, NAMESPACE, Config, parse_config
from e2e.pools.parse import parse_node, parse_pod, parse_request, parse_template
from e2e.pools.state import Node, Pod, PodShape, Request, Seen
from taugrid_ray.kinds.provisioning_request import FAILED, PROVISIONED
from taugrid_ray.kinds.resource import (
    CONFIG_MAP,
    NODE,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    Obj,
    Resource,
)
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Delta, Key, Listed
from taugrid_ray.kube.reflector import Reflector
from taugrid_ray.kube.store import Store

T = TypeVar("T")
Sink = Callable[[Delta[Any] | Listed], None]

log = logging.getLogger("e2e.pools")


def _unanswered(request: Request) -> tuple[str, ...]:
    return () if request.says(PROVISIONED) or request.says(FAILED) else ("unanswered",)


class Cluster:
    def __init__(self, api: KubeApi, sink: Sink, clock: Clock) -> None:
        self.nodes: Store[Node] = Store(NODE, parse_node)
        self.pods: Store[Pod] = Store(POD, parse_pod)
        self.templates: Store[PodShape] = Store(POD_TEMPLATE, parse_template)
        self.configs: Store[Config] = Store(CONFIG_MAP, parse_config)
        self.requests: Store[Request] = Store(
            PROVISIONING_REQUEST, parse_request, indexes={"state": _unanswered}
        )
        stores: tuple[Store[Any], ...] = (
            self.nodes,
            self.pods,
            self.templates,
            self.configs,
            self.requests,
        )
        self.stores = {store.kind: store for store in stores}
        parsers: dict[Resource, Callable[[Obj], Any]] = {
            NODE: parse_node,
            POD: parse_pod,
            POD_TEMPLATE: parse_template,
            CONFIG_MAP: parse_config,
            PROVISIONING_REQUEST: parse_request,
        }
        self._reflectors = [
            Reflector[Any](
                api,
                kind,
                parse,
                sink,
                clock=clock,
                namespace=NAMESPACE if kind == CONFIG_MAP else None,
                fields=f"metadata.name={CONFIG_NAME}" if kind == CONFIG_MAP else "",
                report=_report,
            )
            for kind, parse in parsers.items()
        ]

    def follow(self, stop: threading.Event) -> None:
        """Start the reading threads. They end with the process: a watch may be silent for long."""
        for reflector in self._reflectors:
            name = f"watch-{reflector.kind.plural}"
            threading.Thread(target=_follow, args=(reflector, stop), name=name, daemon=True).start()

    @property
    def is_synced(self) -> bool:
        return all(store.synced for store in self.stores.values())

    @property
    def config(self) -> Config | None:
        return self.configs.get(Key(NAMESPACE, CONFIG_NAME))

    def seen(self) -> Seen:
        return Seen(
            nodes=tuple(sorted(self.nodes.values(), key=lambda node: node.name)),
            pods=tuple(self.pods.values()),
            requests=tuple(self.requests.values()),
            templates={
                (key.namespace, key.name): shape
                for key in self.templates.keys()  # noqa: SIM118 - a store is no dict
                if (shape := self.templates.get(key)) is not None
            },
        )

    def unanswered(self) -> tuple[Request, ...]:
        return self.requests.by("state", "unanswered")


def _follow(reflector: Reflector[Any], stop: threading.Event) -> None:
    told = ""
    while not stop.is_set():
        step = reflector.step()
        trouble = str(reflector.trouble or "")
        if trouble and trouble != told:
            log.warning("watching %s: %s", reflector.kind.plural, trouble)
        told = trouble
        if step.wait_s:
            stop.wait(step.wait_s)
    reflector.close()


def _report(kind: Resource, key: Key, error: Exception) -> None:
    log.warning("%s %s/%s cannot be read: %s", kind.kind, key.namespace, key.name, error)
