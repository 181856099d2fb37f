"""Our runs beside MOHAWK's Tables 3 to 6; pure. Means are over the seeds of a system in a setting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roambench.extras.papers import mohawk as paper
from roambench.extras.papers.bounds import Bounds
from roambench.extras.papers.peer_runs import known, spread
from roambench.extras.papers.ratios import BOUND, RATIOS, Ours, ratio_table
from roambench.extras.papers.runs import PaperRun, comparable, rounds_of
from roambench.extras.papers.settings import (
    NAMES,
    bounded,
    groups_of,
    paper_thresholds,
    place_of,
    seeds_behind,
    thresholds_of,
)
from roambench.report.numbers import NONE
from roambench.report.table import ReportTable


def paper_tables(runs: Sequence[PaperRun]) -> list[ReportTable]:
    """MOHAWK's Tables 3 to 6 of these runs; [] unless MOHAWK ran beside one of its baselines."""
    kept = comparable(runs)
    if not kept:
        return []
    made = [_accuracy(kept), _rounds(kept), _devices(kept), _distance(kept), _joules(kept)]
    return [table for table in made if table is not None]


def _accuracy(runs: Sequence[PaperRun]) -> ReportTable:
    rows = []
    for setting, systems in groups_of(runs).items():
        of = place_of(setting)
        ours = [_accuracies(systems.get(name, []), "final_accuracy") for name in paper.SYSTEMS]
        best = [_accuracies(systems.get(name, []), "best_accuracy") for name in paper.SYSTEMS]
        rows += [(*of, "ours, last", *ours), (*of, "ours, best", *best)]
        found = paper.ACCURACY_PERCENT.get((setting.dataset, setting.data, setting.k2))
        theirs = [f"{value:.2f} %" for value in found] if found else [NONE] * 3
        rows.append((*of, "paper", *theirs))
    return ReportTable(
        "paper-accuracy",
        "Accuracy (MOHAWK's Table 3)",
        f"Of the global model on the test set, {seeds_behind(runs)}. The paper's are those after a month "
        f"of 744 steps; ours played {_steps(runs)}.",
        ("dataset", "data", "k2", "", *NAMES),
        tuple(rows),
        numeric_from=4,
    )


def _rounds(runs: Sequence[PaperRun]) -> ReportTable:
    several = any(len(found) > 1 for systems in groups_of(runs).values() for found in systems.values())

    def of_mean(found: Sequence[PaperRun]) -> list[Bounds] | str:
        return (
            "not trained"
            if all(run.figures["best_accuracy"] is None for run in found)
            else [rounds_of(found)]
        )

    ours: list[tuple[str, Ours]] = [("ours", of_mean)]
    means = "One seed. "
    if several:
        ours.append(("ours, per seed", lambda found: [run.rounds for run in found]))
        means = (
            "Over several seeds the first at which the mean of their accuracies reached it, as 69 of the "
            "paper's 72 figures are multiples of k2; a run that ended at the threshold counts with its last "
            "accuracy from there on. Per seed: mean ± sd of each seed's own rounds. "
        )
    return ratio_table(
        "paper-rounds",
        f"Rounds to the threshold of {thresholds_of(runs)} (MOHAWK's Table 4)",
        "A round is a step; as in the paper it is t of the cloud aggregation whose model reached the "
        f"threshold. {means}{BOUND}{RATIOS}{paper_thresholds(runs)}",
        runs,
        ours,
        lambda found: bounded(found, lambda low: f"{low:,.4g}", "not in "),
        lambda setting: paper.ROUNDS.get((setting.dataset, setting.data, setting.k2)),
        lambda value: f"{value:g}",
    )


def _joules(runs: Sequence[PaperRun]) -> ReportTable | None:
    if any(run.joules is None for run in runs):
        runs = [run for run in runs if run.joules is not None]
    if not comparable(runs):
        return None

    return ratio_table(
        "paper-joules",
        "Communication energy per client to the threshold (MOHAWK's Table 6)",
        "Modelled (Eq. 1), not measured: sum over the rounds up to the threshold of each round's mean over "
        "the devices whose model was aggregated in it, the download of that training and the upload. The "
        "paper does not say how it adds up: its joules are 12.4 to 13.7 per round of Table 4, as much as one "
        f"download and one upload over LTE at middle speed. Ours are {seeds_behind(runs)}. "
        f"{BOUND}{RATIOS}{paper_thresholds(runs)}",
        runs,
        [("ours", lambda found: [run.joules for run in found if run.joules])],
        lambda found: bounded(found, lambda low: f"{low:,.2f}", "> ", " J"),
        lambda setting: paper.JOULES.get((setting.dataset, setting.data, setting.k2)),
        lambda value: f"{value:,.2f} J",
    )


