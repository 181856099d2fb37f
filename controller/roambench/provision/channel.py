"""One command over one SSH channel: bytes in, bytes out, bounded in time and size."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

_PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command ended with."""

    exit_code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode(errors="replace")

    @property
    def why(self) -> str:
        """The last line it complained with, or its exit code."""
        lines = [line.strip() for line in self.err.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.exit_code}"


def perform(
    channel: paramiko.Channel, command: str, stdin: bytes | Path, *, timeout_s: float, most_bytes: int
) -> Ran:
    """Run `command` to its end. TimeoutError after `timeout_s`; OSError beyond `most_bytes` of either output.

    Input and both outputs move at once, each in a thread of its own: the outputs share one window, and a
    command whose outputs nobody takes stops reading its input. Nobody selects on the channel: its one
    descriptor for two streams may miss what arrives while the other stream is emptied.
    """
    deadline = time.monotonic() + timeout_s
    _ask(channel, command, deadline)
    with ThreadPoolExecutor(3) as pool:
        moving = (
            pool.submit(_take, channel, channel.recv, deadline, most_bytes),
            pool.submit(_take, channel, channel.recv_stderr, deadline, most_bytes),
            pool.submit(_send, channel, stdin, deadline),
        )
        try:
            out, err = (output.result() for output in moving[:2])
            if not channel.status_event.wait(_left(deadline)):
                raise TimeoutError
            exit_code = channel.recv_exit_status()
        finally:
            channel.close()  # whoever still waits is let go
    moving[2].result()
    return Ran(exit_code, out, err)


def _ask(channel: paramiko.Channel, command: str, deadline: float) -> None:
    """paramiko itself waits for ever for the word that the command was begun."""
    enough = threading.Timer(_left(deadline), channel.close)
    enough.start()
    try:
        channel.exec_command(command)
    except paramiko.SSHException:
        _left(deadline)
        raise
    finally:
        enough.cancel()


def _take(
    channel: paramiko.Channel, receive: Callable[[int], bytes], deadline: float, most_bytes: int
) -> bytes:
    taken = bytearray()
    while True:
        channel.settimeout(_left(deadline))
        piece = receive(_PIECE_BYTES)
        if not piece:
            return bytes(taken)
        taken.extend(piece)
        if len(taken) > most_bytes:
            channel.close()
            raise OSError(f"more than {most_bytes} bytes of output")


def _send(channel: paramiko.Channel, stdin: bytes | Path, deadline: float) -> None:
    try:
        with stdin.open("rb") if isinstance(stdin, Path) else io.BytesIO(stdin) as source:
            while piece := source.read(_PIECE_BYTES):
                channel.settimeout(_left(deadline))
                channel.sendall(piece)
        channel.shutdown_write()
    except TimeoutError:
        raise
    except OSError:
        if not channel.closed and not channel.eof_received:
            channel.close()  # whoever waits for the command's outputs need wait no more
            raise  # otherwise the command ended without reading: its exit code tells more


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
