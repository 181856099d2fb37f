"""Our runs beside MOHAWK's Tables 3 to 6; pure. Means are over the seeds of a system in a setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from roambench.report import paper_mohawk as paper
from roambench.report.bounds import Bounds, factor, mean_of, ratio_of
from roambench.report.numbers import NONE
from roambench.report.paper_runs import PaperRun, Setting, comparable
from roambench.report.table import Table

#: Keys of the tables in reading order.
KEYS: Final = ("paper-accuracy", "paper-rounds", "paper-devices", "paper-distance", "paper-joules")
_TITLES: Final = {"hierfavg": "HierFAVG", "macfl": "MACFL", "mohawk": "MOHAWK"}
_NAMES: Final = tuple(_TITLES[system] for system in paper.SYSTEMS)
_RATIO: Final = "MOHAWK : HierFAVG : MACFL"
_HEAD: Final = ("dataset", "data", "k2", "", *_NAMES, _RATIO, "Avg. improvement")
_RATIOS: Final = (
    "Ratios to MOHAWK's figure; Avg. improvement is the mean of the two baselines ÷ MOHAWK, as in the paper. "
)
_BOUND: Final = (
    "A run that ended without the threshold is shown by how far it came (not in N, > N J); ratios are then "
    "bounds (≥, ≤), and – where both sides are open. "
)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of a run that the paper tells, too. `most`: more of it is better."""

    name: str
    ours: Callable[[PaperRun], Bounds | None]
    theirs: Callable[[Setting], tuple[float, ...] | None]
    number: Callable[[float], str]
    open_end: str = ""
    most: bool = False


def _of_setting(figures: paper.Figures) -> Callable[[Setting], tuple[float, ...] | None]:
    return lambda setting: figures.get((setting.dataset, setting.data, setting.k2))


def _exactly(value: float | None) -> Bounds | None:
    return None if value is None else Bounds.exactly(value)


_FIGURES: Final = (
    _Figure("rounds", lambda run: run.rounds, _of_setting(paper.ROUNDS), lambda v: f"{v:,.4g}", "not in "),
    _Figure("J per client", lambda run: run.joules, _of_setting(paper.JOULES), lambda v: f"{v:,.2f}", "> "),
    _Figure(
        "devices per step",
        lambda run: _exactly(run.aggregated_per_step),
        lambda setting: paper.AGGREGATED.get(setting.k2),
        lambda v: f"{v:.2f}",
        most=True,
    ),
    _Figure(
        "km to the AP",
        lambda run: _exactly(run.distance_km),
        lambda setting: tuple(mean for mean, _ in paper.DISTANCE_KM),
        lambda v: f"{v:.2f}",
    ),
)


def ratios_table(runs: Sequence[PaperRun]) -> Table | None:
    """All of it in a few lines, for a report; None where MOHAWK did not run beside one of its baselines."""
    kept = comparable(runs)
    rows = []
    for setting, systems in groups_of(kept).items():
        place = f"{setting.dataset}, {setting.data}, k2 = {setting.k2}"
        for figure in _FIGURES:
            found = [
                [bounds for run in systems.get(name, []) if (bounds := figure.ours(run)) is not None]
                for name in paper.SYSTEMS
            ]
            means = [mean_of(there) if there else None for there in found]
            cells = [bounded(there, figure.number, figure.open_end) for there in found]
            printed = figure.theirs(setting)
            theirs = [None] * 3 if printed is None else [Bounds.exactly(value) for value in printed]
            if any(there for there in found):
                ratios = (*ratios_of(means, figure.most), *ratios_of(theirs, figure.most))
                rows.append((place, figure.name, *cells, *ratios))
                place = ""  # told once
    if not rows:
        return None
    return Table(
        "paper-ratios",
        "Ratios beside MOHAWK's Tables 4 to 6",
        f"Ratios: {_RATIO}. Rounds and joules are those to the threshold of {_thresholds(kept)}; joules are "
        f"modelled, for communication alone. {_BOUND}Improved: mean of the two baselines ÷ MOHAWK; for "
        f"devices per step MOHAWK ÷ that mean. {_paper_thresholds(kept)}".strip(),
        ("setting", "", *_NAMES, "ratios", "improved", "paper's ratios", "improved"),
        tuple(rows),
        numeric_from=2,
    )


def paper_tables(runs: Sequence[PaperRun]) -> list[Table]:
    """[] where MOHAWK did not run beside one of its baselines."""
    kept = comparable(runs)
    if not kept:
        return []
    made = [_accuracy(kept), _rounds(kept), _devices(kept), _distance(kept), _joules(kept)]
    return [table for table in made if table is not None]


Groups = dict[Setting, dict[str, list[PaperRun]]]


