"""Doubts about a run that a reader must see before its numbers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from roambench.contract.phases import ACTIVE_PHASES
from roambench.energy.account import Method
from roambench.energy.idle.baseline import MIN_BASELINE_READINGS, IdleBaselines, NoBaselines
from roambench.energy.rest_checks import EarlyCause
from roambench.experiment.rounds_section import REST_PERIODS, REST_S
from roambench.meters.traits import LATENESS_LIMIT_S
from roambench.report.joule_names import DIFFERENT_SITES
from roambench.report.summaries.board_state import BoardState, state_flags
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.evidence import RunEvidence
from roambench.report.summaries.flag import Flag, grave, gravest_first
from roambench.report.summaries.notes import ROUTINE, SENTENCES
from roambench.report.summaries.orders import OrderSummary
from roambench.rounds.records import OrderGiven, ReplayResumed, RunResumed
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import outages_of

#: Rule R4: below it a whole-run energy is not valid without being flagged.
COVERAGE_LIMIT: Final = 0.99
#: A rest of this share of what the meter wants is one: phases are stamped some ms late.
_ENOUGH: Final = 0.9
#: More boards than these are counted, not named.
_NAMED: Final = 4
#: Power before phases begin: what to do, and what was seen.
EARLY: Final = {
    EarlyCause.CLOCK: (
        "set the clock of the meter's host by NTP, or read the meter on the board's own host: on {on} power "
        "rose before phases of every kind began, as if readings were stamped too early, so that joules of "
        "these phases are missing"
    ),
    EarlyCause.TRANSFER: (
        "begin transfers later or keep the radio awake: on {on} power rose before these transfers began, as "
        "when a radio is woken early, and those joules are not in them"
    ),
}


def flags_of(
    run: RunEvidence, orders: OrderSummary, energy: EnergySummary | None, boards: Sequence[BoardState] = ()
) -> tuple[Flag, ...]:
    """One sentence per doubt, the gravest first."""
    flags: list[Flag] = grave([run.lost] if run.lost else [])
    if run.info.state is not RunState.FINISHED:
        reason = f": {run.info.reason}" if run.info.reason else ""
        flags.append(Flag(f"the run is {run.info.state.value}{reason}"))
    if run.info.lookahead:
        flags.append(
            Flag(
                "an oracle chose (rounds.lookahead): only devices that come back train, which no bench can "
                "know; waste, and joules beside those of other runs, mean nothing"
            )
        )
    flags += grave(run.info.doubts)
    # `late_s` is in device time, so the time scale is in it already.
    if orders.lateness_p99_s is not None and orders.lateness_p99_s > LATENESS_LIMIT_S:
        share = f", for {orders.late_share:.0%} of what they last" if orders.late_share else ""
        flags.append(
            Flag(
                "lower local.time_scale or use fewer agents: this machine could not keep up, emulated "
                f"trainings ended up to {orders.lateness_p99_s:.2f} s late (99th percentile, limit "
                f"{LATENESS_LIMIT_S:.2f} s{share}), and the boards drew idle power meanwhile (where a "
                "program answers: the power of computing, so that its joules are too high)"
            )
        )
    flags += _note_flags(boards)
    if not run.info.kind.trains:
        what = "a rehearsal: nothing is trained and no energy is measured, only who would do what"
        flags.append(Flag(what, routine=True))
    elif run.modelled and (energy is None or not energy.measured):
        flags.append(Flag("no meter readings: every joule is modelled, none measured", routine=True))
    elif energy is None or not energy.measured:
        if not run.lost:
            flags.append(Flag("no meter readings: joules are not measured"))
    else:
        flags += _energy_flags(energy)
        flags += _calibration_flags(energy, run.info.created_utc)
    flags += grave(state_flags(boards))
    flags += grave(_outage_flags(run))
    flags += _pause_flags(run)
    paced, modelled = (run.records.array(OrderGiven, f"{rate}_mbit_s") for rate in ("paced", "throughput"))
    held = paced > 0.0
    clipped = int((held & (paced < modelled)).sum())
    if clipped:
        flags.append(
            Flag(
                f"{clipped:,} of {int(held.sum()):,} transfers were to be faster than the boards' port and "
                "were clipped to it: Eq. 2's throughput is not what their links did",
                routine=True,
            )
        )
    if orders.unanswered and run.info.state is RunState.FINISHED:
        flags.append(Flag(f"{orders.unanswered} orders have no answer in the event log"))
    if run.dead_letters:
        first = run.dead_letters[0]
        flags.append(Flag(f"{len(run.dead_letters)} drained records could not be decoded, first: {first}"))
    flags += grave(run.notes)
    return gravest_first(flags)


def _note_flags(boards: Sequence[BoardState]) -> list[Flag]:
    """The notes of agents, a sentence for each kind."""
    flags = []
    for kind, sentence in SENTENCES.items():
        found = {state.device: note.text for state in boards for note in state.notes if note.kind is kind}
        if found:
            said = sentence.format(on=_boards(found, of=len(boards)))
            flags.append(Flag(said, routine=kind in ROUTINE))
    return flags


def _outage_flags(run: RunEvidence) -> list[str]:
    """Runs on agents that went on after their controller died: on virtual devices nothing shows."""
    outages = outages_of(run.records)
    if not outages:
        return []
    times = run.records.count(RunResumed)
    often = "once" if times == 1 else f"{times} times"
    lost_s = sum(to_ns - from_ns for from_ns, to_ns in outages) * 1e-9
    without_s = run.records.array(RunResumed, "outage_s").sum()
    return [
        f"the run was resumed {often}, after {without_s:,.0f} s without a controller in all: "
        f"{lost_s:,.1f} s of device time, from the last checkpoint to where it went on, count as lost; "
        "what had been done of a step was done again"
    ]


def _pause_flags(run: RunEvidence) -> list[Flag]:
    """Pauses in which boards drew power; on virtual devices a pause changes nothing."""
    began_ns, ended_ns = (run.records.array(ReplayResumed, end) for end in ("from_ns", "to_ns"))
    held_ns = ended_ns - began_ns
    on_boards = held_ns[run.records.codes(ReplayResumed, "clock", ["device"]) == 0]
    if not len(on_boards):
        return []
    times = "once" if len(on_boards) == 1 else f"{len(on_boards)} times"
    said = (
        f"the replay was paused {times}, for {on_boards.sum() * 1e-9:,.1f} s of device time: the boards drew "
        "idle power meanwhile, and whole-run energies include it"
    )
    return [Flag(said, routine=True)]


def _energy_flags(energy: EnergySummary) -> list[Flag]:
    flags: list[Flag] = []
    on = partial(_boards, of=len(energy.boards))
    frozen = {board.device: few([str(stretch) for stretch in board.frozen]) for board in energy.boards}
    if frozen := {device: text for device, text in frozen.items() if text}:
        flags.append(
            Flag(
                "restart the meter and check its firmware: it repeated its last line, as a frozen one does, "
                f"on {on(frozen)}, and that time counts as not measured"
            )
        )
    if energy.whole_run.coverage < COVERAGE_LIMIT:
        flags.append(
            Flag(
                "look for what held lines up (a meter's cable, a reader that was busy or restarted): "
                f"coverage {energy.whole_run.coverage:.1%}: {energy.whole_run.gap_s:,.0f} board-seconds were "
                "not measured and hold no joules"
            )
        )
    holes = {
        board.device: f"{board.whole_run.coverage:.1%}"
        for board in energy.boards
        if 0.0 < board.whole_run.coverage < COVERAGE_LIMIT
    }
    if holes and energy.whole_run.coverage >= COVERAGE_LIMIT:
        flags.append(Flag(f"boards covered less than {COVERAGE_LIMIT:.0%} (rule R4): {on(holes)}"))
    thin = [
        f"{1.0 - row.gross.coverage:.1%} of {row.phase.value}"
        for row in energy.phases
        if row.phase in ACTIVE_PHASES and 0.0 < row.gross.coverage < COVERAGE_LIMIT
    ]
    if thin and not holes and energy.whole_run.coverage >= COVERAGE_LIMIT:
        flags.append(
            Flag(
                "look for what held lines up (a meter's cable, a reader that was busy or restarted): "
                f"{', '.join(thin)} was not measured, and their joules are too low by as much"
            )
        )
    silent = [
        board.device
        for board in energy.boards
        if not board.whole_run.covered_s and board.device not in energy.without
    ]
    if silent:
        flags.append(Flag(f"boards without a single usable reading: {', '.join(silent)}"))
    baselines = {
        board.device: board.baselines for board in energy.boards if isinstance(board.baselines, IdleBaselines)
    }
    # Around rests net energies are above the idle power nearby, wherever that has gone.
    rested = {board.device for board in energy.boards if board.split.method is Method.RESTS}
    drifted = {device: "" for device, found in baselines.items() if found.drifted and device not in rested}
    if drifted:
        flags.append(
            Flag(
                "warm boards up first, or lengthen energy.idle_baseline_s, for surer net energies: idle "
                f"power before and after differs by more than 3 u or 2 % on {on(drifted)}; boards in all are "
                "right, net energies follow the idle power that was fitted in between",
                routine=True,
            )
        )
    low = sum(board.undervoltage for board in energy.boards)
    if low:
        flags.append(Flag(f"{low} readings below 4.75 V: a board may have slowed itself down"))
    flags += grave(_split_flags(energy))
    if not baselines and len(rested) < len(energy.boards):
        flags.append(Flag(_baseline_flag([board.baselines for board in energy.boards])))
    full = {board.device: f"{board.saturated:,} readings" for board in energy.boards if board.saturated}
    if full:
        flags.append(
            Flag(
                "take a sensor with a wider range, or a smaller shunt: the true power was beyond the meter's "
                f"range on {on(full)}; these are left out, and the joules are too few"
            )
        )
    if energy.scope == DIFFERENT_SITES:
        flags.append(
            Flag(
                "compare boards with boards and rails with rails: every sum over boards is "
                f"{energy.scope_text}"
            )
        )
    inconsistent = sum(board.inconsistent for board in energy.boards)
    if inconsistent:
        lines = "1 line whose watts are" if inconsistent == 1 else f"{inconsistent:,} lines whose watts are"
        flags.append(Flag(f"{lines} not its volts times amperes: left out (rule R10)", routine=True))
    return flags


def _baseline_flag(boards: Sequence[IdleBaselines | NoBaselines]) -> str:
    """The flag of a run without baselines: idling was not read, or not for long enough."""
    what = "no idle baseline both before and after"
    if any(isinstance(found, NoBaselines) and found.short for found in boards):
        what = f"idle baselines too short: fewer than {MIN_BASELINE_READINGS} readings before, or after"
    return (
        f"set energy.idle_baseline_s = 60 (rule R8): {what}, so net energies rest on the idle power fitted "
        "within the run"
    )


def _calibration_flags(energy: EnergySummary, created_utc: str) -> list[Flag]:
    """Gains and offsets that may be no longer, or not, those of the meter (rule R11)."""
    flags: list[Flag] = []
    on = partial(_boards, of=len(energy.boards))
    try:
        began = dt.datetime.fromisoformat(created_utc).date()
    except ValueError:  # a folder made by hand
        began = dt.date.min
    old = {
        board.device: str(board.meter.calibrated_on)
        for board in energy.boards
        if board.meter.out_of_date(began)
    }
    if old:
        flags.append(
            Flag(
                f"calibrate again (roambench meter calibrate): meters of {on(old)} were calibrated more than "
                "a year before the run, and their gain may have drifted by more than u_gain says"
            )
        )
    undated = {board.device: board.meter.calibrated_as for board in energy.boards if board.meter.undated}
    if undated:
        flags.append(
            Flag(
                'write when calibrations were made into their tables (date = "YYYY-MM-DD"), or roambench '
                f"meter calibrate: those of {on(undated)} have no date and may be older than a year",
                routine=True,
            )
        )
    misfiled = {
        board.device: f"serial {board.meter.serial}" for board in energy.boards if board.meter.misfiled
    }
    if misfiled:
        flags.append(
            Flag(
                f"rename the calibrations of {on(misfiled)}: they are filed under the board's name, not the "
                "meter's serial number, and another meter at that board would be corrected by them, too",
                routine=True,
            )
        )
    return flags


def _split_flags(energy: EnergySummary) -> list[str]:
    """Objections to what phases have of the joules, board by board; each begins with what to do."""
    flags, on = [], partial(_boards, of=len(energy.boards))
    touching = {board.device: "" for board in energy.boards if board.split.method is Method.TOUCHING}
    if touching:
        flags.append(
            f"set rounds.rest_s to measure phases by themselves: on {on(touching)} they touch, so a model of "
            "constant powers separated them; boards in all are not affected"
        )
    tails = {
        board.device: ", ".join(
            f"{phase.value} {tail.watts:.2f} W" for phase, tail in board.split.checks.tails.items()
        )
        for board in energy.boards
        if board.split.checks.tails
    }
    if tails:
        rest_s = max(tail.rest_s for board in energy.boards for tail in board.split.checks.tails.values())
        flags.append(
            f"set rounds.rest_s = {rest_s:g}: on {on(tails)} power had not fallen back to idle when the "
            "guard behind a phase was over, so that joules of that phase are missing"
        )
    for cause, sentence in EARLY.items():
        early = {
            board.device: ", ".join(f"{p.value} {w:.2f} W" for p, w in board.split.checks.early_w.items())
            for board in energy.boards
            if board.split.checks.early_cause is cause
        }
        if early:
            flags.append(sentence.format(on=on(early)))
    lost = {
        board.device: f"{board.split.checks.lost_share:.0%} of lines"
        for board in energy.boards
        if board.split.checks.lost_share
    }
    if lost:
        flags.append(
            f"make the meter's host less busy, or read the meter elsewhere: on {on(lost)} lines were lost, "
            "or late by a line, while the board worked and not at rest, so the joules of its phases are wrong"
        )
    short = {
        board.device: f"{board.split.rest_s:.1f} s"
        for board in energy.boards
        if is_short_rest(board.split.rest_s, board.meter.nominal_s)
    }
    if short:
        period_s = max(board.meter.nominal_s for board in energy.boards if board.device in short)
        wanted_s = REST_S + REST_PERIODS * period_s
        flags.append(
            f"set rounds.rest_s = {wanted_s:g}: on {on(short)} rests were shorter than what this meter "
            "averages over and a radio's tail take, so joules may lie outside"
        )
    locked = {
        board.device: ", ".join(phase.value for phase in board.split.checks.locked)
        for board in energy.boards
        if board.split.checks.locked
    }
    if locked:
        flags.append(
            f"set rounds.dither_s to half the meter's period: on {on(locked)} phases began at one instant of "
            "that period every time, so the meter saw the same part of them again and again"
        )
    return flags


def is_short_rest(rest_s: float, nominal_s: float) -> bool:
    """Say whether boards rested, but for less than a meter with a line every `nominal_s` wants."""
    return 0.0 < rest_s < _ENOUGH * (REST_S + REST_PERIODS * nominal_s)


def _boards(found: Mapping[str, str], of: int) -> str:
    """Those found among `of` boards, each with its detail ("" for none): "pi-06 (-86 ms)", "all 8 boards
    (idle)", "7 of 8 boards (pi-01, ...)"."""
    named = few([f"{one} ({why})" if why else one for one, why in found.items()])
    if len(found) <= _NAMED:
        return named
    details = set(found.values())
    alike = f" ({detail})" if len(details) == 1 and (detail := next(iter(details))) else ""
    if len(found) < of:
        return f"{len(found)} of {of} boards ({few(list(found)) + alike if alike else named})"
    return f"all {of} boards{alike}" if len(details) == 1 else f"all {of} boards ({named})"


def few(names: Sequence[str]) -> str:
    """At most four of them by name."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
