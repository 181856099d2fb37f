"""The unit at the other end of a meter's line: it tells whether a line that was lost came back as the
same meter's. "" where nothing tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TTYS: Final = Path("/sys/class/tty")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NEIGHBOURS: Final = Path("/proc/net/arp")
_COMPLETE: Final = 0x2
#: Serial numbers that a USB bridge has from its factory: as many devices share them.
_COMMON: Final = frozenset(("", "1", "123456", "12345678", "123456789", "1234567890"))
_MOST: Final = 128


def unit_of_device(path: str, ttys: Path = _TTYS, boot: Path = _BOOT) -> str:
    """The unit behind a device file.

    Of a USB device its serial number; of one whose number is common to many the plugging itself, by boot and
    the address that the kernel gave it: it has another after each time it was plugged in. A pseudo-terminal
    is known by when it was made, as its number goes to the next one that is.
    """
    real = os.path.realpath(path)
    if real.startswith("/dev/pts/"):
        try:
            return f"{real} made at {Path(real).stat().st_ctime_ns} ns"
        except OSError:
            return ""
    usb = next(
        (place for place in _above(ttys / Path(real).name / "device") if (place / "devnum").is_file()), None
    )
    if usb is None:
        return ""
    serial = _read(usb / "serial")
    kind = f"usb {_read(usb / 'idVendor')}:{_read(usb / 'idProduct')}"
    if serial.strip("0") not in _COMMON:
        return f"{kind} serial {serial}"[:_MOST]
    return f"{kind} plugged in as {_read(usb / 'busnum')}-{_read(usb / 'devnum')} since boot {_read(boot)}"[
        :_MOST
    ]


def unit_of_peer(host: str, neighbours: Path = _NEIGHBOURS) -> str:
    """The unit at an IPv4 address: its hardware address, where it is on our own network."""
    for line in _read(neighbours).splitlines()[1:]:
        words = line.split()
        if len(words) >= 6 and words[0] == host and int(words[2], 16) & _COMPLETE:
            return f"mac {words[3]}"[:_MOST]
    return ""


def _above(link: Path) -> list[Path]:
    """The folder that a link of sysfs leads to, and those above it."""
    try:
        real = link.resolve(strict=True)
    except OSError:
        return []
    return [real, *real.parents]


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return text if all(line.isprintable() for line in text.expandtabs().split("\n")) else ""
