"""Runs made from Python, also inside a notebook's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from roambench.api.recorded_run import Run
from roambench.api.run_set import RunSet
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.overrides import Override
from roambench.runner.progress import OnStepDone, StepDone
from roambench.runner.screen import screen
from roambench.runner.stopping import signals_heeded, stoppable_from_elsewhere

T = TypeVar("T")


def run_now(
    experiment: str | Path | Mapping[str, Any],
    fleet: str,
    changes: Mapping[str, Any],
    *,
    on_step: OnStepDone | None,
    runs_dir: Path,
    fresh: bool,
    show: bool,
) -> RunSet:
    """Return what `roambench.run` gives."""
    written: Path | WrittenExperiment = (
        WrittenExperiment(dict(experiment), "experiment", Path())
        if isinstance(experiment, Mapping)
        else Path(experiment)
    )
    loaded = load_experiment(written, more={"set": overrides(changes)})
    raised: list[BaseException] = []

    def work() -> RunSet:
        from roambench.plan.expected import expected_s
        from roambench.runner.composition import run_experiment  # loads torch

        paths = run_experiment(
            loaded,
            fleet=fleet,
            runs_dir=runs_dir,
            console=console(show),
            fresh=fresh,
            on_step=after_step,
            expected_s=expected_s,
        )
        return RunSet(map(Run, paths))

    with stoppable_from_elsewhere() as stop:

        def after_step(step: StepDone) -> None:
            if on_step is None or raised:
                return
            try:
                on_step(step)
            except BaseException as error:
                raised.append(error)
                stop()

        try:
            return outside_loops(work)
        except KeyboardInterrupt:
            if raised:
                raise raised[0] from None
            raise


def overrides(changes: Mapping[str, Any]) -> list[Override]:
    """Changes by flat keys ("learning.alpha") as a file's keys."""
    return [Override(tuple(key.split(".")), _plain(value)) for key, value in changes.items()]


def console(show: bool) -> Console:
    """Return where progress goes: to standard output, or nowhere."""
    return screen() if show else Console(quiet=True)


def outside_loops(work: Callable[[], T]) -> T:
    """Do work that runs its own event loop. Within a running one (a notebook's) it has its own
    thread; interrupting the caller then stops it in good order, interrupting once more leaves it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with signals_heeded():
            return work()
    return _in_a_thread(work)


def _in_a_thread(work: Callable[[], T]) -> T:
    done: list[T] = []
    failed: list[BaseException] = []
    over = threading.Event()  # not `join`: Python 3.11 takes a thread for ended once that was interrupted

    def body() -> None:
        try:
            done.append(work())
        except BaseException as error:  # any, handed to the caller
            failed.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=body, name="roambench", daemon=True)
    with stoppable_from_elsewhere() as stop:
        thread.start()
        try:
            over.wait()
        except KeyboardInterrupt:
            stop()
            over.wait()
    if failed:
        raise failed[0]
    return done[0]


def _plain(value: Any) -> Any:
    """Return the value as TOML has it: lists for tuples, texts for paths."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
