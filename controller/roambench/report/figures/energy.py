"""Joules wasted and used for learning, and those of every kind of time of the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.report.figures.chart import Bars, Chart, ChartAxis, ChartRow
from roambench.report.figures.learning import Energies, gross
from roambench.report.figures.look import PHASE_COLOURS, PHASE_PATTERNS
from roambench.report.joule_names import WASTED
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.run import RunSummary

_WORK: Final = tuple(phase for phase in Phase if phase in ACTIVE_PHASES)


def energy_chart(runs: Sequence[RunSummary], energies: Energies) -> Chart | None:
    """Joules used for learning of every run and, below, the wasted part, stacked by phase."""
    rows, parts, totals = [], [], []
    for place, energy in energies.items():
        label = runs[place].label
        # "used": the whole name does not fit on a phone
        rows += [ChartRow(f"{place}-consumed", "used", label), ChartRow(f"{place}-wasted", WASTED, label)]
        parts += [_by_phase(energy), energy.wasted_by_phase]
        totals += [energy.gross.cumulative_consumed, energy.gross.cumulative_wasted]
    bars = _bars(_WORK, parts)
    if not bars:
        return None
    return Chart(
        "energy",
        "Energy used for learning and wasted",
        "Gross joules of download, training and upload over all boards; below each, the part that went into "
        "models that the system had no use for. Bars of ± 2 u at their ends.",
        ChartAxis(gross(energies), "J"),
        rows=rows,
        bars=bars,
        totals=totals,
        height=130 + 84 * len(energies),
    )


def whole_run_chart(runs: Sequence[RunSummary], energies: Energies) -> Chart | None:
    """All of a run's joules by phase, background phases included."""
    if not energies:
        return None
    return Chart(
        "spent",
        "Where all the joules went",
        "Gross energy of boards in all, idling too, by phase. A board draws power also while it idles, "
        "rests around what is measured, waits for the step to close, or is absent in the trace.",
        ChartAxis(gross(energies), "J"),
        rows=[ChartRow(str(place), runs[place].label) for place in energies],
        bars=_bars(
            (*_WORK, Phase.REST, Phase.WAIT, Phase.IDLE, Phase.ABSENT, Phase.LOST, Phase.OFF),
            [_by_phase(energy) for energy in energies.values()],
        ),
        height=130 + 48 * len(energies),
    )


def _by_phase(energy: EnergySummary | ModelledSummary) -> Mapping[Phase, float]:
    found: dict[Phase, float] = {}
    for item in energy.phases:
        found[item.phase] = found.get(item.phase, 0.0) + item.gross.joules
    return found


def _bars(phases: Sequence[Phase], rows: Sequence[Mapping[Phase, float]]) -> list[Bars]:
    return [
        Bars(
            phase.value,
            lengths,
            PHASE_COLOURS[phase],
            PHASE_PATTERNS[phase],
            "%{x:,.1f} J",
        )
        for phase in phases
        if any(lengths := [row.get(phase, 0.0) for row in rows])
    ]
