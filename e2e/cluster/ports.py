"""Free ports, held until their part listens on them.

A port is chosen below the kernel's ephemeral range, so that no outgoing connection takes it later,
and bound without any reuse, so that only one of all choosers on the machine gets it. Then
SO_REUSEADDR is set on the bound socket: it goes on keeping others from choosing the port, but lets
the part, whose Go runtime or http.server sets the same option, bind and listen beside it, since we
never listen. So between our choice and the part's bind there is no gap.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

FIRST = 20000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class PortHolder:
    """Chooses ports and holds them until `release`, or until our process ends."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def choose(self, address: str = "127.0.0.1") -> int:
        for port in candidates(
            ephemeral_first(_RANGE.read_text(encoding="ascii")), random.Random()
        ):
            holder = socket.socket()
            try:
                holder.bind((address, port))
            except OSError:
                holder.close()
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.append(holder)
            return port
        raise OSError(f"no free port on {address}")

    def release(self) -> None:
        while self._held:
            self._held.pop().close()


def ephemeral_first(text: str) -> int:
    """The first ephemeral port, from the text of ip_local_port_range."""
    return int(text.split()[0])


def candidates(ephemeral: int, chance: random.Random) -> Iterator[int]:
    """Every port worth a try, once each, in random order."""
    last = ephemeral if ephemeral > FIRST + 1000 else 65536
    ports = list(range(FIRST, last))
    chance.shuffle(ports)
    yield from ports
