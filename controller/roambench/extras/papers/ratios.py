"""MOHAWK : HierFAVG : MACFL of our runs beside the ratios of the paper; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from roambench.extras.papers import mohawk as paper
from roambench.extras.papers.bounds import Bounds, factor, mean_of, ratio_of
from roambench.extras.papers.runs import PaperRun, Setting, comparable, rounds_of
from roambench.extras.papers.settings import (
    NAMES,
    bounded,
    groups_of,
    paper_thresholds,
    place_of,
    thresholds_of,
)
from roambench.report.numbers import NONE
from roambench.report.table import ReportTable

RATIO: Final = "MOHAWK : HierFAVG : MACFL"
_HEAD: Final = ("dataset", "data", "k2", "", *NAMES, RATIO, "Avg. improvement")
RATIOS: Final = (
    "Ratios to MOHAWK's figure; Avg. improvement is the mean of the two baselines ÷ MOHAWK, as in the paper. "
)
BOUND: Final = (
    "A run that ended without the threshold is shown by how far it came (not in N, > N J); ratios are then "
    "bounds (≥, ≤), and – where both sides are open. "
)
#: Accuracies below the threshold that have rows.
MILESTONES: Final = (0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of a run that the paper has, too. `most`: more of it is better."""

    name: str
    ours: Callable[[PaperRun], Bounds | None]  # of a run; seeds are averaged, or as `together` has it
    theirs: Callable[[Setting], tuple[float, ...] | None]
    number: Callable[[float], str]
    open_end: str = ""
    most: bool = False
    together: Callable[[Sequence[PaperRun]], Bounds] | None = None


def _of_setting(figures: paper.Figures) -> Callable[[Setting], tuple[float, ...] | None]:
    return lambda setting: figures.get((setting.dataset, setting.data, setting.k2))


def _exactly(name: str) -> Callable[[PaperRun], Bounds | None]:
    """The figure of that name."""

    def figure(run: PaperRun) -> Bounds | None:
        value = run.figures[name]
        return None if value is None else Bounds.exactly(value)

    return figure


_FIGURES: Final = (
    _Figure(
        "rounds",
        lambda run: run.rounds,
        _of_setting(paper.ROUNDS),
        lambda v: f"{v:,.4g}",
        "not in ",
        together=rounds_of,
    ),
    _Figure("J per client", lambda run: run.joules, _of_setting(paper.JOULES), lambda v: f"{v:,.2f}", "> "),
    _Figure(
        "devices per step",
        _exactly("aggregated_per_step"),
        lambda setting: paper.AGGREGATED.get(setting.k2),
        lambda v: f"{v:.2f}",
        most=True,
    ),
    _Figure(
        "km to the AP",
        _exactly("distance_km"),
        lambda setting: tuple(mean for mean, _ in paper.DISTANCE_KM),
        lambda v: f"{v:.2f}",
    ),
)


def ratios_table(runs: Sequence[PaperRun]) -> ReportTable | None:
    """All of it in a few lines, for a report; None where MOHAWK did not run beside one of its baselines."""
    kept = comparable(runs)
    rows = []
    for setting, systems in groups_of(kept).items():
        place = f"{setting.dataset}, {setting.data}, k2 = {setting.k2}"
        for figure in _FIGURES:
            found = [_bounds(figure, systems.get(name, [])) for name in paper.SYSTEMS]
            means = [mean_of(there) if there else None for there in found]
            cells = [bounded(there, figure.number, figure.open_end) for there in found]
            printed = figure.theirs(setting)
            theirs = [None] * 3 if printed is None else [Bounds.exactly(value) for value in printed]
            if any(there for there in found):
                ratios = (*ratios_of(means, figure.most), *ratios_of(theirs, figure.most))
                rows.append((place, figure.name, *cells, *ratios))
                place = ""  # named once
    if not rows:
        return None
    return ReportTable(
        "paper-ratios",
        "Ratios beside MOHAWK's Tables 4 to 6",
        f"Ratios: {RATIO}. Rounds and joules are those to the threshold of {thresholds_of(kept)}; joules are "
        f"modelled, for communication alone. {BOUND}Improved: mean of the two baselines ÷ MOHAWK; for "
        f"devices per step MOHAWK ÷ that mean. {paper_thresholds(kept)}".strip(),
        ("setting", "", *NAMES, "ratios", "improved", "paper's ratios", "improved"),
        tuple(rows),
        numeric_from=2,
    )


def _bounds(figure: _Figure, runs: Sequence[PaperRun]) -> list[Bounds]:
    if figure.together is not None:
        return [figure.together(runs)] if runs else []
    return [bounds for run in runs if (bounds := figure.ours(run)) is not None]


#: The figures of one system's runs in one setting, or a word where they have none.
Ours = Callable[[Sequence[PaperRun]], "list[Bounds] | str"]


def ratio_table(
    key: str,
    title: str,
    caption: str,
    runs: Sequence[PaperRun],
    ours: Sequence[tuple[str, Ours]],
    written: Callable[[Sequence[Bounds]], str],
    printed: Callable[[Setting], tuple[float, ...] | None],
    number: Callable[[float], str],
) -> ReportTable:
    """Rows of `ours` (each with what names it, and the figures of a system's runs or a word instead) and one
    of the paper per setting: the three systems, their ratios, the improvement."""
    rows = []
    for setting, systems in groups_of(runs).items():
        found = [systems.get(name, []) for name in paper.SYSTEMS]
        for name, bounds_of in ours:
            bounds = [bounds_of(there) if there else [] for there in found]
            means = [mean_of(there) if there and not isinstance(there, str) else None for there in bounds]
            cells = [there if isinstance(there, str) else written(there) for there in bounds]
            rows.append((*place_of(setting), name, *cells, *ratios_of(means)))
        theirs = printed(setting)
        if theirs is None:
            rows.append((*place_of(setting), "paper", *(NONE,) * 5))
        else:
            printed_cells = (number(value) for value in theirs)
            rows.append(
                (
                    *place_of(setting),
                    "paper",
                    *printed_cells,
                    *ratios_of([Bounds.exactly(value) for value in theirs]),
                )
            )
    return ReportTable(key, title, caption.strip(), _HEAD, tuple(rows), numeric_from=4)


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


def milestones_table(runs: Sequence[PaperRun]) -> ReportTable | None:
    """Rounds to each of MILESTONES below the runs' threshold, ours only; None where nothing was scored."""
    kept = [run for run in comparable(runs) if run.scored]
    shown = [accuracy for accuracy in MILESTONES if any(accuracy < run.threshold for run in kept)]
    rows = []
    for setting, systems in groups_of(kept).items():
        for accuracy in shown:
            found = [systems.get(name, []) for name in paper.SYSTEMS]
            means = [rounds_of(there, accuracy) if there else None for there in found]
            cells = [
                NONE if mean is None else bounded([mean], lambda low: f"{low:,.4g}", "not in ")
                for mean in means
            ]
            rows.append((*place_of(setting), f"{100.0 * accuracy:g} %", *cells, *ratios_of(means)))
    if not rows:
        return None
    return ReportTable(
        "paper-milestones",
        "Rounds to lower accuracies",
        "Counted as in Table 4, from the same runs; the paper has no figures for these. "
        f"{NONE}: there is no ratio.",
        (
            "dataset", "data", "k2", "accuracy", "HierFAVG", "MACFL", "MOHAWK",
            "MOHAWK : HierFAVG : MACFL", "Avg. improvement",
        ),
        tuple(rows),
        numeric_from=3,
    )  # fmt: skip