def _devices(runs: Sequence[PaperRun]) -> ReportTable:
    """Per setting's k2, over the runs that played the most steps: shorter ones saw other hours."""
    longest = max(run.steps for run in runs)
    rows = []
    for k2 in sorted({run.setting.k2 for run in runs}):
        means = []
        for system in paper.SYSTEMS:
            there = [run for run in runs if (run.system, run.setting.k2) == (system, k2)]
            most = max((run.steps for run in there), default=0)
            means.append(_mean([run.figures["aggregated_per_step"] for run in there if run.steps == most]))
        rows.append((str(k2), "ours", *(_number(mean) for mean in means), *_gains(means)))
        theirs = paper.AGGREGATED.get(k2)
        if theirs is None:
            rows.append((str(k2), "paper", *(NONE,) * 5))
        else:
            cells = [f"{value:g}" for value in theirs]
            printed = f"{_gains(theirs)[1]} (printed: {paper.AGGREGATED_IMPROVEMENT[k2]:.2f} %)"
            rows.append((str(k2), "paper", *cells, _gains(theirs)[0], printed))
    return ReportTable(
        "paper-devices",
        "Devices aggregated per step (MOHAWK's Table 5)",
        "Mean over the steps after the first of the devices whose models an edge aggregation used, which "
        f"does not depend on the data. The longest run played {longest:,} steps; per system and k2 the "
        "longest ones count. Runs that stopped at a threshold saw other hours than those that went on. "
        "Ratio: MOHAWK ÷ mean of the baselines. 1 - baselines ÷ MOHAWK is the reading that fits the paper's "
        "percentages.",
        ("k2", "", *NAMES, "ratio", "1 - baselines ÷ MOHAWK"),
        tuple(rows),
        numeric_from=2,
    )


def _gains(means: Sequence[float | None]) -> tuple[str, str]:
    *baselines, mohawk = means
    there = [value for value in baselines if value is not None]
    if not mohawk or len(there) < 2:
        return NONE, NONE
    mean = math.fsum(there) / len(there)
    return (f"{mohawk / mean:.2f} ×" if mean else "∞ ×"), f"{100.0 * (1.0 - mean / mohawk):+.2f} %"


def _distance(runs: Sequence[PaperRun]) -> ReportTable:
    means = [
        _mean([run.figures["distance_km"] for run in runs if run.system == name]) for name in paper.SYSTEMS
    ]
    spreads = [
        _mean([run.figures["distance_sd_km"] for run in runs if run.system == name]) for name in paper.SYSTEMS
    ]
    ours = [
        NONE if mean is None or sd is None else f"{mean:.2f} ± {sd:.2f}"
        for mean, sd in zip(means, spreads, strict=True)
    ]
    theirs = [mean for mean, _ in paper.DISTANCE_KM]
    rows = (
        ("ours", *ours, _improved(means)),
        ("paper", *(f"{mean:.2f} ± {sd:.2f}" for mean, sd in paper.DISTANCE_KM), _improved(theirs)),
    )
    return ReportTable(
        "paper-distance",
        "Distance from device to AP, km (MOHAWK's Table 5)",
        "Mean ± sd over every present device in every step; both averaged over the runs. Improvement: mean "
        "of the two baselines ÷ MOHAWK.",
        ("", *NAMES, "Avg. improvement"),
        rows,
    )


def _improved(means: Sequence[float | None]) -> str:
    *baselines, mohawk = means
    there = [value for value in baselines if value is not None]
    if not mohawk or len(there) < 2:
        return NONE
    return f"{math.fsum(there) / len(there) / mohawk:.2f} ×"


def _accuracies(runs: Sequence[PaperRun], name: str) -> str:
    return spread(known(runs, name), scale=100.0, unit=" %")


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _steps(runs: Sequence[PaperRun]) -> str:
    played = {run.steps for run in runs}
    return f"{max(played):,}" if len(played) == 1 else f"{min(played):,} to {max(played):,}"
