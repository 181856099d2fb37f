"""A comparison from its plan to its table: what is open is run in turns, what is there is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.controller.ab.ab_figures import ended_figures, forget_figures, kept_about
from roambench.controller.ab.ab_files import ab_document, results_table
from roambench.controller.ab.ab_page import ab_page, order_of
from roambench.controller.ab.ab_plan import AbPlan, ArmName, Turn
from roambench.controller.ab.ab_results import AbTable, ab_table
from roambench.controller.ab.cooling import Cooled, Cooling, Thermometer, cool_down, thermometer_of
from roambench.controller.bench_options import BenchOptions
from roambench.controller.places.table import fleet_of
from roambench.controller.stopping import STOPPING, run_async
from roambench.controller.sweep.pool import run_points
from roambench.controller.sweep.sweep_folder import SweepFolder
from roambench.energy.improvement import Measured
from roambench.provision.inventory.load import load_bench
from roambench.provision.leases.holding import holding
from roambench.report.console import print_table
from roambench.runs.database import naming
from roambench.runs.lock import WriterLock
from roambench.runs.whole_file import write_whole

_START: Final = "start.json"
#: Tables and page of a comparison, in its folder.
JSON_NAME, PAGE_NAME = "ab.json", "ab.html"


def run_ab(
    plan: AbPlan,
    *,
    out: Path,
    cooling: Cooling,
    console: Console,
    bench: BenchOptions | None = None,
    thermometer: Thermometer | None = None,
    fresh: bool = False,
) -> AbTable:
    """Run every turn that has not finished, then write table and page and print the table. `fresh`: turns
    that died or were stopped begin anew.

    On a bench the lease is held over all of it. `thermometer`: None takes the fleet's own. RunError at the
    end if runs failed (they are tried again next time); KeyboardInterrupt leaves what finished.
    """
    folder = SweepFolder(out, bench, fresh=fresh)
    options = bench or BenchOptions()
    thermometer = thermometer or thermometer_of(plan.asked.fleet, options.only)
    with naming(out):
        out.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(out / "lock")
    try:
        todo = [turn for turn in plan.turns if not _finished(folder, turn)]
        console.print(
            f"{plan.labels['A']} against {plan.labels['B']}: {len(plan.turns)} runs, {order_of(plan)}; "
            f"{len(plan.turns) - len(todo)} finished already",
            highlight=False,
            markup=False,
        )
        if todo:
            with _ours(plan, options, lambda line: console.print(line, highlight=False, markup=False)):
                for turn in todo:
                    _run(turn, folder, cooling, thermometer, console)
    except KeyboardInterrupt:
        console.print("interrupted: the same command goes on from here", highlight=False)
        raise
    finally:
        lock.release()
    return conclude(plan, out=out, console=console)


def conclude(plan: AbPlan, *, out: Path, console: Console) -> AbTable:
    """Write and print what there is; nothing is run. RunError names the runs that failed."""
    folder = SweepFolder(out)
    ended: dict[tuple[ArmName, int], dict[str, Measured]] = {}
    starts, failed, flags = dict[tuple[ArmName, int], Cooled](), list[str](), dict[str, list[str]]()
    began: dict[tuple[ArmName, int], str] = {}
    for turn in plan.turns:
        path = folder.folder_of(turn.point)
        outcome = folder.outcome_of(turn.point)
        if outcome is not None and outcome.finished:
            place = turn.arm, turn.pair
            ended[place] = ended_figures(path, turn.point.key)
            began[place], doubts = kept_about(path)
            for flag in doubts:
                flags.setdefault(flag, []).append(f"{turn.arm}{turn.pair}")
            if (cooled := _read_start(path)) is not None:
                starts[place] = cooled
        elif outcome is not None:
            failed.append(f"{turn.arm}{turn.pair}: {outcome.reason}")
    table = ab_table(plan.pairs, ended)
    notes = [*plan.warnings, *_notes(table, starts), *_apart(began)]
    notes += [f"{', '.join(runs)}: {flag}" for flag, runs in flags.items()]
    document = ab_document(plan, table, ended, starts, notes)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(out / JSON_NAME, text + "\n")
    write_whole(out / PAGE_NAME, ab_page(plan, table, ended, starts, notes), synced=False)
    print_table(results_table(plan, table), console)
    for note in notes:
        console.print(f"! {note}", highlight=False, markup=False, soft_wrap=True)
    for name in (JSON_NAME, PAGE_NAME):
        console.print(str(out / name), highlight=False, markup=False, soft_wrap=True)
    if failed:
        raise RunError("\n".join([*failed, f"{len(failed)} of {len(plan.turns)} runs failed"]))
    return table


def _run(
    turn: Turn, folder: SweepFolder, cooling: Cooling, thermometer: Thermometer | None, console: Console
) -> None:
    path = folder.folder_of(turn.point)
    name = f"{turn.arm}{turn.pair}"

    def report(line: str) -> None:
        console.print(f"{name}: {line}", highlight=False, markup=False, soft_wrap=True)

    with naming(path):
        path.mkdir(parents=True, exist_ok=True)
        forget_figures(path)
    if thermometer is not None:
        cooled = cool_down(cooling, thermometer, report)
        write_whole(path / _START, json.dumps(asdict(cooled), indent=1) + "\n")
        if cooled.note:
            report(cooled.note)
    report(f"runs, seed {turn.point.seed}")
    run_async(run_points([turn.point], 1, folder, lambda point, outcome: None), STOPPING)
    outcome = folder.outcome_of(turn.point)
    report(
        "finished" if outcome is not None and outcome.finished else f"failed: {outcome and outcome.reason}"
    )


def _ours(
    plan: AbPlan, options: BenchOptions, report: Callable[[str], None]
) -> AbstractContextManager[object]:
    """The lease of a bench for the whole comparison: nobody comes between A and B."""
    kind, file = fleet_of(plan.asked.fleet)
    if not kind.has_file:
        return nullcontext()
    purpose = f"ab {plan.labels['A']} against {plan.labels['B']}"
    bench = load_bench(Path(file))
    boards = [host.name for host in bench.only(options.only)]
    return holding(bench, purpose, options.wait_s, report, boards=boards)


def _finished(folder: SweepFolder, turn: Turn) -> bool:
    outcome = folder.outcome_of(turn.point)
    return outcome is not None and outcome.finished


def _notes(table: AbTable, starts: dict[tuple[ArmName, int], Cooled]) -> list[str]:
    notes = []
    if table.whole_pairs < table.pairs:
        notes.append(f"{table.whole_pairs} of {table.pairs} pairs are whole; the others do not count")
    notes += [f"{title}: only {count} pairs have it" for title, count in table.partly]
    not_cooled: dict[str, list[str]] = {}
    for (arm, pair), cooled in starts.items():
        if cooled.note:
            not_cooled.setdefault(cooled.note, []).append(f"{arm}{pair}")
    return notes + [f"{', '.join(runs)}: {note}" for note, runs in not_cooled.items()]


def _apart(began: dict[tuple[ArmName, int], str]) -> list[str]:
    """Of pairs whose runs were no neighbours, as happens when one of them is run again later."""
    if not all(began.values()):
        return []
    place = {turn: at for at, turn in enumerate(sorted(began, key=lambda turn: began[turn]))}
    pairs = sorted({pair for _, pair in began if ("A", pair) in began and ("B", pair) in began})
    apart = [str(pair) for pair in pairs if abs(place["A", pair] - place["B", pair]) > 1]
    if not apart:
        return []
    return [
        f"other runs came between A and B of pair {', '.join(apart)} (one was run again): a slow drift of "
        "the bench does not cancel there"
    ]


def _read_start(folder: Path) -> Cooled | None:
    return kept_in(Cooled, folder / _START)
