"""systemd's readiness protocol: one datagram per word to the socket it names in the environment."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

#: Should systemd name no interval, nothing watches and nothing is sent.
_WATCHDOG: Final = "WATCHDOG_USEC"


def notify(word: str) -> bool:
    """Tell systemd `word` ("READY=1", "STOPPING=1", "STATUS=..."); False where none listens.

    Never raises: an agent that was started by hand has no such socket.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket, as systemd spells it
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.setblocking(False)
            line.sendto(word.encode(), address)
    except OSError:
        return False
    return True


def watchdog_period_s() -> float:
    """Half of what systemd waits before it takes the agent for dead; 0: it does not watch."""
    text = os.environ.get(_WATCHDOG, "")
    return int(text) / 2e6 if text.isdecimal() else 0.0


async def keep_watchdog(period_s: float) -> None:
    """For ever: say that this event loop still turns."""
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(period_s)
