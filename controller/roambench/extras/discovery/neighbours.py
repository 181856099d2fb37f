"""The neighbours in this machine's networks: the kernel's neighbour table, filled by a gentle sweep first."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

import psutil

from roambench.contract.errors import ConfigError
from roambench.extras.discovery.sighting import Sighting, sighting

_TABLE: Final = Path("/proc/net/arp")
_COMPLETE: Final = 0x2
_DISCARD: Final = 9
#: The kernel keeps 128 entries before it collects the oldest: the table is read after each block.
_BLOCK: Final = 64
_PAUSE_S: Final = 0.005
_ANSWER_S: Final = 1.0
_WIDEST: Final = 20


def neighbours(table: Path = _TABLE) -> list[Sighting]:
    """Machines that have answered an ARP request, as the kernel remembers them."""
    try:
        lines = table.read_text("ascii", "replace").splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()  # address, hardware type, flags, MAC, mask, device
        with suppress(IndexError, ValueError):
            if int(words[2], 16) & _COMPLETE:
                found.append(sighting("neighbour", words[0], words[3]))
    return [one for one in found if one is not None]


def swept(subnet: str) -> list[Sighting]:
    """The neighbours in `subnet` after one datagram to the discard port of each address.

    ConfigError for a network that this machine is not in: no ARP goes there.
    """
    network = _network(subnet)
    seen: dict[str, Sighting] = {}
    hosts = list(network.hosts())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        for start in range(0, len(hosts), _BLOCK):
            for address in hosts[start : start + _BLOCK]:
                with suppress(OSError):
                    line.sendto(b"", (str(address), _DISCARD))
                time.sleep(_PAUSE_S)
            time.sleep(_ANSWER_S)
            seen |= {one.address: one for one in neighbours() if IPv4Address(one.address) in network}
    return list(seen.values())


def _network(subnet: str) -> IPv4Network:
    try:
        network = IPv4Network(subnet)
    except ValueError:
        raise ConfigError(
            [f"--subnet: expected an IPv4 network as 192.168.50.0/24, got {subnet!r}"]
        ) from None
    if network.prefixlen < _WIDEST:
        raise ConfigError([f"--subnet: expected a network of at most /{_WIDEST}, got {subnet!r}"])
    own = list(_own_networks())
    if not any(network.overlaps(one) for one in own):
        known = ", ".join(sorted(map(str, own))) or "none"
        raise ConfigError([f"--subnet: expected a network that this machine is in ({known}), got {subnet!r}"])
    return network


def _own_networks() -> Iterator[IPv4Network]:
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and one.netmask:
                network = IPv4Network(f"{one.address}/{one.netmask}", strict=False)
                if not network.is_loopback:
                    yield network


def own_addresses() -> set[str]:
    """This machine's."""
    every = (one for addresses in psutil.net_if_addrs().values() for one in addresses)
    return {one.address for one in every if one.family == socket.AF_INET}
