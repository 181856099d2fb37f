"""The agent's side of the emulator's socket: tells what the emulated board does."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from roambench.contract.json_values import plain
from roambench.emulation.addresses import unix_address
from roambench.emulation.electric.power import Activity


class WorkFeed:
    """Sends work records; never blocks and never raises: a laptop's emulator may be away.

    It connects at the first record (so not before a fork, where a child would keep the line open after its
    parent's death, and the emulator would not see it). The line's end tells the emulator that the agent is
    gone. A record that could not be sent is counted; the next one dials again.
    """

    def __init__(self, socket_path: Path, device: str) -> None:
        self._path = socket_path
        self._device = device
        self._socket: socket.socket | None = None
        self._unsent = b""
        self.lost = 0

    def send(self, activity: Activity, ns: int) -> bool:
        """From device time `ns` on the board does `activity`; False if it was not taken."""
        record = {"device": self._device, "ns": ns, **plain(activity)}
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        # A socket whose emulator restarted shows it only on use: the second try dials afresh.
        if self._offer(line) or self._offer(line):
            return True
        self.lost += 1
        return False

    def close(self) -> None:
        """Hang up; what was not sent is dropped."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._unsent = b""

    def _offer(self, line: bytes) -> bool:
        if self._socket is None and not self._connect():
            return False
        assert self._socket is not None
        data = self._unsent + line
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False  # the emulator does not read; the record is lost, the line stays
        except OSError:
            self.close()
            return False
        self._unsent = data[sent:]
        return True

    def _connect(self) -> bool:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            with unix_address(self._path) as address:
                line.connect(address)
        except OSError:
            with contextlib.suppress(OSError):
                line.close()
            return False
        self._socket = line
        return True
