"""Build the cluster's binaries once, and keep them with the manifests that belong to them.

Two Go modules, because KubeRay does not compile against the controller-runtime that Kueue needs. A
cache entry is a folder named after a hash of everything that goes in (both go.mod and go.sum,
flags, platform) and the Go version, so a changed pin is a new entry and an old one is never
altered. It holds `bin/` and `manifests/`: whoever has an entry needs no Go any more, and finds it
even after Go is gone from the machine.

An entry is made in a folder beside it and renamed when complete, under a file lock: an interrupted
build leaves no half entry, and two builds at once become one build and one wait. Go's own caches
make the next try go on where the interrupted one stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import manifests
from e2e.compiling import BuildFailed, Compiler, Step
from e2e.golang import Go, Say, find_or_install, go_in, go_on_path

HERE = Path(__file__).resolve().parent
VERSIONS = {"kubernetes": "1.36.3", "kueue": "0.19.2", "kuberay": "1.6.2", "kwok": "0.8.0"}

FLAGS = ("-trimpath",)
STRIP = "-s -w"
# Kueue parses the API server's version and exits where it cannot, so the version must be linked in.
KUBERNETES_LDFLAGS = (
    f"{STRIP} -X k8s.io/component-base/version.gitVersion=v{VERSIONS['kubernetes']}"
    " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
)
LAYOUT = "1"
"""Raise it when what an entry holds beside the binaries changes."""


@dataclass(frozen=True, slots=True)
class Module:
    """One folder with a go.mod; `binaries` maps the name in bin/ to the package it is built
    from."""

    folder: str
    ldflags: str
    binaries: dict[str, str]


MODULES = (
    Module(
        "controlplane",
        KUBERNETES_LDFLAGS,
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kueue": "sigs.k8s.io/kueue/cmd/kueue",
            "kwok": "sigs.k8s.io/kwok/cmd/kwok",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        },
    ),
    Module("kuberay", STRIP, {"kuberay": "github.com/ray-project/kuberay/ray-operator"}),
)
# Go names a binary after its package's last element that is not a version.
_BUILT_AS = {"etcd": "server", "kuberay": "ray-operator"}


@dataclass(frozen=True, slots=True)
class Built:
    """A complete cache entry."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def stages(self) -> list[Path]:
        """kwok's stages: what it does to nodes and pods."""
        return sorted((self.folder / "manifests" / "stages").glob("*.yaml"))

    def crds(self) -> list[dict[str, Any]]:
        return self._objects("crds.json")

    def kueue_webhooks(self) -> list[dict[str, Any]]:
        """Kueue's two webhook configurations as released, for every integration."""
        return self._objects("kueue-webhooks.json")

    def _objects(self, name: str) -> list[dict[str, Any]]:
        objects: list[dict[str, Any]] = json.loads(
            (self.folder / "manifests" / name).read_text(encoding="utf-8")
        )
        return objects


def cache_folder() -> Path:
    chosen = os.environ.get("TAUGRID_RAY_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "taugrid-ray"


def inputs_hash(sources: Path = HERE, *, machine: str | None = None) -> str:
    """A hash of everything but the Go version that decides what the binaries are."""
    digest = hashlib.sha256()
    for text in (LAYOUT, platform.system(), machine or platform.machine(), *FLAGS):
        digest.update(text.encode() + b"\0")
    for module in MODULES:
        digest.update(
            repr((module.folder, module.ldflags, sorted(module.binaries.items()))).encode()
        )
        for name in ("go.mod", "go.sum"):
            digest.update((sources / module.folder / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def entry_name(inputs: str, go_version: str) -> str:
    return f"{inputs}-go{go_version}"


def find_built(cache: Path | None = None) -> Built | None:
    """The entry for the Go that would build now; where there is no Go, any entry of the same
    inputs."""
    cache = cache or cache_folder()
    inputs = inputs_hash()
    go = go_on_path() or go_in(cache)
    if go:
        wanted = cache / entry_name(inputs, go.version)
        return Built(wanted) if wanted.is_dir() else None
    entries = [found for found in sorted(cache.glob(f"{inputs}-go*")) if found.is_dir()]
    return Built(entries[-1]) if entries else None


def ensure_built(say: Say, on_step: Callable[[Step], None] = lambda _: None) -> Built:
    """The cache entry, built now if there is none yet. Raises BuildFailed or GoMissing."""
    cache = cache_folder()
    found = find_built(cache)
    if found:
        return found
    go = find_or_install(cache, say)
    entry = cache / entry_name(inputs_hash(), go.version)
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache / f"{entry.name}.lock", say):
        if not entry.is_dir():
            _build(go, entry, say, on_step)
    return Built(entry)


@contextmanager
def _only_one(path: Path, say: Say) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("the same build is running in another process: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: Go, entry: Path, say: Say, on_step: Callable[[Step], None]) -> None:
    began_s = time.monotonic()
    log = entry.parent / f"{entry.name}.log"
    count = sum(len(module.binaries) for module in MODULES)
    say(
        f"building {count} programs from source with Go {go.version}, once: about 20 minutes on"
        f" 2 cores and 7 GB of disk in Go's caches; the programs (600 MB) go to {entry.parent}"
    )
    say(f"Ctrl-C is safe, the next try goes on where this one stopped; log: {log}")
    _clear_unfinished(entry)
    unfinished = Path(tempfile.mkdtemp(prefix=_unfinished(entry), dir=entry.parent))
    try:
        with log.open("w", encoding="utf-8") as out:
            compiler = Compiler(go, out, log, on_step)
            compiler.count([(HERE / m.folder, tuple(m.binaries.values())) for m in MODULES])
            for module in MODULES:
                _build_module(compiler, module, unfinished / "bin")
            sources = HERE / "controlplane"
            manifests.gather(
                unfinished / "manifests",
                kueue=compiler.source_of(sources, "sigs.k8s.io/kueue"),
                kwok=compiler.source_of(sources, "sigs.k8s.io/kwok"),
                autoscaler=compiler.source_of(sources, "k8s.io/autoscaler/cluster-autoscaler/apis"),
                kuberay=compiler.source_of(
                    HERE / "kuberay", "github.com/ray-project/kuberay/ray-operator"
                ),
            )
        unfinished.chmod(0o755)
        unfinished.rename(entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"built in {time.monotonic() - began_s:.0f} s: {entry}")


def _build_module(compiler: Compiler, module: Module, target: Path) -> None:
    flags = (*FLAGS, "-ldflags", module.ldflags)
    compiler.build(HERE / module.folder, flags, tuple(module.binaries.values()), target)
    for name in module.binaries:
        built = target / _BUILT_AS.get(name, name)
        if not built.exists():
            raise BuildFailed(
                f"the Go build of {module.folder} ended well but made no {built.name}"
            )
        built.rename(target / name)


def _clear_unfinished(entry: Path) -> None:
    """Folders that killed builds of this entry left; we hold its lock, so nobody uses them."""
    for left in entry.parent.glob(f"{_unfinished(entry)}*"):
        shutil.rmtree(left, ignore_errors=True)


def _unfinished(entry: Path) -> str:
    """What a folder that is not yet an entry is called: nothing that a search for entries finds."""
    return f".{entry.name}.tmp-"
