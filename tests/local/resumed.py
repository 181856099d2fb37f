"""Kills controllers of runs, starts them again, and lays out what such runs wrote to be compared."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from forked_commands import Command
from roambench.rounds.records import (
    ClockProbed,
    FleetEvent,
    ModelsExchanged,
    OrderAnswered,
    RunResumed,
    StepClosed,
)
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model

#: Of a test that kills at random moments.
KILLS: Final = int(os.environ.get("ROAMBENCH_KILLS", "20"))


@contextmanager
def command(base: Path, *words: str) -> Iterator[Command]:
    """`roambench` with these words; it is killed when the body is done with it."""
    with (base / "log").open("ab") as log:
        process = Command(words, Path(), log.fileno(), base / "log", {**os.environ, "NO_COLOR": "1"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def rows(run: Path, kind: str) -> int:
    """How many were ever written, void ones among them."""
    if not (run / "events.sqlite").is_file():
        return 0
    with closing(sqlite3.connect(f"{(run / 'events.sqlite').as_uri()}?mode=ro", uri=True)) as journal:
        try:
            return int(journal.execute("SELECT count(*) FROM event WHERE kind = ?", (kind,)).fetchone()[0])
        except sqlite3.OperationalError:  # not a table yet
            return 0


def killed_when(
    base: Path,
    process: Command,
    happened: Callable[[], bool],
    by: signal.Signals = signal.SIGKILL,
) -> None:
    """Send the signal as soon as it happened, and wait for the end."""
    deadline_s = time.monotonic() + 300
    while not happened():
        assert process.poll() is None, (base / "log").read_text()
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
    process.send_signal(by)
    assert process.wait(100) != 0


def ended(base: Path, process: Command) -> None:
    assert process.wait(400) == 0, (base / "log").read_text()


def killed_at_random(
    base: Path, begin: tuple[str, ...], name: str, *, seed: int, kills: int, longest_s: float
) -> Iterator[Path]:
    """Finished runs of the command `begin`, whose controllers were killed so often in all: each within
    `longest_s` after it went to work, or sometimes after it was started."""
    draw = random.Random(seed)
    killed = runs = 0
    while killed < kills:
        run, runs = base / f"killed-{runs}" / name, runs + 1
        while True:
            first, before = not run.exists(), rows(run, "RunResumed")
            early, after_s = draw.random() < 0.2, draw.uniform(0.0, longest_s)
            with command(base, *begin, str(run.parents[2])) as process:
                due_s = time.monotonic() + after_s if early else None
                while process.poll() is None:
                    if due_s is None and rows(run, "StepOpened" if first else "RunResumed") > before:
                        due_s = time.monotonic() + after_s
                    if due_s and time.monotonic() > due_s and (run / "checkpoint.json").is_file():
                        process.kill()
                        break
                    time.sleep(0.01)
                if process.wait() != -signal.SIGKILL:
                    ended(base, process)
                    break
                killed += 1
        yield run
        print(f"{killed} kills in {runs} runs, all of them as one left alone", flush=True)


def story(run: Path, *, real_time: bool = False) -> list[object]:
    """All records of a finished run but for what a clock said and that the run was resumed. In `real_time`
    transfers and trainings have lasted as long as they did, and the fleet was seen."""
    with RunFolder.open(run) as folder:
        assert folder.info.state is RunState.FINISHED
        told: list[object] = []
        for record in folder.read_log():
            match record:
                case RunResumed():
                    continue
                case StepClosed():
                    told.append(dataclasses.replace(record, wall_s=0.0))
                case FleetEvent() | ClockProbed() if real_time:
                    continue
                case OrderAnswered() if real_time:
                    told.append(
                        dataclasses.replace(record, transfer_s=0.0, train_s=0.0, late_s=0.0, coding_s=0.0)
                    )
                case ModelsExchanged() if real_time:
                    told.append(dataclasses.replace(record, exchange_s=0.0, download_s=0.0))
                case _:
                    told.append(record)
        return told


def whole_and_killed(folder: Path, experiment: str, system: str) -> tuple[Path, Path]:
    """The runs of an experiment named `cut` on virtual devices: one left alone, and one whose controller was
    killed once its rules had seen joules, and resumed. Both end with the same model."""
    file = folder / "cut.toml"
    file.write_text(experiment)
    begin = ("run", str(file), "--fleet", "simulated", "--runs-dir")
    whole, run = (folder / name / "cut/latest" / system for name in ("whole", "killed"))
    with command(folder, *begin, str(run.parents[2])) as process:
        killed_when(
            folder, process, lambda: rows(run, "EnergySeen") > 3 and (run / "checkpoint.json").is_file()
        )
    with command(folder, "resume", str(run)) as process:
        ended(folder, process)
    with command(folder, *begin, str(whole.parents[2])) as process:
        ended(folder, process)
    assert rows(run, "RunResumed") == 1
    assert (load_model(run / GLOBAL_MODEL) == load_model(whole / GLOBAL_MODEL)).all()
    return whole, run
