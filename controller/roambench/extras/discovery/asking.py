"""The identity of a machine, asked over SSH: its board's serial number, its model, its interfaces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.printable import printable
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script

_MOST_BYTES: Final = 1 << 16
_LONGEST: Final = 100
_NUMBERED: Final = re.compile(r"[0-9]+:")
_SCRIPT: Final = Script(r"""
# ask a board what it is
for what in serial-number model; do
    printf '%s ' $what
    tr -d '\000' <"/proc/device-tree/$what"
    echo
done 2>/dev/null
printf 'name '; uname -n
PATH=$PATH:/usr/sbin:/sbin
ip -o link show
ip -4 -o address show
ip -6 -o address show scope global
""")


@dataclass(frozen=True, slots=True)
class BoardAnswer:
    """`serial` and `model` are the board's, "" where there is none; `macs` and IPv4 `addresses` by interface,
    `interfaces` by IPv6 address."""

    serial: str = ""
    model: str = ""
    name: str = ""
    macs: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    interfaces: dict[str, str] = field(default_factory=dict)

    def interface_of(self, address: str) -> str:
        """The interface that has the address; "" if none is known to."""
        ipv4 = {found: link for link, found in self.addresses.items()}
        return ipv4.get(address) or self.interfaces.get(address, "")


def ask(link: HostLink) -> BoardAnswer:
    """HostError if it cannot be asked. What it says is cut and made printable: it may be any machine."""
    return read_answer(link.run(_SCRIPT, most_bytes=_MOST_BYTES).out.decode("utf-8", "replace"))


def read_answer(text: str) -> BoardAnswer:
    """Return what the script printed; other lines are passed over."""
    said: dict[str, str] = {}
    macs: dict[str, str] = {}
    addresses: dict[str, str] = {}
    interfaces: dict[str, str] = {}
    for line in map(printable, text.splitlines()):
        key, _, value = line.partition(" ")
        if _NUMBERED.fullmatch(
            key
        ):  # 2: eth0@if7: <UP> ... link/ether MAC ... or 2: eth0 inet ADDRESS/24 ...
            words = value.split()
            link = words[0].partition("@")[0].rstrip(":") if words else ""
            for kind, found in (("link/ether", macs), ("inet", addresses)):
                if kind in words[:-1]:
                    found.setdefault(link, words[words.index(kind) + 1].partition("/")[0].lower())
            if "inet6" in words[:-1]:
                interfaces.setdefault(words[words.index("inet6") + 1].partition("/")[0].lower(), link)
        else:
            said.setdefault(key, value.strip()[:_LONGEST])
    addresses.pop("lo", None)
    return BoardAnswer(
        said.get("serial-number", ""),
        said.get("model", ""),
        said.get("name", ""),
        macs,
        addresses,
        interfaces,
    )
