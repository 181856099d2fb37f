"""The split by phase as tables: of all boards, and of each beside its truth."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.report import numbers
from roambench.report.numbers import NONE
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
            numbers.joules(item.naive_j),
            *(_truth(item.truth) if known else ()),
        )
        for run in runs
        for item in (run.measured.phases if run.measured else ())
    ]
    return ReportTable(
        "phases",
        "Energy by phase",
        "Phases partition every board's time. Gross is idle plus net; ± is 2 u. Boards rest around each "
        "active "
        "phase: its net energy is the sum of the readings from its start to the end of a guard behind it, "
        "less the idle power nearby; what a radio draws after a transfer (its tail) counts to the transfer. "
        "Where boards did not rest (rounds.rest_s = 0), phases touch, and a model of constant powers tells "
        "them apart. Uncorrected: the trapezoid cut at the borders; shown for comparison, biased for short "
        "phases." + (f" {TRUTH_MEANING}" if known else "") + boards_left_out(runs),
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
            "uncorrected (gross)",
            *(
                ("gross against truth", "net against truth", "boards within ± 2 u (gross, net)")
                if known
                else ()
            ),
        ),
        tuple(rows),
        numeric_from=2,
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
