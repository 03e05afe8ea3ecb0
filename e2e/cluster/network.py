"""A bridge and three address ranges per cluster, owned by the bridge so that nothing outlives it.

Cluster number N has the link `tgrN`. Creating a link of a given name is atomic, so the kernel
itself hands each number to one cluster. The link's hardware address is a hash of the cluster's
folder, given in the same call: from the link alone one sees whose it is, also when the folder or
its records are gone.

    10.244.N.0/24          process pods; .1 is the bridge, where pods reach the API server
    198.18.(16 N).0/20     fake pods: nobody is there
    198.19.(16 N).0/20     services: nobody is there either, as there is no kube-proxy

The API server's proxy (and KubeRay through it) does call fake pods. Routes on the bridge keep such
calls on this machine; the ranges are those set aside for benchmarks (RFC 2544), which no real
network uses.

Network namespaces and links of pods carry the prefix `tgrN-`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.settings import ClusterError

NUMBERS = range(1, 16)
NAMESPACES = Path("/run/netns")
_LINK = re.compile(r"tgr(\d{1,2})")


@dataclass(frozen=True, slots=True)
class Network:
    """`number` is 0 without root: then there is no bridge and `address` is the loopback address."""

    number: int

    @property
    def bridge(self) -> str:
        return f"tgr{self.number}" if self.number else ""

    @property
    def prefix(self) -> str:
        """What every network namespace and pod link of this cluster starts with."""
        return f"tgr{self.number}-"

    @property
    def address(self) -> str:
        """Where pods reach this machine."""
        return f"10.244.{self.number}.1" if self.number else "127.0.0.1"

    @property
    def pod_subnet(self) -> str:
        return f"10.244.{self.number}.0/24"

    @property
    def fake_subnet(self) -> str:
        return f"198.18.{16 * self.number}.0/20"

    @property
    def service_subnet(self) -> str:
        return f"198.19.{16 * self.number}.0/20"

    @property
    def subnets(self) -> tuple[str, str, str]:
        return self.pod_subnet, self.fake_subnet, self.service_subnet


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    hardware: str
    master: str = ""


def hardware_address(folder: Path) -> str:
    """A locally administered address that stands for the cluster in `folder`."""
    octets = hashlib.sha256(str(folder).encode()).digest()[:5]
    return ":".join(["02", *(f"{octet:02x}" for octet in octets)])


def free_numbers(routes: Iterable[str]) -> list[int]:
    """The numbers none of whose ranges meets a route or an address of this machine."""
    used = [
        ipaddress.ip_network(route, strict=False)
        for route in routes
        if route != "default" and ":" not in route
    ]
    return [
        number
        for number in NUMBERS
        if not any(
            ipaddress.ip_network(subnet).overlaps(network)
            for subnet in Network(number).subnets
            for network in used
            if network.prefixlen > 0
        )
    ]


def create(folder: Path) -> Network:
    """Make the bridge of the first number that is free, with its address and routes."""
    for number in free_numbers(_routes()):
        network = Network(number)
        made = _ip(
            "link",
            "add",
            "name",
            network.bridge,
            "address",
            hardware_address(folder),
            "type",
            "bridge",
        )
        if made.returncode == 0:
            _must("addr", "add", f"{network.address}/24", "dev", network.bridge)
            _must("link", "set", network.bridge, "up")
            for subnet in (network.fake_subnet, network.service_subnet):
                _must("route", "add", subnet, "dev", network.bridge)
            return network
        if "File exists" not in made.stderr:
            raise ClusterError(f"cannot make the bridge {network.bridge}: {made.stderr.strip()}")
    raise ClusterError(
        f"no free cluster number in {NUMBERS[0]} to {NUMBERS[-1]}: each has a bridge, or a route"
        " into its ranges",
        hint="python -m e2e down --all takes down what is left of earlier clusters",
    )


def remove(folder: Path) -> None:
    """Take away every link and namespace of the cluster in `folder`; nothing there is fine."""
    links = _links()
    for bridge in bridges_of(folder, links):
        prefix = f"{bridge}-"
        for namespace in namespaces(prefix):
            _ip("netns", "del", namespace)
        for link in links:
            if link.master == bridge or link.name.startswith(prefix):
                _ip("link", "del", link.name)
        _ip("link", "del", bridge)
        if any(link.name == bridge for link in _links()):
            raise ClusterError(f"the bridge {bridge} cannot be removed")


def bridges_of(folder: Path, links: Iterable[Link]) -> list[str]:
    mine = hardware_address(folder)
    return [link.name for link in links if _LINK.fullmatch(link.name) and link.hardware == mine]


def own_bridges(folder: Path) -> list[str]:
    return bridges_of(folder, _links())


def namespaces(prefix: str) -> list[str]:
    if not NAMESPACES.is_dir():
        return []
    return sorted(found.name for found in NAMESPACES.iterdir() if found.name.startswith(prefix))


def _links() -> list[Link]:
    done = _ip("-j", "link", "show")
    if done.returncode:
        return []
    return [
        Link(each["ifname"], each.get("address", ""), each.get("master", ""))
        for each in json.loads(done.stdout or "[]")
    ]


def _routes() -> list[str]:
    return [each["dst"] for each in json.loads(_must("-j", "-4", "route", "show", "table", "all"))]


def _must(*arguments: str) -> str:
    done = _ip(*arguments)
    if done.returncode:
        raise ClusterError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(["ip"], 127, "", "the command ip is not installed")
