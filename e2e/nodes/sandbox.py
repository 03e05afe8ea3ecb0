"""A pod's network: a namespace with one link to the cluster's bridge.

The namespace has no name and no file: it is there as long as the sandbox process is, and the link
goes with it. The end that hangs on the bridge is called PREFIX plus the number of the address, so
that names are as unique as addresses are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.nodes.addresses import Addresses
from e2e.nodes.container import Launched

START_S = 30.0
LINK_NAME_MAX = 15


class SandboxError(Exception):
    """The pod's network cannot be made; the sentence says why. It is tried again."""


@dataclass(frozen=True, slots=True)
class Network:
    """What all pods of a cluster share."""

    bridge: str
    prefix: str
    addresses: Addresses


class Sandbox:
    """Raises SandboxError or NoAddressLeft on creation."""

    def __init__(
        self, network: Network, *, hostname: str, memory: Mapping[Path, int], env: dict[str, str]
    ) -> None:
        """memory: folders that become file systems in memory, with their sizes in bytes; 0 is the
        kernel's default."""
        self._network = network
        self._offset = network.addresses.take()
        self.address = network.addresses.subnet.address(self._offset)
        self._process: Launched | None = None
        try:
            sizes = {str(folder): size for folder, size in memory.items()}
            order = {"role": "sandbox", "hostname": hostname, "memory": sizes}
            self._process = Launched(order, env)
            self._process.running.wait(START_S)
            if not self._process.pid:
                raise SandboxError(self._process.error or "the pod's sandbox did not start")
            self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """The namespace, the link and all that still runs in them are gone afterwards."""
        if self._process is not None:
            self._process.destroy()
            self._process.wait(START_S)
            self._process = None
            _run(["ip", "link", "del", self._link], may_fail=True)
            self._network.addresses.give_back(self._offset)

    @property
    def _link(self) -> str:
        return f"{self._network.prefix}{self._offset}"

    def _connect(self) -> None:
        link, subnet = self._link, self._network.addresses.subnet
        # Left from a namespace that is not quite gone: the kernel takes it down a moment later.
        _run(["ip", "link", "del", link], may_fail=True)
        _batch(
            ["ip"],
            f"link add {link} type veth peer name eth0 netns {self.pid}",
            f"link set {link} master {self._network.bridge}",
            f"link set {link} up",
        )
        _batch(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip"],
            "link set lo up",
            f"addr add {self.address}/{subnet.network.prefixlen} dev eth0",
            "link set eth0 up",
            f"route add default via {subnet.bridge}",
        )


def _batch(command: list[str], *lines: str) -> None:
    _run([*command, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _run(command: list[str], *, stdin: str = "", may_fail: bool = False) -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        raise SandboxError(f"{' '.join(command)}: {done.stderr.strip()}")
