"""Programs of this machine that talk to switches: run within a time, and their output bounded."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from roambench.provision.power.switch import SwitchError

#: No answer of a switch is as long; a program that says more is ended.
MOST_BYTES: Final = 64 * 1024
#: Debian's package of each program, and the folders that are not on every user's PATH.
_PACKAGES: Final = {
    "curl": "curl",
    "snmpget": "snmp",
    "snmpset": "snmp",
    "ssh": "openssh-client",
    "uhubctl": "uhubctl",
}
_SYSTEM_FOLDERS: Final = "/usr/sbin:/sbin"
_END_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """A program's exit code and output."""

    exit_code: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """The reason of its failure: its last words, else its exit code."""
        lines = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit code {self.exit_code}"


async def run_program(
    words: Sequence[str],
    where: str,
    timeout_s: float,
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> ProgramResult:
    """Run it in its own session. SwitchError, which names `where`, for one that cannot be run, is not
    done within the time, or says too much; it is then ended with all that it started."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}"
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(environment or {}), "PATH": path},
        )
    except FileNotFoundError:
        package = _PACKAGES.get(words[0], words[0])
        raise SwitchError(
            f"{where}: this machine has no {words[0]}", f"sudo apt-get install {package}"
        ) from None
    except OSError as error:
        raise SwitchError(f"{where}: {words[0]}: {error.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            with suppress(OSError):  # one that does not read it
                process.stdin.write(stdin.encode())
                await process.stdin.drain()
            process.stdin.close()
            out, err = await asyncio.gather(
                *(_bounded(stream, process) for stream in (process.stdout, process.stderr))
            )
            if out is None or err is None:
                raise SwitchError(f"{where}: answers with more than {MOST_BYTES // 1024} KiB")
            exit_code = await process.wait()
    except BaseException as error:
        await asyncio.shield(_end(process))
        if isinstance(error, TimeoutError):
            raise SwitchError(f"{where}: no answer within {timeout_s:g} s") from None
        raise
    return ProgramResult(exit_code, out.decode(errors="replace"), err.decode(errors="replace"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """With all that it started, but for what has left its session: that is not waited for."""
    _kill(process)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(MOST_BYTES):
                    pass  # what is left of it: only then is the pipe closed
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _bounded(stream: asyncio.StreamReader, process: asyncio.subprocess.Process) -> bytes | None:
    """Everything until its end; None once it is more than allowed, which ends the process."""
    found = b""
    while len(found) <= MOST_BYTES:
        more = await stream.read(MOST_BYTES)
        if not more:
            return found
        found += more
    _kill(process)
    return None
