"""The search as a whole: sources, questions to those that are boards, and what the bench knows already."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from roambench.extras.discovery.asking import BoardAnswer, ask
from roambench.extras.discovery.boards import FoundBoard, SeenAddress, boards, seen_addresses
from roambench.extras.discovery.dhcp_leases import read_leases
from roambench.extras.discovery.mdns import browsed
from roambench.extras.discovery.neighbours import neighbours, own_addresses, swept
from roambench.extras.discovery.sighting import Sighting
from roambench.provision.bench import NO_METER, Bench, ControllerEntry, Host, MeterEntry
from roambench.provision.ssh.hosts import on_hosts
from roambench.provision.ssh.options import NoOptionsError, ssh_options

_MDNS_S: Final = 3.0
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class StrangerLogin:
    """The login by which unknown machines are asked; None leaves it to the user's SSH configuration."""

    user: str | None
    key: Path | None
    port: int | None = None


def look(subnets: Sequence[str], leases: Sequence[Path], *, mdns: bool) -> list[Sighting]:
    """All that these sources and the neighbour table have: of `subnets`, if any are named, and of all leases.
    ConfigError for a source that is none."""
    leased = [one for path in leases for one in read_leases(path, time.time())]
    seen = [one for subnet in subnets for one in swept(subnet)]
    if mdns:
        seen += browsed(_MDNS_S)
    # Last: each answer has made the kernel ask for its sender's MAC.
    seen += neighbours()
    own = own_addresses()
    return [one for one in (*leased, *inside(seen, subnets)) if one.address not in own]


def inside(seen: Sequence[Sighting], subnets: Sequence[str]) -> list[Sighting]:
    """Those in one of `subnets`, all where none is named."""
    networks = [ip_network(subnet, strict=False) for subnet in subnets]
    return [
        one for one in seen if not networks or any(ip_address(one.address) in network for network in networks)
    ]


def found_boards(seen: Sequence[Sighting], login: StrangerLogin | None, *, every: bool) -> list[FoundBoard]:
    """Those with a Raspberry Pi's MAC, or `every` machine; asked over SSH unless `login` is None."""
    candidates = [one for one in seen_addresses(seen) if every or one.is_raspberry_pi]
    answers_at: dict[str, BoardAnswer] = {}
    troubles: dict[str, str] = {}
    if login is not None:
        with tempfile.TemporaryDirectory() as scratch:
            hosts = [_stranger(one, number, login) for number, one in enumerate(candidates, start=1)]
            for one in on_hosts(_nobodys_bench(Path(scratch)), hosts, ask, at_once=_AT_ONCE):
                if one.value is None:
                    troubles[one.host.address] = one.reason
                else:
                    answers_at[one.host.address] = one.value
    return boards(candidates, answers_at, troubles)


def unknown_to(bench: Bench, found: Sequence[FoundBoard]) -> list[FoundBoard]:
    """Boards that no host of the bench is, by any of its addresses or its name in the network."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # a name that is not resolved takes its time
        known = set().union(*pool.map(_known_as, bench.hosts))
    return [
        board
        for board in found
        if known.isdisjoint(board.addresses)
        and (not board.name or known.isdisjoint((board.name, f"{board.name}.local")))
    ]


def _known_as(host: Host) -> set[str]:
    """Its address as the bench and the user's SSH configuration have it, and what that resolves to."""
    names = {host.address.lower()}
    with suppress(NoOptionsError):
        names.add(ssh_options(host.address, host.ssh_user, host.ssh_port).address.lower())
    resolved: set[str] = set()
    for name in names:
        with suppress(OSError):
            resolved |= {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}
    return names | resolved


def seen_from(address: str) -> str:
    """This machine's address as `address` sees it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.connect((address, 9))
        return str(line.getsockname()[0])


def _stranger(seen: SeenAddress, number: int, login: StrangerLogin) -> Host:
    meter = MeterEntry(NO_METER, "", "", 1.0, 0.0, "", emulated=False)
    return Host(
        name=seen.address,
        address=seen.address,
        ssh_user=login.user,
        ssh_port=login.port,
        ssh_key=login.key,
        slot=number,
        meter=meter,
        interface="",
        tags=(),
    )


def _nobodys_bench(folder: Path) -> Bench:
    """Host keys of strangers are recorded nowhere: the bench's own first login does that."""
    return Bench(
        name="discover",
        file=folder / "discover.toml",
        hosts=(),
        controller=ControllerEntry("", "", 0, 0),
        influxdb=None,
        time_server="",
        state_dir=folder,
    )
