"""An agent's work goes on where the board is short of something, and what fails is told."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from agent_ports import Log
from roambench.agent import background
from roambench.agent.background import Chores, lasting
from roambench.contract.errors import LinkError, SpoolError


@pytest.mark.asyncio
async def test_work_that_an_oserror_ended_begins_again_and_the_same_one_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(background, "AGAIN_S", 0.001)
    missing, lacks, times = tmp_path / "file", Log(), 0

    async def work() -> None:
        nonlocal times
        times += 1
        if times == 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if times == 5:
            missing.touch()
        missing.read_bytes()

    await lasting("reading", work, lacks)
    assert times == 5
    assert lacks == [
        f"reading: No such file or directory: {missing}",
        "reading: Too many open files; allow this process more open files (ulimit -n)",
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [SpoolError("spool x: disk is full"), LinkError("final"), ValueError("mine")]
)
async def test_errors_of_our_own_end_what_lasts(error: Exception) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await lasting("work", work, Log())


@pytest.mark.asyncio
async def test_a_chore_that_fails_is_told(tmp_path: Path) -> None:
    lacks, mistakes = Log(), list[str]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, about: mistakes.append(str(about["exception"]))
    )
    chores = Chores(lacks)

    async def read(what: Path) -> None:
        what.read_bytes()

    async def mistake() -> None:
        raise ZeroDivisionError("a mistake")

    async def well() -> None:
        return

    for work in (read(tmp_path / "gone"), mistake(), well()):
        chores.begin(work)
    async with asyncio.timeout(20.0):
        while not (lacks and mistakes):
            await asyncio.sleep(0.01)
    assert len(lacks) == 1
    assert f"No such file or directory: {tmp_path / 'gone'}" in lacks[0]
    assert mistakes == ["a mistake"]
    await chores.close()
