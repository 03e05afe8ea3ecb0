"""Put manifests into a cluster by server-side apply, and wait until new kinds are served."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import yaml

from e2e.cluster.settings import ClusterError
from taugrid_ray.kinds.resource import CRD, Obj, Resource
from taugrid_ray.kube.api import KubeApi, Patch

SERVED_S = 60.0
_POLL_S = 0.05
MANAGER = "e2e"


def read(file: Path) -> list[Obj]:
    return [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each]


def apply(api: KubeApi, objects: Iterable[Obj]) -> None:
    """In the order given; a kind can be used right after its definition."""
    for each in objects:
        kind = resource_of(each)
        meta = each["metadata"]
        api.patch(
            kind,
            meta["name"],
            each,
            meta.get("namespace"),
            how=Patch.APPLY,
            manager=MANAGER,
            force=True,
        )
        if kind.kind == CRD.kind:
            _await_established(api, meta["name"])


def resource_of(manifest: Obj) -> Resource:
    """Where a manifest's kind lives, by the naming rule that every built-in kind keeps.

    A manifest without a namespace is taken as one of a cluster-scoped kind.
    """
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = manifest["kind"]
    namespaced = "namespace" in manifest["metadata"]
    return Resource(group, version, kind, plural_of(kind), namespaced)


def plural_of(kind: str) -> str:
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"


def _await_established(api: KubeApi, name: str) -> None:
    deadline_s = time.monotonic() + SERVED_S
    while not _is_established(api.get(CRD, name)):
        if time.monotonic() > deadline_s:
            raise ClusterError(f"the kind {name} is not served after {SERVED_S:.0f} s")
        time.sleep(_POLL_S)


def _is_established(crd: Obj) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