def groups_of(runs: Sequence[PaperRun]) -> Groups:
    """By setting, IID first and k2 rising, then by system."""

    def place(setting: Setting) -> tuple[object, ...]:
        known = {paper.IID: 0, paper.NON_IID: 1}
        return (setting.dataset, known.get(setting.data, 2), setting.data, setting.k2)

    groups: Groups = {setting: {} for setting in sorted({run.setting for run in runs}, key=place)}
    for run in runs:
        groups[run.setting].setdefault(run.system, []).append(run)
    return groups


def _accuracy(runs: Sequence[PaperRun]) -> Table:
    rows = []
    for setting, systems in groups_of(runs).items():
        of = place_of(setting)
        ours = [_percents([run.final_accuracy for run in systems.get(name, [])]) for name in paper.SYSTEMS]
        best = [_percents([run.best_accuracy for run in systems.get(name, [])]) for name in paper.SYSTEMS]
        rows += [(*of, "ours, last", *ours), (*of, "ours, best", *best)]
        found = paper.ACCURACY_PERCENT.get((setting.dataset, setting.data, setting.k2))
        theirs = [f"{value:.2f} %" for value in found] if found else [NONE] * 3
        rows.append((*of, "paper", *theirs))
    return Table(
        KEYS[0],
        "Accuracy (MOHAWK's Table 3)",
        "Of the global model on the test set, mean ± sd over the seeds. The paper's are those after a month "
        f"of 744 steps; ours played {_steps(runs)}.",
        ("dataset", "data", "k2", "", *_NAMES),
        tuple(rows),
        numeric_from=4,
    )


def _rounds(runs: Sequence[PaperRun]) -> Table:
    def cell(found: Sequence[PaperRun]) -> str:
        return bounded([run.rounds for run in found], lambda low: f"{low:,.4g}", "not in ")

    return _ratio_table(
        KEYS[1],
        f"Rounds to the threshold of {_thresholds(runs)} (MOHAWK's Table 4)",
        "A round is a step; as in the paper it is t of the cloud aggregation whose model reached the "
        f"threshold. Mean over the seeds. {_BOUND}{_RATIOS}{_paper_thresholds(runs)}",
        runs,
        cell,
        lambda run: run.rounds,
        lambda setting: paper.ROUNDS.get((setting.dataset, setting.data, setting.k2)),
        lambda value: f"{value:g}",
    )


def _joules(runs: Sequence[PaperRun]) -> Table | None:
    if any(run.joules is None for run in runs):
        runs = [run for run in runs if run.joules is not None]
    if not comparable(runs):
        return None

    def cell(found: Sequence[PaperRun]) -> str:
        return bounded([run.joules for run in found if run.joules], lambda low: f"{low:,.2f} J", "> ")

    return _ratio_table(
        KEYS[4],
        "Communication energy per client to the threshold (MOHAWK's Table 6)",
        "Modelled (Eq. 1), not measured: sum over the rounds up to the threshold of each round's mean "
        "over the devices that communicated in it, the reading that fits the paper's figures. "
        f"{_BOUND}{_RATIOS}{_paper_thresholds(runs)}",
        runs,
        cell,
        lambda run: run.joules or Bounds.at_least(0.0),
        lambda setting: paper.JOULES.get((setting.dataset, setting.data, setting.k2)),
        lambda value: f"{value:,.2f} J",
    )


def _ratio_table(
    key: str,
    title: str,
    caption: str,
    runs: Sequence[PaperRun],
    cell: Callable[[Sequence[PaperRun]], str],
    bounds: Callable[[PaperRun], Bounds],
    printed: Callable[[Setting], tuple[float, ...] | None],
    number: Callable[[float], str],
) -> Table:
    rows = []
    for setting, systems in groups_of(runs).items():
        found = [systems.get(name, []) for name in paper.SYSTEMS]
        means = [mean_of([bounds(run) for run in there]) if there else None for there in found]
        rows.append((*place_of(setting), "ours", *(cell(there) for there in found), *ratios_of(means)))
        theirs = printed(setting)
        if theirs is None:
            rows.append((*place_of(setting), "paper", *(NONE,) * 5))
        else:
            cells = (number(value) for value in theirs)
            rows.append(
                (*place_of(setting), "paper", *cells, *ratios_of([Bounds.exactly(value) for value in theirs]))
            )
    return Table(key, title, caption.strip(), _HEAD, tuple(rows), numeric_from=4)


def ratios_of(means: Sequence[Bounds | None], most: bool = False) -> tuple[str, str]:
    """MOHAWK : HierFAVG : MACFL with MOHAWK as 1, and the paper's improvement (`most`: the other way)."""
    *baselines, mohawk = means
    if mohawk is None:
        return NONE, NONE
    parts = [NONE if other is None else factor(ratio_of(other, mohawk), "") for other in baselines]
    there = [other for other in baselines if other is not None]
    if len(there) < 2:
        return f"1 : {' : '.join(parts)}", NONE
    both = (mohawk, mean_of(there)) if most else (mean_of(there), mohawk)
    return f"1 : {' : '.join(parts)}", factor(ratio_of(*both))


