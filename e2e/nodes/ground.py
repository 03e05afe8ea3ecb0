"""What all pods of one node agent stand on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from e2e.nodes.lifecycle import Backoff
from e2e.nodes.names_book import NamesBook
from e2e.nodes.sandbox import Network
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock


@dataclass(frozen=True, slots=True)
class Ground:
    """What all pods of an agent stand on."""

    api: KubeApi
    clock: Clock
    folder: Path
    network: Network
    names: NamesBook
    executor: Executor
    """For probes and hooks."""
    base_env: Mapping[str, str]
    """What an image would set: the path to Python and Ray above all."""
    service_env: Mapping[str, str]
    process_env: Mapping[str, str]
    """Of the processes around a container: the launcher and the sandbox."""
    backoff: Backoff
    max_grace_s: float | None = None

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    @property
    def host_ip(self) -> str:
        return str(self.network.addresses.subnet.bridge)
