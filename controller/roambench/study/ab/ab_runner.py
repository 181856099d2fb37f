"""A comparison from its plan to its table: what is open is run in turns, what is there is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.report.console import print_table
from roambench.runner.bench_options import BenchOptions
from roambench.runner.screen import in_any_case, print_json, say, warn
from roambench.runs.whole_file import write_whole
from roambench.study.ab.ab_figures import with_flags
from roambench.study.ab.ab_files import ab_document, results_table
from roambench.study.ab.ab_page import ab_page, order_of
from roambench.study.ab.ab_plan import AbPlan, ArmName
from roambench.study.ab.ab_results import AbTable, Ended, ab_table
from roambench.study.campaign.campaign import CampaignOptions
from roambench.study.campaign.cooling import Cooled, Thermometer
from roambench.study.sweep.campaign_point import read_start
from roambench.study.sweep.play import play
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder

#: Tables and page of a comparison, in its folder.
JSON_NAME, PAGE_NAME = "ab.json", "ab.html"


def run_ab(
    plan: AbPlan,
    *,
    out: Path,
    campaign: CampaignOptions,
    console: Console,
    bench: BenchOptions | None = None,
    thermometer: Thermometer | None = None,
    fresh: bool = False,
    as_json: bool = False,
) -> AbTable:
    """Run every turn that has not finished, or is not fit and may be tried again, then write table and page
    and print the table. `fresh`: turns that died or were stopped restart.

    On a bench the lease is held over all of it. `thermometer`: None takes the fleet's own. RunError at the
    end if runs failed (they are tried again next time); KeyboardInterrupt leaves what finished.
    """
    turns = plan.turns

    def begin(todo: Sequence[Point]) -> None:
        runs = f"{count(len(turns), 'run')}, {order_of(plan)}; {len(turns) - len(todo)} finished already"
        say(console, f"{plan.labels['A']} against {plan.labels['B']}: {runs}")

    return play(
        [turn.point for turn in turns],
        SweepFolder(out, bench, fresh=fresh),
        f"ab {plan.labels['A']} against {plan.labels['B']}",
        campaign=campaign,
        console=console,
        begin=begin,
        conclude=lambda: conclude(plan, out=out, console=console, as_json=as_json),
        thermometer=thermometer,
    )


def conclude(plan: AbPlan, *, out: Path, console: Console, as_json: bool = False) -> AbTable:
    """Write and print what there is; nothing is run. RunError names the runs that failed."""
    folder = SweepFolder(out)
    ended: dict[tuple[ArmName, int], PointEnd] = {}
    starts, failed, flags = dict[tuple[ArmName, int], Cooled](), list[str](), dict[str, list[str]]()
    unsure: dict[tuple[ArmName, int], list[str]] = {}
    for turn in plan.turns:
        path = folder.folder_of(turn.point)
        outcome = folder.outcome_of(turn.point)
        if outcome is not None and outcome.finished:
            place = turn.arm, turn.pair
            for doubt in outcome.doubts:
                unsure.setdefault(place, []).append(doubt)
            ended[place] = with_flags(outcome, path)
            for flag in ended[place].flags:
                flags.setdefault(flag, []).append(turn.point.label)
            if (cooled := read_start(path)) is not None:
                starts[place] = cooled
        elif outcome is not None:
            failed.append(f"{turn.point.label}: {outcome.reason}")
    sure = {place: run for place, run in ended.items() if place not in unsure}
    table = ab_table(plan.pairs, sure)
    notes = [*plan.warnings, *_notes(table, starts), *_apart(ended)]
    notes += [
        f"{arm}{pair}: {'; '.join(doubts)}: its pair does not count" for (arm, pair), doubts in unsure.items()
    ]
    notes += [f"{', '.join(runs)}: {flag}" for flag, runs in flags.items()]
    document = ab_document(plan, table, ended, starts, notes)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(out / JSON_NAME, text + "\n")
    write_whole(out / PAGE_NAME, ab_page(plan, table, ended, starts, notes), synced=False)
    with in_any_case(console):
        if as_json:
            print_json(document)
        else:
            print_table(results_table(plan, table), console)
        for note in notes:
            warn(console, f"! {note}")
        for name in (JSON_NAME, PAGE_NAME):
            say(console, str(out / name))
    if failed:
        raise RunError("\n".join([*failed, f"{len(failed)} of {len(plan.turns)} runs failed"]))
    return table


def _notes(table: AbTable, starts: dict[tuple[ArmName, int], Cooled]) -> list[str]:
    notes = []
    if table.whole_pairs < table.pairs:
        notes.append(f"{table.whole_pairs} of {table.pairs} pairs are whole; the others do not count")
    compared = {row.compared.title for row in table.rows}
    notes += [
        f"{title}: {count} of {table.whole_pairs} pairs have it"
        + ("" if title in compared else ": not compared")
        for title, count in table.partly
    ]
    not_cooled: dict[str, list[str]] = {}
    for (arm, pair), cooled in starts.items():
        if cooled.note:
            not_cooled.setdefault(cooled.note, []).append(f"{arm}{pair}")
    return notes + [f"{', '.join(runs)}: {note}" for note, runs in not_cooled.items()]


def _apart(ended: Ended) -> list[str]:
    """Report pairs whose runs were no neighbours, as happens when one of them is run again later."""
    if not all(run.began for run in ended.values()):
        return []
    place = {turn: at for at, turn in enumerate(sorted(ended, key=lambda turn: ended[turn].began))}
    pairs = sorted({pair for _, pair in ended if ("A", pair) in ended and ("B", pair) in ended})
    apart = [str(pair) for pair in pairs if abs(place["A", pair] - place["B", pair]) > 1]
    if not apart:
        return []
    return [
        f"other runs came between A and B of pair {', '.join(apart)} (one was run again): a slow drift of "
        "the bench does not cancel there"
    ]
