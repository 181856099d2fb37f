"""One source saw one machine at one address; what others say of it is cleaned before it is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Final

#: Raspberry Pi's prefixes in the IEEE's registry, as netaddr 1.3.0 has it; the last one is newer.
_RASPBERRY_PI: Final = ("b8:27:eb", "dc:a6:32", "e4:5f:01", "28:cd:c1", "d8:3a:dd", "2c:cf:67", "88:a2:9e")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Sighting:
    """`how` is "lease", "neighbour" or "mDNS"; `mac` and `name` are "" where that source has none."""

    how: str
    address: str
    mac: str
    name: str


def sighting(how: str, address: str, mac: str = "", name: str = "") -> Sighting | None:
    """None for what is no address of a machine beyond a link; a MAC or a name that is none is left out."""
    try:
        place = ip_address(address)
    except ValueError:
        return None
    if (
        place.is_multicast
        or place.is_unspecified
        or place.is_loopback
        or (place.version == 6 and place.is_link_local)
        or place == IPv4Address("255.255.255.255")
    ):
        return None
    hardware = mac.lower().replace("-", ":")
    label = name.lower().partition(".")[0]
    return Sighting(
        how,
        str(place),
        hardware if _MAC.fullmatch(hardware) and hardware != "00:00:00:00:00:00" else "",
        label if _NAME.fullmatch(label) else "",
    )


def made_by_raspberry_pi(mac: str) -> bool:
    """By its prefix. A board whose MAC was changed is not known by it."""
    return mac.startswith(_RASPBERRY_PI)
