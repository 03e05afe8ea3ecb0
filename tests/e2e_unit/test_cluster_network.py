"""Which number, addresses and ports a cluster gets."""

from __future__ import annotations

import ipaddress
import itertools
import random
import socket
from pathlib import Path

import pytest

from e2e.cluster import network, ports
from e2e.cluster.network import Link, Network


def test_no_two_numbers_share_an_address() -> None:
    subnets = [
        ipaddress.ip_network(subnet)
        for number in network.NUMBERS
        for subnet in Network(number).subnets
    ]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(subnets, 2))


def test_the_ranges_of_nobody_stay_within_the_benchmark_range() -> None:
    reserved = ipaddress.ip_network("198.18.0.0/15")
    for number in (0, *network.NUMBERS):
        for subnet in Network(number).subnets[1:]:
            assert ipaddress.ip_network(subnet).subnet_of(reserved)


def test_the_bridge_address_is_within_the_pod_subnet() -> None:
    cluster = Network(3)
    assert ipaddress.ip_address(cluster.address) in ipaddress.ip_network(cluster.pod_subnet)
    assert (cluster.bridge, cluster.prefix) == ("tgr3", "tgr3-")


def test_without_a_bridge_pods_would_reach_the_loopback_address() -> None:
    assert (Network(0).bridge, Network(0).address) == ("", "127.0.0.1")


@pytest.mark.parametrize(
    ("routes", "excluded"),
    [
        pytest.param(["default", "0.0.0.0/0", "192.0.2.0/24"], set(), id="a plain machine"),
        pytest.param(["10.244.2.0/24"], {2}, id="somebody's pod subnet"),
        pytest.param(["10.244.5.17"], {5}, id="one address in it"),
        pytest.param(["10.0.0.0/8"], set(network.NUMBERS), id="a wide private network"),
        pytest.param(["198.18.16.0/20"], {1}, id="the fake pods of another cluster"),
        pytest.param(["198.19.32.0/20"], {2}, id="its services"),
        pytest.param(["fe80::/64"], set(), id="the other family"),
    ],
)
def test_numbers_whose_ranges_are_in_use_are_left_out(
    routes: list[str], excluded: set[int]
) -> None:
    assert set(network.free_numbers(routes)) == set(network.NUMBERS) - excluded


def test_a_bridge_is_known_by_its_hardware_address() -> None:
    mine, other = Path("/clusters/mine"), Path("/clusters/other")
    links = [
        Link("eth0", "02:00:00:00:00:01"),
        Link("tgr1", network.hardware_address(other)),
        Link("tgr2", network.hardware_address(mine)),
        Link("tgr2-7", network.hardware_address(mine), "tgr2"),
    ]
    assert network.bridges_of(mine, links) == ["tgr2"]


def test_a_hardware_address_is_local_and_not_multicast() -> None:
    first = int(network.hardware_address(Path("/x")).split(":")[0], 16)
    assert first & 0b10
    assert not first & 0b1


def test_ports_lie_below_the_ephemeral_range() -> None:
    tried = list(ports.candidates(32768, random.Random(1)))
    assert len(tried) == len(set(tried)) == 32768 - ports.FIRST
    assert min(tried) == ports.FIRST
    assert max(tried) == 32767


def test_a_machine_that_gives_everything_to_ephemeral_ports_still_has_candidates() -> None:
    first = ports.ephemeral_first("1024\t65535\n")
    assert next(ports.candidates(first, random.Random(1))) >= ports.FIRST


def test_a_held_port_is_taken_for_choosers_and_free_for_its_part() -> None:
    holder = ports.PortHolder()
    try:
        port = holder.choose()
        with socket.socket() as chooser, pytest.raises(OSError, match="in use"):
            chooser.bind(("127.0.0.1", port))
        with socket.socket() as part:
            part.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            part.bind(("127.0.0.1", port))
            part.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
    finally:
        holder.release()


def test_two_holders_never_get_the_same_port() -> None:
    one, other = ports.PortHolder(), ports.PortHolder()
    try:
        chosen = [one.choose() for _ in range(20)] + [other.choose("0.0.0.0") for _ in range(20)]
        assert len(set(chosen)) == 40
    finally:
        one.release()
        other.release()
