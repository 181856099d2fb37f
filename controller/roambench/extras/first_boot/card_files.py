"""Files that a first boot lays in the board's root file system, by any way.

They are the lab's and not provisioning's: `fleet unprovision` leaves a board on its network.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from typing import Final

from roambench.extras.first_boot.settings import FirstBoot

_CONNECTIONS: Final = "/etc/NetworkManager/system-connections"


@dataclass(frozen=True, slots=True)
class CardFile:
    """Root's. ASCII text without an end of file in it: it goes through a here-document."""

    path: str
    content: str
    mode: int = 0o644


def common_files(settings: FirstBoot) -> list[CardFile]:
    """SSH lets keys in alone; the clock follows the bench's server; the radio never sleeps."""
    sshd = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\n"
    if settings.ssh_port != 22:
        sshd = f"Port {settings.ssh_port}\n{sshd}"
    clock = f"[Time]\nNTP={settings.time_server}\n"
    files = [
        CardFile("/etc/ssh/sshd_config.d/10-bench.conf", sshd),
        CardFile("/etc/systemd/timesyncd.conf.d/bench.conf", clock),
    ]
    if settings.ssid:
        saving = (
            "[connection]\n# 2: none. It would delay each answer, and the clock with it.\nwifi.powersave=2\n"
        )
        files.append(CardFile("/etc/NetworkManager/conf.d/bench.conf", saving))
    return files


def connection_file(settings: FirstBoot) -> CardFile | None:
    """NetworkManager's own keyfile; None where it does the right thing by itself: a cable and a router."""
    if not settings.ssid and not settings.address:
        return None
    kind = "wifi" if settings.ssid else "ethernet"
    lines = [
        *("[connection]", "id=bench", f"type={kind}", f"interface-name={settings.interface}"),
        "autoconnect=true",
    ]
    if settings.ssid:
        # As bytes no letter of it means anything to a reader of the file.
        ssid = "".join(f"{byte};" for byte in settings.ssid.encode())
        lines += ["[wifi]", "mode=infrastructure", f"ssid={ssid}", f"hidden={str(settings.hidden).lower()}"]
        lines += ["[wifi-security]", "key-mgmt=wpa-psk", f"psk={settings.psk}"]
    for version in (4, 6):  # the router gives an address of the family that has no fixed one
        lines.append(f"[ipv{version}]")
        if settings.address and ip_interface(settings.address).version == version:
            gateway = f",{settings.gateway}" if settings.gateway else ""
            lines += ["method=manual", f"address1={settings.address}{gateway}"]
        else:
            lines.append("method=auto")
        if settings.dns and ip_address(settings.dns).version == version:
            lines.append(f"dns={settings.dns};")
    return CardFile(f"{_CONNECTIONS}/bench.nmconnection", "\n".join(lines) + "\n", 0o600)
