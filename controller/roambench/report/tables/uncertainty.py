"""Sources of the uncertainty of a run's joules, and the steadiness of the boards' idle power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roambench.contract.phases import ACTIVE_PHASES
from roambench.energy.energy_value import Energy, UncertaintyBudget, told_from_zero
from roambench.energy.idle.baseline import IdleBaselines, IdleLevel, NoBaselines
from roambench.report import numbers
from roambench.report.joule_names import BOARDS, in_all
from roambench.report.numbers import NONE
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable

#: Parts of a budget in reading order: name and field.
PARTS: Final = (
    ("gain", "gain_j"),
    ("offset", "offset_j"),
    ("edges", "edges_j"),
    ("sampling", "sampling_j"),
    ("baseline", "baseline_j"),
    ("model", "model_j"),
)


def budget_rows(run: RunSummary) -> Iterator[tuple[str, Energy]]:
    """The energies whose budget a reader needs: the whole run, then every active phase's net."""
    if run.measured is None:
        return
    boards = in_all(BOARDS, run.measured.scope)
    yield f"{boards}, gross", run.measured.whole_run
    yield f"{boards}, net", run.measured.whole_run_net
    for item in run.measured.phases:
        if item.phase in ACTIVE_PHASES:
            yield f"{item.phase.value}, gross", item.gross
            yield f"{item.phase.value}, net", item.net


def part_j(budget: UncertaintyBudget, field: str) -> float:
    """One part of a budget, k = 1."""
    return float(getattr(budget, field))


def budget_table(run: RunSummary) -> ReportTable | None:
    """The uncertainty budget (R9); None for a run that was not measured."""
    rows = []
    for name, energy in budget_rows(run):
        budget = energy.budget
        rows.append(
            (
                name,
                numbers.joules(energy.joules),
                *(_small(2.0 * part_j(budget, field)) for _, field in PARTS),
                _small(2.0 * energy.u_joules),
                numbers.percent(2.0 * energy.u_joules / abs(energy.joules), 2)
                if told_from_zero(energy.joules, energy.u_joules)
                else NONE,
            )
        )
    if not rows:
        return None
    return ReportTable(
        f"budget-{run.label}",
        f"{run.label}: where the uncertainty comes from",
        "Joules of 2 u, all boards together. Gain and offset: the meters' parts, one error per meter, so "
        "boards add in quadrature. Edges: borders of phases against the meter's window and clock. Sampling: "
        "what passed while the meter did not look. Gaps: filled in (none unless asked for). Baseline: the "
        "idle power that net leaves out; an offset cancels in net, a gain does not. Parts add in quadrature.",
        ("energy", "joules", *(name for name, _ in PARTS), "together", "relative"),
        tuple(rows),
    )


def baseline_table(run: RunSummary) -> ReportTable | None:
    """Idle power of every board before and after its work (R8); None where no board has any."""
    if run.measured is None or not any(
        isinstance(board.baselines, IdleBaselines) for board in run.measured.boards
    ):
        return None
    rows = []
    for board in run.measured.boards:
        found = board.baselines
        if isinstance(found, NoBaselines):
            why = "no idling seen before and after"
            if found.short:
                why = f"too short: {found.readings_before} and {found.readings_after} readings"
            rows.append((board.device, NONE, NONE, NONE, NONE, why))
            continue
        known = told_from_zero(found.before.watts, found.before.u_watts)
        change = found.after.watts / found.before.watts - 1.0 if known else None
        rows.append(
            (
                board.device,
                _level(found.before),
                _level(found.after),
                f"{1000.0 * (found.after.watts - found.before.watts):+.1f} mW",
                numbers.signed_percent(change),
                "drifted: followed in between" if found.drifted else "steady",
            )
        )
    return ReportTable(
        f"baselines-{run.label}",
        f"{run.label}: idle power before and after",
        "± is 2 u of the mean, with as many independent readings as their autocorrelation leaves, and how "
        "many there were; a minute each is asked for. Drifted (rule R8): apart by more than 3 u or 2 %. Net "
        "energies leave out the idle power fitted to both and to the idling in between.",
        ("board", "before", "after", "change", "relative", "verdict"),
        tuple(rows),
        text_from=5,
    )


def _level(level: IdleLevel) -> str:
    return f"{level.watts:.4f} ± {2.0 * level.u_watts:.4f} W ({level.readings})"


def _small(value: float) -> str:
    """Joules of uncertainty: three significant places, 0 where there is none."""
    return "0" if value == 0.0 else f"{value:.3g}" if value < 1000.0 else f"{value:,.0f}"
