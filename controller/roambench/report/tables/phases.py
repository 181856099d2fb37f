"""The split by phase as tables: of all boards, and of each beside its truth."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.energy import PhaseEnergy
from roambench.report.summaries.run import RunSummary, boards_left_out
from roambench.report.summaries.truth_checks import TruthByKind, TruthCheck
from roambench.report.table import ReportTable

#: Under every table that sets a split figure beside the truth of emulated boards.
TRUTH_MEANING = (
    "Truth: what the emulated boards really drew over the same measured time, net of what they drew in the "
    "idle baselines; the difference also in standard uncertainties (u), of which 2 are printed as ±."
)


def phase_table(runs: Sequence[RunSummary]) -> ReportTable:
    """Per phase: time, gross, idle and net, the naive trapezoid, whether the meter was fast enough, and the
    truth where it is known.
    """
    known = any(item.truth for run in runs if run.measured for item in run.measured.phases)
    rows = [
        (
            run.label,
            item.phase.value,
            str(item.count),
            numbers.seconds(item.duration_s),
            numbers.percent(item.gross.coverage),
            numbers.energy(item.gross, zero="0 J"),
            numbers.joules(item.idle_j),
            numbers.energy(item.net, zero="0 J"),
            f"{item.net.joules / item.net.covered_s:+.3f} W"
            if item.net.covered_s > 0.0 and item.phase in ACTIVE_PHASES
            else NONE,
            _without_model(item),
            numbers.joules(item.naive_j),
            _resolution(item),
            *(_truth(item.truth) if known else ()),
        )
        for run in runs
        for item in (run.measured.phases if run.measured else ())
    ]
    return ReportTable(
        "phases",
        "Energy by phase",
        "Phases partition every board's time. Gross is idle plus net, ± k = 2, by least squares over all "
        "readings. Resolved (rule R7): a span lasts five periods of its meter (5 s at 1 Hz), or all of its "
        "type on its board together ten (10 s); the joules of undersampled spans are in the sums, with the "
        "large uncertainty that they have. Uncorrected: the trapezoid cut at the borders, which leaks "
        "training power into the transfers; shown for comparison, biased, not to be used. What a radio "
        "draws after a transfer (its tail) counts to the phase that follows. Net without a model: every "
        "reading that touched the phase counts once, whatever shape its power has; wide, with the number of "
        "spans that would bring ± 2 u to 5 %. Where the readings contradict the split of a board (see the "
        "flags), it is the net." + (f" {TRUTH_MEANING}" if known else "") + boards_left_out(runs),
        (
            "run",
            "phase",
            "spans",
            "time",
            "covered",
            "gross",
            "idle",
            "net",
            "above idle",
            "net without a model",
            "uncorrected (gross)",
            "verdict",
            *(
                ("gross against truth", "net against truth", "boards within ± 2 u (gross, net)")
                if known
                else ()
            ),
        ),
        tuple(rows),
        numeric_from=2,
        text_from=11,
    )


def truth_table(run: RunSummary) -> ReportTable | None:
    """Every board's split beside its truth, net; None unless the boards are emulated."""
    boards = [board for board in (run.energy.boards if run.energy else ()) if board.truth_by_phase]
    if not boards:
        return None
    phases = [
        phase
        for phase in Phase
        if phase in ACTIVE_PHASES and any(phase in board.truth_by_phase for board in boards)
    ]

    def cell(found: TruthByKind | None) -> str:
        return NONE if found is None or found.net is None else _against(found.net)

    return ReportTable(
        f"truth-{run.label}",
        f"{run.label}: the split against the truth",
        f"Net energy of each board's phases, measured against true. {TRUTH_MEANING}",
        ("board", *(phase.value for phase in phases)),
        tuple(
            (board.device, *(cell(board.truth_by_phase.get(phase)) for phase in phases)) for board in boards
        ),
        numeric_from=1,
    )


def _against(check: TruthCheck) -> str:
    return numbers.against_truth(check.measured_j, check.u_j, check.true_j)


def _truth(found: TruthByKind | None) -> tuple[str, str, str]:
    if found is None:
        return NONE, NONE, NONE
    gross, net = found.gross, found.net
    within = f"{gross.within} of {gross.boards}"
    if net is None:
        return _against(gross), NONE, within
    return _against(gross), _against(net), f"{within}, {net.within} of {net.boards}"


def _without_model(item: PhaseEnergy) -> str:
    found = item.without_model
    if found is None:
        return NONE
    wanted = found.spans_wanted
    return numbers.energy(found.net) + (f" ({wanted:,})" if wanted is not None else "")


def _resolution(item: PhaseEnergy) -> str:
    if item.phase is Phase.LOST:
        return NONE
    if not item.unresolved:
        return "resolved"
    return "undersampled" if item.unresolved == item.count else f"{item.unresolved} undersampled"
