"""The neighbours in this machine's networks: the kernel's neighbour table, filled by a gentle sweep first."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
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
_MOST_ADDRESSES: Final = 1 << (32 - _WIDEST)
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_ALL_NODES: Final = "ff02::1"
_ECHO_REQUEST: Final = 128
_PINGS: Final = 3

Network = IPv4Network | IPv6Network


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


def neighbours_of_ipv6(listed: str) -> list[Sighting]:
    """Machines in the text of `ip -6 -o neigh show`: ADDRESS dev LINK lladdr MAC [router] STATE."""
    found = []
    for line in listed.splitlines():
        words = line.split()
        if "lladdr" in words[:-1] and words[-1] != "FAILED":
            found.append(sighting("neighbour", words[0], words[words.index("lladdr") + 1]))
    return [one for one in found if one is not None]


def swept(subnet: str) -> list[Sighting]:
    """The neighbours in `subnet`, woken first: each address of a small network by a datagram to its discard
    port, all machines of a large one of IPv6 by one ping.

    ConfigError for a network that this machine is not in: no question for a MAC goes there.
    """
    network = _network(subnet)
    if network.num_addresses > _MOST_ADDRESSES:
        answered = _pinged(network)
        seen = {one.address: one for one in _known(network)}
        others = (sighting("ping", address) for address in answered if address not in seen)
        return [*seen.values(), *(one for one in others if one is not None)]
    seen = {}
    hosts = list(network.hosts())
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        for start in range(0, len(hosts), _BLOCK):
            for address in hosts[start : start + _BLOCK]:
                with suppress(OSError):
                    line.sendto(b"", (str(address), _DISCARD))
                time.sleep(_PAUSE_S)
            time.sleep(_ANSWER_S)
            seen |= {one.address: one for one in _known(network)}
    return list(seen.values())


def _known(network: Network) -> list[Sighting]:
    found = neighbours()
    if network.version == 6:
        words = ["ip", "-6", "-o", "neigh", "show"]
        try:
            ran = subprocess.run(
                words, capture_output=True, text=True, errors="replace", timeout=10.0, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError([f"--subnet: ip -6 neigh cannot be asked: {error}"]) from None
        found = neighbours_of_ipv6(ran.stdout)
    return [one for one in found if ip_address(one.address) in network]


def _pinged(network: Network) -> set[str]:
    """The addresses in `network` that answer a ping to all nodes, which leaves from our own address there."""
    answered: set[str] = set()
    for name, addresses in psutil.net_if_addrs().items():
        own = [one.address for one in addresses if one.family == socket.AF_INET6 and "%" not in one.address]
        for address in (address for address in own if ip_address(address) in network):
            answered |= _answers(address, socket.if_nametoindex(name))
    return {address for address in answered if ip_address(address) in network}


def _answers(own: str, interface: int) -> set[str]:
    found: set[str] = set()
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6) as line:
            line.bind((own, 0))
            for number in range(_PINGS):
                echo = struct.pack("!BBHHH", _ECHO_REQUEST, 0, 0, 0, number)
                line.sendto(echo, (_ALL_NODES, 0, 0, interface))
                ends_s = time.monotonic() + _ANSWER_S
                while (left_s := ends_s - time.monotonic()) > 0.0:
                    line.settimeout(left_s)
                    with suppress(TimeoutError):
                        found.add(str(line.recvfrom(64)[1][0]).partition("%")[0])
    except PermissionError:
        raise ConfigError(
            ["--subnet: this user may not ping: sysctl net.ipv4.ping_group_range, or name a network of /116"]
        ) from None
    except OSError as error:
        raise ConfigError([f"--subnet: no ping leaves from {own}: {error.strerror or error}"]) from None
    return found


def _network(subnet: str) -> Network:
    try:
        network = ip_network(subnet)
    except ValueError:
        raise ConfigError(
            [f"--subnet: expected a network as 192.168.50.0/24 or 2001:db8::/64, got {subnet!r}"]
        ) from None
    if network.version == 4 and network.num_addresses > _MOST_ADDRESSES:
        raise ConfigError([f"--subnet: expected a network of at most /{_WIDEST}, got {subnet!r}"])
    own = list(_own_networks())
    if not any(network.version == one.version and network.overlaps(one) for one in own):
        known = ", ".join(sorted(map(str, own))) or "none"
        raise ConfigError([f"--subnet: expected a network that this machine is in ({known}), got {subnet!r}"])
    return network


def _own_networks() -> Iterator[Network]:
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family in _FAMILIES and one.netmask and "%" not in one.address:
                bits = int(ip_address(one.netmask)).bit_count()
                network = ip_network(f"{one.address}/{bits}", strict=False)
                if not network.is_loopback:
                    yield network


def own_addresses() -> set[str]:
    """This machine's."""
    every = (one for addresses in psutil.net_if_addrs().values() for one in addresses)
    return {one.address.partition("%")[0] for one in every if one.family in _FAMILIES}
