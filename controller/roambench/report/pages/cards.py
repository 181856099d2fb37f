"""One card per run at the top of a page: the six numbers that a reader looks for first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roambench.contract.counts import count
from roambench.contract.metric import ACCURACY
from roambench.report import numbers
from roambench.report.figures.chart import run_colour
from roambench.report.joule_names import BOARDS_IDLING_TOO, LEARNING, WASTED, in_all
from roambench.report.quantities import QUANTITIES
from roambench.report.summaries.run import RunSummary, improvements, reference_of
from roambench.report.tables.brief import score

#: Name, value, and a note below it.
Number = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Card:
    """`name` of the run, its `state`, and its colour in figures."""

    name: str
    state: str
    colour: str
    numbers: list[Number]


def run_cards(runs: Sequence[RunSummary]) -> list[Card]:
    """One for each run; below its waste, how many times that of the `reference_of` them it is."""
    factors = improvements(runs)
    reference = reference_of(runs).label
    cards = []
    for index, run in enumerate(runs):
        factor = factors.get(run.label, {}).get("gross", {}).get("cumulative_wasted_j", math.nan)
        note = "" if math.isnan(factor) else f"{numbers.factor(factor)} {reference}"
        cards.append(Card(run.label, run.info.state.value, run_colour(index), _numbers(run, note)))
    return cards


def _numbers(run: RunSummary, waste_note: str) -> list[Number]:
    wasted, consumed, coverage = _energy(run, waste_note)
    judged = run.learning.metric
    note = "" if judged == ACCURACY else f"{judged.better} is better"
    if run.experiment.learning.score_precision == "bfloat16":
        note = "scored in bfloat16"
    final = (f"final {judged.name}", score(judged, run), note)
    if (peers := run.peers) is not None:
        average = peers.final_average
        # Nothing waits for an access point here: what counts is how often devices meet.
        return [
            final,
            *([] if average is None else [("of the mean model", judged.text(average), "")]),
            consumed,
            ("neighbours per step", numbers.number(peers.mean_neighbours), ""),
            (
                "models left out",
                f"{peers.left_out_models:,} of {peers.exchanges:,}",
                "",
            ),
            coverage,
        ]
    return [
        final,
        wasted,
        consumed,
        _number("wasted_share", run, _failed(run)),
        _number("aggregated_per_step", run),
        coverage,
    ]


def _failed(run: RunSummary) -> str:
    """Beside waste what is none."""
    return f"{count(run.trainings.failed, 'training')} failed" if run.trainings.failed else ""


def _energy(run: RunSummary, waste_note: str) -> tuple[Number, Number, Number]:
    """Wasted, used for learning, coverage: measured where there were meters, else modelled and called so."""
    if run.spent is None:
        return (WASTED, numbers.NONE, ""), (LEARNING, numbers.NONE, ""), ("coverage", numbers.NONE, "")
    gross, energy = run.spent.gross, run.measured
    how = "" if energy else " (modelled)"
    boards = (
        f"{in_all(BOARDS_IDLING_TOO, energy.scope)}: {numbers.joules(energy.whole_run.joules)}"
        if energy
        else ""
    )
    return (
        (f"{WASTED}{how}", numbers.joules(gross.cumulative_wasted.joules), waste_note),
        (f"{LEARNING}{how}", numbers.joules(gross.cumulative_consumed.joules), boards),
        ("coverage", numbers.percent(energy.whole_run.coverage) if energy else "no meter", ""),
    )


def _number(name: str, run: RunSummary, note: str = "") -> Number:
    return QUANTITIES[name].title, QUANTITIES[name].text(run), note
