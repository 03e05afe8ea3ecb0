"""One suite, three servers: FakeKube in process, FakeKube over HTTP through the Wire, a real one.

The real one is named by TAUGRID_RAY_KUBECONFIG; the suite works in a namespace of its own there and
takes it away afterwards.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from taugrid_ray.errors import NotFound
from taugrid_ray.kinds.resource import NAMESPACE, SERVICE_ACCOUNT, Obj, Resource
from taugrid_ray.kube.api import Change, KubeApi, WatchEvent
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.wire import connect, connect_to
from tests.fake_kube import Face, FakeKube

KUBECONFIG = os.environ.get("TAUGRID_RAY_KUBECONFIG")
PATIENCE_S = 20.0


@dataclass
class Cluster:
    """A server under test. `fake` is None where it is a real one."""

    api: KubeApi
    namespace: str
    fake: FakeKube | None

    def changes(
        self, kind: Resource, version: str, count: int, *, labels: str = "", fields: str = ""
    ) -> list[WatchEvent]:
        """The next `count` events after `version`, bookmarks left out."""
        found: list[WatchEvent] = []
        events = self.api.watch(
            kind,
            self.namespace if kind.namespaced else None,
            resource_version=version,
            labels=labels,
            fields=fields,
            timeout_s=PATIENCE_S,
        )
        for event in events:
            if event.change is not Change.BOOKMARK:
                found.append(event)
            if len(found) == count:
                break
        return found

    def eventually(self, holds: Callable[[], bool]) -> None:
        """What controllers of a real cluster do in their time, and FakeKube when it is told."""
        until_s = time.monotonic() + PATIENCE_S
        while not holds():
            if self.fake is not None:
                self.fake.collect_garbage()
                assert holds()
                return
            assert time.monotonic() < until_s, "it did not happen in time"
            time.sleep(0.1)

    def is_gone(self, kind: Resource, name: str) -> bool:
        try:
            self.api.get(kind, name, self.namespace if kind.namespaced else None)
        except NotFound:
            return True
        return False

    def needs(self, kind: Resource) -> None:
        """Skip where a real cluster has not the CRD."""
        if self.fake is not None:
            return
        try:
            self.api.list_page(kind, page_size=1)
        except NotFound:
            pytest.skip(f"{kind.kind} is not installed in this cluster")


@pytest.fixture(scope="session", params=["in process", "over HTTP", "real"])
def session_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "real":
        if not KUBECONFIG:
            pytest.skip("TAUGRID_RAY_KUBECONFIG names no cluster")
        yield from _real(KUBECONFIG)
        return
    fake = FakeKube(SystemClock(), namespaces=["default", "contract"])
    if request.param == "in process":
        fake.quiet_s = 0.02
        yield Cluster(fake, "contract", fake)
        return
    with Face(fake, bookmark_s=0.05) as face:
        api = connect_to(face.server)
        yield Cluster(api, "contract", fake)
        api.close()


def _real(kubeconfig: str) -> Iterator[Cluster]:
    api = connect(kubeconfig=kubeconfig)
    namespace = f"contract-{uuid.uuid4().hex[:8]}"
    api.create(NAMESPACE, {"metadata": {"name": namespace}})
    cluster = Cluster(api, namespace, None)
    try:
        # Pods are refused until the namespace has its service account.
        cluster.eventually(lambda: not cluster.is_gone(SERVICE_ACCOUNT, "default"))
        yield cluster
    finally:
        api.delete(NAMESPACE, namespace)
        api.close()


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    return session_cluster


@pytest.fixture
def api(cluster: Cluster) -> KubeApi:
    return cluster.api


@pytest.fixture
def ns(cluster: Cluster) -> str:
    return cluster.namespace


@pytest.fixture
def name() -> str:
    """Unique, so that tests do not meet in one namespace."""
    return f"t-{uuid.uuid4().hex[:10]}"


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **spec: object) -> Obj:
    containers = [{"name": "main", "image": "example.org/none"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def provisioning_request(name: str, *, count: int = 2) -> Obj:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name},
        "spec": {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"count": count, "podTemplateRef": {"name": "some"}}],
        },
    }
