"""A pseudo-terminal that behaves like a meter's USB serial port: bytes nobody fetched are lost, not kept."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from pathlib import Path
from typing import Final

from roambench.contract.errors import MeterError

#: The line discipline holds 4095 bytes; beyond this the unread ones are thrown away. More would wait where a
#: reader that opens the port cannot flush them, and arrive as if they were new.
UNREAD_LIMIT: Final = 3500


class Terminal:
    """The meter's end; `link_path` becomes a symlink to the other one.

    The other end is kept open here too, so that readers may come and go without the port vanishing.
    """

    def __init__(self, link_path: Path) -> None:
        self._link = link_path
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)
        self.lost_bytes = 0
        draft = link_path.with_name(link_path.name + ".new")
        try:
            draft.unlink(missing_ok=True)
            draft.symlink_to(os.ttyname(self._theirs))
            draft.replace(link_path)
        except OSError as error:
            raise MeterError(f"meter port {link_path}: cannot be made ({error.strerror})") from None

    def write(self, data: bytes) -> int:
        """Send; never blocks. Returns how many bytes the port took."""
        (unread,) = struct.unpack("i", fcntl.ioctl(self._theirs, termios.FIONREAD, b"\0\0\0\0"))
        if unread + len(data) > UNREAD_LIMIT:
            termios.tcflush(self._theirs, termios.TCIFLUSH)
            self.lost_bytes += unread
        try:
            sent = os.write(self._ours, data)
        except BlockingIOError:
            sent = 0
        self.lost_bytes += len(data) - sent
        return sent

    def close(self) -> None:
        """Readers see the port vanish."""
        self._link.unlink(missing_ok=True)
        os.close(self._ours)
        os.close(self._theirs)
