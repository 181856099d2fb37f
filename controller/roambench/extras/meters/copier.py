"""A process that fetches a serial port's bytes into a large pipe, so that no byte waits for Python.

The kernel holds 4 KiB of a serial port, and 64 KiB before that: at 400 kB/s a reader that is kept from
running for 0.2 s, by other processes or by its other threads, loses samples. `cat` does nothing else;
the pipe holds 2.6 s.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import termios
from typing import Final

_HELD: Final = 2**20  # what a user may ask for (/proc/sys/fs/pipe-max-size)
_PRIORITY: Final = -10


class Copier:
    """`path`, which is open as `fd` and set up, as a pipe; OSError where it cannot be opened again."""

    def __init__(self, path: str, fd: int) -> None:
        settings = termios.tcgetattr(fd)
        settings[6][termios.VMIN] = 1  # a blocking read waits for a byte; pyserial's 0 would be an end
        termios.tcsetattr(fd, termios.TCSANOW, settings)
        port = os.open(path, os.O_RDONLY | os.O_NOCTTY)
        self._pipe, into = os.pipe()
        try:
            with contextlib.suppress(OSError):  # the users' share of pipes is used up: it stays at 64 KiB
                fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _HELD)
            self._process = subprocess.Popen(["cat"], stdin=port, stdout=into, stderr=subprocess.DEVNULL)
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(port)
            os.close(into)
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _PRIORITY)

    def fileno(self) -> int:
        """The pipe's end to read from: nothing more to read means that the port has gone."""
        return self._pipe

    def close(self) -> None:
        """End the process; the port stays open where it was."""
        self._process.kill()
        self._process.wait()
        os.close(self._pipe)
