"""One point of a sweep in its own process, forked or by itself:

    python -m roambench.study.sweep.point_process FOLDER

Its standard input is held open by the sweep. When it ends, the sweep is gone or was interrupted, and the run
is stopped as Ctrl-C would stop it; one that then hangs is ended (`_stop_with_the_sweep`). Exit status: 0
finished, 1 failed (the reason is in result.json), 130 stopped.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, cast

from roambench.contract.errors import HostsFailed, RoambenchError, RunError
from roambench.contract.json_values import from_file
from roambench.contract.stillness import LOOK_S, STILL_S, Stillness
from roambench.experiment.sections import Experiment, from_resolved
from roambench.fleet.left_processes import LeftProcesses, cpu_s_of_descendants
from roambench.plan.expected import expected_s
from roambench.report.report import report
from roambench.report.run_figures import write_figures
from roambench.report.summaries.fitness import Unfit, Unfitness
from roambench.report.summaries.run import RunSummary
from roambench.rounds.records import StepClosed
from roambench.runner.bench_options import BenchOptions
from roambench.runner.composition import run_group
from roambench.runner.foreign_code import digest_of, foreign_code
from roambench.runner.places.place import Place
from roambench.runner.places.table import fleet_of, place_of
from roambench.runner.screen import say, screen
from roambench.runner.stopping import leave, signals_heeded
from roambench.runs.folder import RunFolder
from roambench.runs.groups import Group
from roambench.runs.lock import WriterLock, holder
from roambench.study.command_process import fork_trainings, settle
from roambench.study.sweep.left_runs import left_of
from roambench.study.sweep.sweep_folder import PointEnd, PointFile, write_outcome

#: Host seconds for which processes of an earlier sweep may do nothing: by then it has ended what hangs.
_LEFT_PATIENCE_S: Final = 2 * STILL_S


def main(arguments: list[str]) -> int:
    """The process of one point of a sweep; returns its exit status."""
    folder = Path(arguments[0])
    # Signals are its own: they have to work also where a script's background job started the sweep.
    with signals_heeded(also_ignored=True):
        try:
            described = from_file(PointFile, folder / "point.json")
            fork_trainings(described.fleet)
            threading.Thread(target=_stop_with_the_sweep, daemon=True).start()
            outcome = _still_held(folder, described.key) or _carried_out(folder, described)
            write_outcome(folder, outcome)
        except KeyboardInterrupt:
            return leave()
    if outcome.reason:
        print(outcome.reason, file=sys.stderr)
    return 0 if outcome.finished else 1


def forked(folder: str) -> int:
    """The same, forked by the sweep. Ctrl-C reaches the sweep alone, which stops its points."""
    os.setsid()
    return main([folder])


def _carried_out(folder: Path, described: PointFile) -> PointEnd:
    key, fleet = described.key, described.fleet
    started_s = time.monotonic()
    try:
        (folder / "result.json").unlink(missing_ok=True)
        experiment = from_resolved(described.config, str(folder / "point.json"))
        _refuse_other_code(experiment, described)
        console = screen()
        options = described.bench or BenchOptions()
        place = place_of(experiment, fleet, options)
        group = Group(folder / "runs")
        left = left_of(place, folder, key, described.code, partial(say, console))
        found = list[RunSummary]()
        runs = run_group(
            place,
            left,
            lambda: group,
            fleet=fleet,
            console=console,
            bench=options,
            expected_s=expected_s,
            conclude=lambda path, log: found.append(write_figures(path, log)),
        )
        wall_s = time.monotonic() - started_s
        for path in left.to_resume.values():  # earlier sessions had steps, too
            wall_s = max(wall_s, _steps_s(path))
        _refuse_other_code(experiment, described)
        (summary,) = found or report(runs).summaries  # of one that went on, or had finished
        if summary.orders.fruitless:
            raise RunError(summary.orders.fruitless)
        unfit = [one for one in summary.unfit if not set(one.boards) & _without_meter(place, one)]
        return PointEnd.of(
            key,
            summary,
            wall_s=wall_s,
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            unfit=tuple(one.sentence for one in unfit),
            boards=tuple(dict.fromkeys(board for one in unfit for board in one.boards)),
            without=place.fewer_by,
        )
    except HostsFailed as error:
        return PointEnd(key, {}, " ".join(str(error).split()), boards=error.hosts)
    except RoambenchError as error:
        return PointEnd(key, {}, " ".join(str(error).split()))
    except Exception as error:  # a fault of ours or of the user's task: the other points go on
        traceback.print_exc()
        return PointEnd(key, {}, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _steps_s(path: Path) -> float:
    """Wall time of all steps of the run."""
    with RunFolder.open(path) as folder:
        return math.fsum(record.wall_s for record in folder.read_log().only(StepClosed))


def _without_meter(place: Place, found: Unfit) -> set[str]:
    """Boards that have no meter: that they are silent is no news."""
    return set(place.without_meter) if found.why is Unfitness.SILENT else set()


def _refuse_other_code(experiment: Experiment, described: PointFile) -> None:
    """RunError where a package was edited after the sweep took note of it: the result would be of neither."""
    code = foreign_code(experiment, fleet_of(described.fleet)[0])
    if digest_of(code) != described.code:
        names = ", ".join(found.package for found in code)
        raise RunError(f"the code of {names} changed while the sweep ran: run the sweep again")


def _still_held(folder: Path, key: str) -> PointEnd | None:
    """Hold the folder's lock until this process ends. A process of an earlier sweep stops by itself and
    is waited for, however slow it is; why the point fails where that hangs."""
    path = folder / "lock"
    left = LeftProcesses(path)
    while True:
        try:
            _KEPT.append(WriterLock(path))
        except RunError:
            if left.hang(_LEFT_PATIENCE_S):
                who = holder(path) or "unknown"
                reason = (
                    f"{folder}: process {who} of an earlier sweep still holds this run and did nothing for "
                    f"{_LEFT_PATIENCE_S:.0f} s; expected it to end by itself: end it (kill -9 {who}), then "
                    "run the sweep again"
                )
                return PointEnd(key, {}, reason)
            time.sleep(0.2)
        else:
            return None


_KEPT: list[WriterLock] = []  # until the process ends


def _stop_with_the_sweep() -> None:
    """Wait for the end of standard input, then stop the run, and end this process if that hangs."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    main = time.pthread_getcpuclockid(cast(int, threading.main_thread().ident))
    stillness = Stillness()
    while stillness.seconds({0: time.clock_gettime(main)} | cpu_s_of_descendants(os.getpid())) <= STILL_S:
        time.sleep(LOOK_S)
    print(
        f"asked to stop, the run did nothing for {STILL_S:.0f} s and was ended; the sweep goes on with it",
        file=sys.stderr,
        flush=True,
    )
    os._exit(130)


if __name__ == "__main__":
    settle()
    sys.exit(main(sys.argv[1:]))
