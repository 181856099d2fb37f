"""Computing on purpose: what is told of when it began is when it began."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from roambench.agent.board_load import BoardLoad
from roambench.agent.life import burning
from roambench.agent.life.burning import Burner
from roambench.contract.device_time import DeviceClock

pytestmark = pytest.mark.asyncio


def interpreter(folder: Path, script: str) -> str:
    """A program that is run where Python is wanted."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("period", [[], ["2"]])
async def test_a_burn_begins_when_its_processes_are_there_however_slow_the_card_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: list[str]
) -> None:
    there = tmp_path / "there"
    slow = interpreter(tmp_path, f'sleep 1.5; touch {there}; exec {sys.executable} "$@"')
    monkeypatch.setattr(burning.sys, "executable", slow)
    told = await Burner(DeviceClock(), BoardLoad()).burn(["2", "1", *period])
    began_ns = told["edges_ns"][0] if period else told["began_ns"]
    assert began_ns >= there.stat().st_mtime_ns - (time.time_ns() - time.monotonic_ns()) - 20_000_000
    assert told["ended_ns"] >= began_ns + 2_000_000_000
    assert len(told["edges_ns"]) == (2 if period else 0)


async def test_a_burn_whose_processes_cannot_live_is_an_error_and_the_next_one_may_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    burner = Burner(DeviceClock(), BoardLoad())
    with monkeypatch.context() as broken:
        broken.setattr(burning.sys, "executable", interpreter(tmp_path, "exit 1"))
        with pytest.raises(RuntimeError, match="ended at once"):
            await burner.burn(["5", "2"])
    assert (await burner.burn(["0.1", "1"]))["ok"]


async def test_an_emulated_board_draws_for_the_cores_that_are_asked_for_and_rests_afterwards() -> None:
    drawn: list[float] = []
    await Burner(DeviceClock(), SimpleNamespace(is_emulated=True, burn=drawn.append)).burn(["0.1", "2"])
    assert drawn == [2.0, 0.0]
