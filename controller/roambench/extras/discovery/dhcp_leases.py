"""Lease files of DHCP servers, recognised by their content: dnsmasq's, ISC dhcpd's, Kea's.

The last two are logs: the last entry of an address counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.extras.discovery.sighting import Sighting, sighting

_HOW: Final = "lease"
_MOST_BYTES: Final = 64 << 20
_ISC_LEASE: Final = re.compile(r"^lease (\S+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_ISC_STATEMENT: Final = re.compile(
    r'^\s*(ends|binding state|hardware ethernet|client-hostname) "?([^";]*)"?;', re.MULTILINE
)
_KEA_HEAD: Final = "address,hwaddr,"


def read_leases(path: Path, now_s: float) -> list[Sighting]:
    """Leases that are not over at `now_s` (seconds since 1970); ConfigError for what is no lease file."""
    text = _text(path)
    if text.startswith(_KEA_HEAD):
        entries = _kea(text, path)
    elif re.search(r"^lease \S+ \{$", text, re.MULTILINE) or "isc-dhcp" in text[:1000]:
        entries = _isc(text)
    else:
        entries = _dnsmasq(text, path)
    last = {address: (end_s, mac, name) for address, end_s, mac, name in entries}
    seen = (
        sighting(_HOW, address, mac, name) for address, (end_s, mac, name) in last.items() if end_s > now_s
    )
    return [one for one in seen if one is not None]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError([f"--leases {path}: cannot be read: {error.strerror}"]) from None
    if len(content) > _MOST_BYTES:
        raise ConfigError([f"--leases {path}: more than {_MOST_BYTES >> 20} MiB, expected a lease file"])
    # A server may be at its last line right now.
    return content[: content.rfind(b"\n") + 1].decode("utf-8", "replace")


_Entry = tuple[str, float, str, str]  # address, end in seconds since 1970, MAC, name


def _dnsmasq(text: str, path: Path) -> Iterator[_Entry]:
    """EXPIRY MAC ADDRESS NAME|* CLIENT-ID|*; 0 never ends. Below a line "duid" leases are IPv6."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if words[0] == "duid":
            return
        if len(words) < 4 or not re.fullmatch(r"[0-9]{1,15}", words[0]):
            wanted = "a lease of dnsmasq, ISC dhcpd or Kea"
            raise ConfigError([f"--leases {path}: line {number}: expected {wanted}, got {line[:60]!r}"])
        # A MAC that is not Ethernet's has its type before it: 06-...
        yield words[2], float(words[0]) or float("inf"), words[1], words[3]


def _isc(text: str) -> Iterator[_Entry]:
    for found in _ISC_LEASE.finditer(text):
        said = dict(_ISC_STATEMENT.findall(found[2]))
        used = said.get("binding state", "active") == "active"
        end_s = _isc_end(said.get("ends", "")) if used else 0.0
        yield found[1], end_s, said.get("hardware ethernet", ""), said.get("client-hostname", "")


def _kea(text: str, path: Path) -> Iterator[_Entry]:
    """By the names of its columns: later versions have more. No cell contains a comma or a quote."""
    head, *lines = text.split("\n")
    columns = head.rstrip("\r").split(",")
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        row = dict(zip(columns, line.split(","), strict=False))
        try:
            # State 0 is a lease in use; a lifetime of 0 is one that was deleted.
            used = row["state"] == "0" and int(row["valid_lifetime"]) > 0
            yield row["address"], float(row["expire"]) if used else 0.0, row["hwaddr"], row["hostname"]
        except (KeyError, ValueError):
            raise ConfigError([f"--leases {path}: line {number}: expected a lease of Kea"]) from None


def _isc_end(text: str) -> float:
    """WEEKDAY YYYY/MM/DD HH:MM:SS in UTC, "epoch" SECONDS, or "never"; 0 for what cannot be read."""
    words = text.split()
    try:
        match words:
            case ["never", *_]:
                return float("inf")
            case ["epoch", seconds, *_]:
                return float(seconds)
            case [_, day, time]:
                return datetime.strptime(f"{day} {time}", "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    return 0.0