def _devices(runs: Sequence[PaperRun]) -> Table:
    """Per setting's k2, over the runs that played the most steps: shorter ones saw other hours."""
    longest = max(run.steps for run in runs)
    rows = []
    for k2 in sorted({run.setting.k2 for run in runs}):
        means = []
        for system in paper.SYSTEMS:
            there = [run for run in runs if (run.system, run.setting.k2) == (system, k2)]
            most = max((run.steps for run in there), default=0)
            means.append(_mean([run.aggregated_per_step for run in there if run.steps == most]))
        rows.append((str(k2), "ours", *(_number(mean) for mean in means), *_gains(means)))
        theirs = paper.AGGREGATED.get(k2)
        if theirs is None:
            rows.append((str(k2), "paper", *(NONE,) * 5))
        else:
            cells = [f"{value:g}" for value in theirs]
            printed = f"{_gains(theirs)[1]} (printed: {paper.AGGREGATED_IMPROVEMENT[k2]:.2f} %)"
            rows.append((str(k2), "paper", *cells, _gains(theirs)[0], printed))
    return Table(
        KEYS[2],
        "Devices aggregated per step (MOHAWK's Table 5)",
        "Mean over the steps after the first of the devices whose models an edge aggregation used, which "
        f"does not depend on the data. The longest run played {longest:,} steps; per system and k2 the "
        "longest ones count. Runs that stopped at a threshold saw other hours than those that went on. "
        "Ratio: MOHAWK ÷ mean of the baselines. 1 - baselines ÷ MOHAWK is the reading that fits the paper's "
        "percentages.",
        ("k2", "", *_NAMES, "ratio", "1 - baselines ÷ MOHAWK"),
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


def _distance(runs: Sequence[PaperRun]) -> Table:
    means = [_mean([run.distance_km for run in runs if run.system == name]) for name in paper.SYSTEMS]
    spreads = [_mean([run.distance_sd_km for run in runs if run.system == name]) for name in paper.SYSTEMS]
    ours = [
        NONE if mean is None or sd is None else f"{mean:.2f} ± {sd:.2f}"
        for mean, sd in zip(means, spreads, strict=True)
    ]
    theirs = [mean for mean, _ in paper.DISTANCE_KM]
    rows = (
        ("ours", *ours, _improved(means)),
        ("paper", *(f"{mean:.2f} ± {sd:.2f}" for mean, sd in paper.DISTANCE_KM), _improved(theirs)),
    )
    return Table(
        KEYS[3],
        "Distance from device to AP, km (MOHAWK's Table 5)",
        "Mean ± sd over every present device in every step; both averaged over the runs. Improvement: mean "
        "of the two baselines ÷ MOHAWK.",
        ("", *_NAMES, "Avg. improvement"),
        rows,
    )


def _improved(means: Sequence[float | None]) -> str:
    *baselines, mohawk = means
    there = [value for value in baselines if value is not None]
    if not mohawk or len(there) < 2:
        return NONE
    return f"{math.fsum(there) / len(there) / mohawk:.2f} ×"


def place_of(setting: Setting) -> tuple[str, str, str]:
    return setting.dataset, setting.data, str(setting.k2)


def bounded(found: Sequence[Bounds], number: Callable[[float], str], open_end: str) -> str:
    if not found:
        return NONE
    mean = mean_of(found)
    if mean.known:
        return number(mean.low)
    reached = sum(bounds.known for bounds in found)
    some = f" ({reached} of {len(found)} reached it)" if reached else ""
    return f"{open_end}{number(mean.low)}{some}"


def _percents(values: Sequence[float | None]) -> str:
    there = [100.0 * value for value in values if value is not None]
    if not there:
        return NONE
    mean = math.fsum(there) / len(there)
    if len(there) < 2:
        return f"{mean:.2f} %"
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in there) / (len(there) - 1))
    return f"{mean:.2f} ± {sd:.2f} %"


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _steps(runs: Sequence[PaperRun]) -> str:
    played = {run.steps for run in runs}
    return f"{max(played):,}" if len(played) == 1 else f"{min(played):,} to {max(played):,}"


def _thresholds(runs: Sequence[PaperRun]) -> str:
    found = sorted({run.threshold for run in runs if run.threshold is not None})
    return " and ".join(f"{100.0 * value:g} %" for value in found) or NONE


def _paper_thresholds(runs: Sequence[PaperRun]) -> str:
    """Said only where ours is another."""
    other = {
        run.setting.dataset: paper.THRESHOLDS[run.setting.dataset]
        for run in runs
        if run.setting.dataset in paper.THRESHOLDS and run.threshold != paper.THRESHOLDS[run.setting.dataset]
    }
    told = ", ".join(f"{100.0 * value:g} % for {name}" for name, value in sorted(other.items()))
    return f"The paper's threshold is another: {told}." if told else ""
