"""Pseudo-terminals in the place of a meter's USB serial port."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
import tty
from pathlib import Path
from typing import Final

from roambench.contract.errors import MeterError
from roambench.emulation.profiles import Dialog

#: The line discipline holds 4095 bytes; beyond this the unread ones are dropped. More would wait where a
#: reader that opens the port cannot flush them, and arrive as if they were new.
UNREAD_LIMIT: Final = 3500
#: Of a meter that talks by request: what it holds back for a slow reader, 1 s of 100,000 samples. A real one
#: holds less, but is not kept from running by other processes, as this one is, and then says all at once.
HELD_LIMIT: Final = 400_000


class Terminal:
    """A pseudo-terminal that behaves like a meter's USB serial port: bytes that are not fetched are lost.

    This is the meter's end; `link_path` becomes a symlink to the other one.

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


class TalkingTerminal(Terminal):
    """The port of a meter that is spoken to: `dialog` hears what comes, and says what leaves.

    What a slow reader does not fetch is held up to HELD_LIMIT; then whole messages are lost.
    """

    def __init__(self, link_path: Path, dialog: Dialog) -> None:
        super().__init__(link_path)
        self._dialog = dialog
        self._held = b""
        asyncio.get_running_loop().add_reader(self._ours, self._hear)

    def write(self, data: bytes) -> int:
        """Send what the dialog makes of a printed line; 0 where that is nothing."""
        said = self._dialog.say(data)
        if len(self._held) + len(said) > HELD_LIMIT:
            self.lost_bytes += len(said)
            return 0
        self._send(said)
        return len(said)

    def close(self) -> None:
        """Readers see the port vanish."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._ours)
        loop.remove_writer(self._ours)
        super().close()

    def _hear(self) -> None:
        try:
            heard = os.read(self._ours, 4096)
        except OSError:
            return
        if answer := self._dialog.hear(heard):
            self._send(answer)

    def _send(self, data: bytes) -> None:
        self._held += data
        self._push()

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._held = self._held[os.write(self._ours, self._held) :] if self._held else b""
        loop = asyncio.get_running_loop()
        if self._held:
            loop.add_writer(self._ours, self._push)
        else:
            loop.remove_writer(self._ours)
