"""Which pod gets which address of the subnet.

Addresses are given in turn, so that one that was freed is not used again at once: whoever still has
the old pod's address in a hosts file or a connection pool meets nobody instead of somebody else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock


class NoAddressLeft(Exception):
    """Every address of the subnet is in use."""


@dataclass(frozen=True, slots=True)
class Subnet:
    network: ipaddress.IPv4Network
    bridge: ipaddress.IPv4Address

    @classmethod
    def parse(cls, subnet: str, bridge: str) -> Subnet:
        """Raises ValueError where the bridge's address is not a host of the subnet."""
        network, address = ipaddress.IPv4Network(subnet), ipaddress.IPv4Address(bridge)
        if address not in network or address in (
            network.network_address,
            network.broadcast_address,
        ):
            raise ValueError(f"{bridge} is not the address of a host in {subnet}")
        return cls(network, address)

    def address(self, offset: int) -> str:
        return str(self.network.network_address + offset)


def next_offset(subnet: Subnet, used: Collection[int], last: int) -> int:
    """The first free host offset after `last`, going round. Raises NoAddressLeft."""
    size = subnet.network.num_addresses
    bridge = int(subnet.bridge) - int(subnet.network.network_address)
    for step in range(1, size + 1):
        offset = (last + step) % size
        if offset not in (0, bridge, size - 1) and offset not in used:
            return offset
    raise NoAddressLeft(f"no free address in {subnet.network}: {len(used)} are in use")


class Addresses:
    """The subnet's addresses in use. Safe for several threads."""

    def __init__(self, subnet: Subnet) -> None:
        self.subnet = subnet
        self._used: set[int] = set()
        self._last = 0
        self._lock = Lock()

    def take(self) -> int:
        """An offset that nobody else has until `give_back`. Raises NoAddressLeft."""
        with self._lock:
            self._last = next_offset(self.subnet, self._used, self._last)
            self._used.add(self._last)
            return self._last

    def give_back(self, offset: int) -> None:
        with self._lock:
            self._used.discard(offset)
