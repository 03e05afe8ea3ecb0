"""Where everything of one cluster lies, all below its folder, and the record that names its
network and ports."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.network import Network
from e2e.cluster.settings import ClusterError, Nodes
from taugrid_ray.names import digest, safe

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    apiserver: int
    kcm: int
    scheduler: int
    kueue_webhook: int
    kueue_metrics: int
    kueue_health: int
    kuberay_metrics: int
    kuberay_health: int
    kwok: int


@dataclass(frozen=True, slots=True)
class Record:
    """What must be known of a cluster to come back to it."""

    name: str
    nodes: Nodes
    network: Network
    ports: Ports
    binaries: Path

    def to_json(self) -> str:
        return json.dumps(
            {
                "schemaVersion": _SCHEMA,
                "name": self.name,
                "nodes": self.nodes.value,
                "network": self.network.number,
                "ports": dataclasses.asdict(self.ports),
                "binaries": str(self.binaries),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Record:
        read = json.loads(text)
        if read["schemaVersion"] != _SCHEMA:
            raise ValueError(f"schemaVersion {read['schemaVersion']}")
        return cls(
            name=read["name"],
            nodes=Nodes(read["nodes"]),
            network=Network(read["network"]),
            ports=Ports(**read["ports"]),
            binaries=Path(read["binaries"]),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    folder: Path

    @property
    def mark(self) -> Path:
        """Made first: a folder without it is not ours to remove."""
        return self.folder / "taugrid-ray-cluster"

    @property
    def record(self) -> Path:
        return self.folder / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.jsonl"

    @property
    def parts(self) -> Path:
        """One JSON file per part that was started."""
        return self.folder / "parts"

    @property
    def users(self) -> Path:
        return self.folder / "users"

    @property
    def kueue_root(self) -> Path:
        """What Kueue sees as /."""
        return self.folder / "kueue"

    @property
    def kueue_binary(self) -> Path:
        return self.kueue_root / "kueue"

    @property
    def kueue_config(self) -> Path:
        return self.kueue_root / "config.json"

    @property
    def kueue_kubeconfig(self) -> Path:
        return self.kueue_root / "kubeconfig"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.json"

    def kubeconfig_of(self, user: str) -> Path:
        """A user's name is data: it may hold colons and slashes."""
        return self.users / f"{safe(user)}-{digest(user)}.kubeconfig"

    def make(self) -> None:
        """Claim the folder: the one who makes it has it."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise ClusterError(
                f"there is a cluster in {self.folder} already, or what is left of one",
                hint=f"python -m e2e down --folder {self.folder}",
            ) from error
        self.mark.touch()
        for folder in (self.pki, self.logs, self.parts, self.users):
            folder.mkdir()

    def read_record(self) -> Record | None:
        """None where the cluster did not get so far."""
        try:
            return Record.from_json(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"{self.record} is not readable as a cluster's record: {error}",
                hint=f"python -m e2e down --folder {self.folder}",
            ) from error
