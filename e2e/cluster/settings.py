"""What a cluster is to be: its name and folder, its nodes, its parts, and how far they depart
from their releases."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from taugrid_ray.errors import TaugridError

REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTERS = REPOSITORY / ".e2e"

OPTIONAL_PARTS = ("kcm", "scheduler", "kueue", "kuberay", "kwok")
"""Beside etcd and the API server, without which there is no cluster."""
FRAMEWORKS = ("batch/job", "ray.io/rayjob", "ray.io/raycluster")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


class ClusterError(TaugridError):
    """A cluster that cannot be started, found or taken down."""


class Nodes(str, Enum):
    PROCESS = "process"
    """Pods are real processes in network namespaces; needs root."""
    FAKE = "fake"
    """kwok plays the kubelet; pods are only objects."""
    AUTO = "auto"
    """Process nodes where this machine can have them."""


class Audit(str, Enum):
    """What the API server writes down, one JSON line a request, with user and user agent."""

    OFF = "off"
    WRITES = "writes"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ExtraPart:
    """A program of ours that runs beside the control plane: a node agent, the pools, the
    controller.

    Words in braces in argv, env and ready_url, such as {folder} and {kubeconfig}, stand for the
    running cluster's values: see Cluster.start_part. `user` and `groups`, where given, make
    {kubeconfig} that user's instead of the admin's.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    groups: tuple[str, ...] = ()
    ready_url: str = ""
    """Answers 200 once the part is ready; without one it is only known to have been started."""
    manifests: tuple[Path, ...] = ()
    """Applied before it starts: its kinds, its rights."""


@dataclass(frozen=True, slots=True)
class Settings:
    name: str = "default"
    folder: Path | None = None
    """Where everything of this cluster lies; by default .e2e/NAME in the repository."""
    nodes: Nodes = Nodes.AUTO
    parts: tuple[str, ...] = OPTIONAL_PARTS
    audit: Audit = Audit.WRITES
    kueue: Mapping[str, Any] = field(default_factory=dict)
    """Laid over Kueue's configuration, key by key: {"waitForPodsReady": {"timeout": "1m"}}."""
    frameworks: tuple[str, ...] = FRAMEWORKS
    """Kueue's integrations; each brings its webhooks along."""
    release_limits: bool = True
    """Kueue's client limits as released (300 requests a second, bursts of 500); off: ten times
    as many."""
    kuberay_flags: tuple[str, ...] = ()
    kuberay_env: Mapping[str, str] = field(default_factory=dict)
    extras: tuple[ExtraPart, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ClusterError(
                f"{self.name!r} cannot be a cluster's name",
                hint="lower-case letters, digits and dashes, at most 32",
            )
        unknown = sorted(set(self.parts) - set(OPTIONAL_PARTS))
        if unknown:
            raise ClusterError(
                f"no such part: {', '.join(unknown)}", hint=f"parts: {', '.join(OPTIONAL_PARTS)}"
            )

    @property
    def home(self) -> Path:
        return (self.folder or CLUSTERS / self.name).resolve()


def is_root() -> bool:
    return os.geteuid() == 0


def require_linux() -> None:
    if sys.platform != "linux":
        raise ClusterError("the local cluster runs on Linux only")


def choose_nodes(wanted: Nodes, why_not: str) -> Nodes:
    """AUTO falls back to fake nodes where process nodes cannot run, PROCESS refuses.

    why_not: why process nodes cannot run here, as a sentence; "" where they can.
    """
    if wanted is Nodes.AUTO:
        return Nodes.FAKE if why_not else Nodes.PROCESS
    if wanted is Nodes.PROCESS and why_not:
        raise ClusterError(why_not, hint="use --nodes fake")
    return wanted
