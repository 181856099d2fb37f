"""A device's program: loaded before it is asked, one call at a time, started again when it has ended."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roambench.agent.orders.program_host import ANSWER, CALL, READY, REFUSAL
from roambench.agent.orders.program_process import ProgramEnded, ProgramProcess
from roambench.agent.orders.programs import file_of
from roambench.agent.orders.worker import TrainerDied, TrainerRefused
from roambench.agent.session.data_link import TimeIsUp
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.printable import printable
from roambench.contract.program_spec import ProgramSpec


@dataclass(frozen=True, slots=True)
class Computed:
    """A program's answer and the processor seconds that it took."""

    answer: bytes
    cpu_s: float


class Program:
    """The program of the run that the device is in. In `folder` it has a folder for the run, `state`; it
    cannot read what is `hidden`."""

    def __init__(
        self, folder: Path, hidden: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._hidden = hidden
        self._environment = environment
        self._spec: ProgramSpec | None = None
        self._process: ProgramProcess | None = None
        self._turn = asyncio.Lock()

    @property
    def is_prepared(self) -> bool:
        """Return whether a warm program waits for the next order."""
        return self._process is not None and self._process.is_alive

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the program; 0: there is none."""
        return self._process.rss_bytes if self._process is not None else 0

    @property
    def is_expected(self) -> bool:
        """Return whether the run that the device is in has a program."""
        return self._spec is not None

    def expect(self, spec: ProgramSpec | None) -> None:
        """The run's program; None: its trainer trains."""
        self._spec = spec

    async def prepare(self, spec: ProgramSpec) -> None:
        """Load the program of a run. Raises as `ready` does."""
        async with self._turn:
            await self._end()
            self._spec = spec
            await self._load()

    async def ready(self) -> None:
        """Load a program again that has ended since. TrainerRefused says why it cannot be loaded, TrainerDied
        how it ended."""
        async with self._turn:
            await self._load()

    async def call(self, message: bytes, limit_s: float) -> Computed:
        """The program's answer. Raises as `ready` does, and TimeIsUp after `limit_s` host seconds: the
        program is ended then, as it is where the caller is cancelled."""
        async with self._turn:
            process = self._process
            if process is None:
                raise TrainerDied("no program was loaded")
            try:
                before_s = process.cpu_s
                async with AwakeTimeout(limit_s):
                    letter, body = await process.ask(CALL, message)
                cpu_s = process.cpu_s - before_s
            except ProgramEnded as error:
                await self._end()
                raise TrainerDied(printable(str(error))) from None
            except TimeoutError:
                await self._end()
                raise TimeIsUp(f"its program gave no answer within {limit_s:.0f} s") from None
            except asyncio.CancelledError:
                process.kill()
                raise
            if letter == REFUSAL:
                raise TrainerRefused(f"its program failed: {printable(body.decode(errors='replace'))}")
            if letter != ANSWER:
                await self._end()
                raise TrainerDied("its program answered what is no answer")
            return Computed(body, cpu_s)

    def abandon(self) -> None:
        """End the program, whose answer is not wanted; the next order loads it again."""
        if self._process is not None:
            self._process.kill()

    def forget(self) -> None:
        """The run is over: end its program, and remove its folder."""
        self.abandon()
        self._spec = None
        shutil.rmtree(self._folder / "state", ignore_errors=True)

    async def close(self) -> None:
        """End the program."""
        await self._end()

    async def _load(self) -> None:
        if self._spec is None:
            raise TrainerRefused("no program is set for this run")
        if self.is_prepared:
            return
        await self._end()
        spec = self._spec
        try:
            self._process = await ProgramProcess.start(
                file_of(spec.name),
                "answer",
                spec.settings_there,
                python=spec.python,
                folder=self._folder / "state",
                log=self._folder / "program.log",
                memory_bytes=spec.memory_bytes,
                most_bytes=spec.message_bytes,
                hidden=self._hidden,
                environment=self._environment,
            )
            letter, body = await self._process.receive()
        except ProgramEnded as error:
            await self._end()
            raise TrainerDied(printable(str(error))) from None
        except OSError as error:
            raise TrainerRefused(f"its program cannot be started: {error}") from None
        if letter != READY:
            await self._end()
            raise TrainerRefused(f"its program cannot be loaded: {printable(body.decode(errors='replace'))}")

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end()
