"""Take what a running cluster needs out of the modules' source folders.

As JSON where it goes to the API server: parsing the CRDs' YAML takes seconds, and is done once
here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

# Nodes come up at once and keep a lease; pods take the long way (create, ready, complete, delete),
# each step of which an annotation on the pod can delay.
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/general/pod-complete.yaml",
    "pod/general/pod-create.yaml",
    "pod/general/pod-delete.yaml",
    "pod/general/pod-init-container-completed.yaml",
    "pod/general/pod-init-container-running.yaml",
    "pod/general/pod-ready.yaml",
)


def gather(target: Path, *, kueue: Path, kwok: Path, autoscaler: Path, kuberay: Path) -> None:
    """Write crds.json, kueue-webhooks.json and stages/ into `target`."""
    target.mkdir(parents=True)
    crds = [
        *_read(sorted((kueue / "config/components/crd/bases").glob("*.yaml"))),
        *_read(sorted((kuberay / "config/crd/bases").glob("*.yaml"))),
        *_read(sorted((autoscaler / "config/crd").glob("*provisioningrequests.yaml"))),
    ]
    groups = {crd["spec"]["group"] for crd in crds}
    assert groups == {"kueue.x-k8s.io", "ray.io", "autoscaling.x-k8s.io"}, groups
    _write(target / "crds.json", crds)
    webhooks = _read([kueue / "config/components/webhook/manifests.yaml"])
    _write(target / "kueue-webhooks.json", webhooks)
    (target / "stages").mkdir()
    for name in STAGES:
        copy = target / "stages" / Path(name).name
        shutil.copyfile(kwok / "kustomize/stage" / name, copy)


def _read(files: Iterable[Path]) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        document
        for file in files
        for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=loader)
        if document
    ]


def _write(file: Path, objects: list[dict[str, Any]]) -> None:
    file.write_text(json.dumps(objects, separators=(",", ":")), encoding="utf-8")
