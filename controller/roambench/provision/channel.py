"""One command over one SSH channel: bytes in, bytes out, bounded in time and size."""

from __future__ import annotations

import io
import selectors
import time
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
    """Run `command` to its end. TimeoutError after `timeout_s`; OSError beyond `most_bytes` of output."""
    deadline = time.monotonic() + timeout_s
    channel.exec_command(command)
    with ThreadPoolExecutor(1) as pool:
        # By a thread of its own: both outputs share one window, and a command whose outputs nobody takes
        # stops reading its input.
        sending = pool.submit(_send, channel, stdin, deadline)
        try:
            streams = _outputs(channel, deadline, most_bytes)
            if not channel.status_event.wait(_left(deadline)):
                raise TimeoutError
            exit_code = channel.recv_exit_status()
        finally:
            channel.close()  # a sender that still waits is let go
    sending.result()
    return Ran(exit_code, bytes(streams[0]), bytes(streams[1]))


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


def _outputs(channel: paramiko.Channel, deadline: float, most_bytes: int) -> tuple[bytearray, bytearray]:
    streams = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while not _drained(channel, streams):
            if sum(map(len, streams)) > most_bytes:
                raise OSError(f"more than {most_bytes} bytes of output")
            if not selector.select(_left(deadline)):
                raise TimeoutError
    return streams


def _drained(channel: paramiko.Channel, streams: tuple[bytearray, bytearray]) -> bool:
    """Take what is there; whether the command has closed both its outputs."""
    ended = channel.eof_received or channel.closed
    while channel.recv_ready():
        streams[0].extend(channel.recv(_PIECE_BYTES))
    while channel.recv_stderr_ready():
        streams[1].extend(channel.recv_stderr(_PIECE_BYTES))
    return bool(ended)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
