"""Doubts about a run that a reader must see before its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roambench.contract.phases import ACTIVE_PHASES
from roambench.report.board_state import BoardState, state_flags
from roambench.report.energy_summary import EnergySummary
from roambench.report.evidence import RunEvidence
from roambench.report.learning_summary import OrderSummary
from roambench.rounds.records import OrderGiven, ReplayResumed
from roambench.runs.info import RunState

#: Half of the age of a Smart Power 2's window: an emulated training that ends later than this against its
#: device time puts joules into the wrong phase.
LATENESS_LIMIT_S: Final = 0.130
#: Rule R4: below it a whole-run energy is not valid without being flagged.
COVERAGE_LIMIT: Final = 0.99


def flags_of(
    run: RunEvidence, orders: OrderSummary, energy: EnergySummary | None, boards: Sequence[BoardState] = ()
) -> tuple[str, ...]:
    """One sentence per doubt, the gravest first."""
    flags = []
    if run.info.state is not RunState.FINISHED:
        reason = f": {run.info.reason}" if run.info.reason else ""
        flags.append(f"the run is {run.info.state.value}{reason}")
    if run.info.lookahead:
        flags.append("lookahead is on: devices are chosen by the future, so waste means nothing")
    flags += run.info.doubts
    if energy is None or not energy.measured:
        what = "every joule is modelled, none measured" if run.modelled else "joules are not measured"
        flags.append(f"no meter readings: {what}")
    else:
        flags += _energy_flags(energy)
    flags += state_flags(boards)
    # `late_s` is told in device time, so the time scale is in it already.
    if orders.lateness_p99_s is not None and orders.lateness_p99_s > LATENESS_LIMIT_S:
        share = f", {orders.late_share:.0%} of all training time" if orders.late_share else ""
        flags.append(
            f"the host could not keep up: emulated trainings ended up to {orders.lateness_p99_s:.2f} s late "
            f"(99th percentile, limit {LATENESS_LIMIT_S:.2f} s{share}); the boards waited "
            "meanwhile and drew idle power; lower local.time_scale or use fewer agents"
        )
    flags += _pause_flags(run)
    paced, modelled = (run.records.array(OrderGiven, f"{rate}_mbit_s") for rate in ("paced", "throughput"))
    held = paced > 0.0
    clipped = int((held & (paced < modelled)).sum())
    if clipped:
        flags.append(
            f"{clipped:,} of {int(held.sum()):,} transfers were to be faster than the boards' port and were "
            "clipped to it: Eq. 2's throughput is not what their links did"
        )
    if orders.unanswered and run.info.state is RunState.FINISHED:
        flags.append(f"{orders.unanswered} orders have no answer in the event log")
    if run.dead_letters:
        flags.append(
            f"{len(run.dead_letters)} drained records could not be decoded, first: {run.dead_letters[0]}"
        )
    flags += run.notes
    return tuple(flags)


def _pause_flags(run: RunEvidence) -> list[str]:
    """Pauses in which boards drew power; on virtual devices a pause changes nothing."""
    began_ns, ended_ns = (run.records.array(ReplayResumed, end) for end in ("from_ns", "to_ns"))
    held_ns = ended_ns - began_ns
    on_boards = held_ns[run.records.codes(ReplayResumed, "clock", ["device"]) == 0]
    if not len(on_boards):
        return []
    times = "once" if len(on_boards) == 1 else f"{len(on_boards)} times"
    return [
        f"the replay was paused {times}, for {on_boards.sum() * 1e-9:,.1f} s of device time: the boards drew "
        "idle power meanwhile, and whole-run energies include it"
    ]


def _energy_flags(energy: EnergySummary) -> list[str]:
    flags = []
    if energy.whole_run.coverage < COVERAGE_LIMIT:
        flags.append(
            f"coverage {energy.whole_run.coverage:.1%}: {energy.whole_run.gap_s:,.0f} board-seconds were not "
            "measured and hold no joules"
        )
    silent = [board.device for board in energy.boards if not board.whole_run.covered_s]
    if silent:
        flags.append(f"boards without a single usable reading: {', '.join(silent)}")
    drifted = [board.device for board in energy.boards if board.baselines and board.baselines.drifted]
    if drifted:
        flags.append(
            f"idle power before and after differs by more than 3 u or 2 % ({', '.join(drifted)}): net "
            "energies take the straight line between"
        )
    if not any(board.baselines for board in energy.boards):
        flags.append(
            "no idle baseline both before and after (rule R8 asks for a minute each): net energies rest on "
            "the idle power fitted within the run"
        )
    torn = sum(board.torn for board in energy.boards)
    if torn:
        flags.append(f"{torn} torn readings were left out")
    low = sum(board.undervoltage for board in energy.boards)
    if low:
        flags.append(f"{low} readings below 4.75 V: a board may have slowed itself down")
    short = {
        item.phase.value: item.unresolved
        for item in energy.phases
        if item.phase in ACTIVE_PHASES and item.unresolved
    }
    if short:
        text = ", ".join(f"{count} of {phase}" for phase, count in short.items())
        flags.append(f"spans too short for this meter ({text}): trust sums, not single values")
    return flags
