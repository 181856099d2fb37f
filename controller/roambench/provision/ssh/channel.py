"""One command over one SSH channel: bytes in, bytes out, bounded in time and size."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import paramiko

Sink = Callable[[bytes], None]
#: What a command reads: all of it, a file of this machine, or pieces as they are wanted.
Input = bytes | Path | Iterator[bytes]

_PIECE_BYTES: Final = 256 * 1024
_LAST_S: Final = 2.0  # what a connection that is gone takes at most to say so
#: The exit code of a command that a signal ended: paramiko does not say which.
SIGNALLED: Final = -1


class TooMuch(Exception):
    """A command's output is larger than it may be."""


class ConnectionEnded(OSError):
    """It was lost before the command's exit code came: how the command ended is unknown."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The end of a command: its exit code (`SIGNALLED`: none), and both its outputs."""

    exit_code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """The output as text."""
        return self.out.decode(errors="replace")

    @property
    def why(self) -> str:
        """The last line it complained with, or its exit code."""
        lines = [line.strip() for line in self.err.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else ending(self.exit_code)


def ending(exit_code: int) -> str:
    """In words."""
    return "killed by a signal (out of memory?)" if exit_code == SIGNALLED else f"exit code {exit_code}"


def perform(
    channel: paramiko.Channel,
    command: str,
    stdin: Input,
    *,
    timeout_s: float,
    most_bytes: int,
    first: bytes = b"",
) -> CommandResult:
    """Run `command` to its end and keep what it says; TooMuch beyond `most_bytes` of either output.

    What else can go wrong is as with `stream`.
    """
    outputs = io.BytesIO(), io.BytesIO()

    def keep(output: io.BytesIO, piece: bytes) -> None:
        output.write(piece)
        if output.tell() > most_bytes:
            raise TooMuch

    sinks = [partial(keep, output) for output in outputs]
    exit_code = stream(channel, command, stdin, sinks[0], sinks[1], timeout_s=timeout_s, first=first)
    return CommandResult(exit_code, outputs[0].getvalue(), outputs[1].getvalue())


def stream(
    channel: paramiko.Channel,
    command: str,
    stdin: Input | None,
    out: Sink,
    err: Sink,
    *,
    timeout_s: float,
    first: bytes = b"",
) -> int:
    """Run `command` to its end, pass on what it says as it comes, and return its exit code.

    `first` goes before its input. Without `stdin` (None) its input stays open as long. TimeoutError after
    `timeout_s`, ConnectionEnded where no exit code comes any more; what a sink raises ends the command. Both
    sinks are called from threads, each from one.

    Input and both outputs move at once, each in its own thread: the outputs share one window, and a
    command whose outputs are not taken stops reading its input. No thread selects on the channel: its one
    descriptor for two streams may miss what arrives while the other stream is emptied.
    """
    deadline = time.monotonic() + timeout_s
    _ask(channel, command, deadline)
    with ThreadPoolExecutor(3) as pool:
        moving = (
            pool.submit(_take, channel, channel.recv, deadline, out),
            pool.submit(_take, channel, channel.recv_stderr, deadline, err),
            pool.submit(_send, channel, stdin, deadline, first),
        )
        try:
            for output in moving[:2]:
                output.result()
            if not channel.status_event.wait(_left(deadline)):
                raise TimeoutError
            exit_code = channel.recv_exit_status()
        finally:
            channel.close()  # threads that wait for it go on
    moving[2].result()
    if exit_code == SIGNALLED:  # or no process was left to report the end
        transport = channel.get_transport()
        transport.join(_LAST_S)
        if not transport.is_active():
            raise ConnectionEnded
    return exit_code


def _give_up(channel: paramiko.Channel) -> None:
    with suppress(EOFError, OSError, paramiko.SSHException):  # the connection may have ended by itself
        channel.close()


def _ask(channel: paramiko.Channel, command: str, deadline: float) -> None:
    """paramiko itself waits for ever for the word that the command was begun."""
    enough = threading.Timer(_left(deadline), _give_up, (channel,))
    enough.start()
    try:
        channel.exec_command(command)
    except paramiko.SSHException:
        _left(deadline)
        raise
    finally:
        enough.cancel()


def _take(channel: paramiko.Channel, receive: Callable[[int], bytes], deadline: float, sink: Sink) -> None:
    while True:
        channel.settimeout(_left(deadline))
        piece = receive(_PIECE_BYTES)
        if not piece:
            return
        try:
            sink(piece)
        except BaseException:
            channel.close()  # the thread of the other output goes on
            raise


def _send(channel: paramiko.Channel, stdin: Input | None, deadline: float, first: bytes) -> None:
    try:
        for piece in chain([first] if first else [], _pieces(b"" if stdin is None else stdin)):
            channel.settimeout(_left(deadline))
            channel.sendall(piece)
        if stdin is None:  # its input ends when the channel does
            channel.status_event.wait(_left(deadline))
            return
        channel.shutdown_write()
    except TimeoutError:
        raise
    except OSError:
        if not channel.closed and not channel.eof_received:
            channel.close()  # threads of the command's outputs go on
            raise  # otherwise the command ended without reading: its exit code tells more


def _pieces(stdin: Input) -> Iterator[bytes]:
    if not isinstance(stdin, bytes | Path):
        yield from stdin
        return
    with stdin.open("rb") if isinstance(stdin, Path) else io.BytesIO(stdin) as source:
        while piece := source.read(_PIECE_BYTES):
            yield piece


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
