"""Tables about boards' circumstances: whose clock, which meter, spool, temperature, throttling."""

from __future__ import annotations

import math

from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.board_state import BoardState
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable
from roambench.runs.measured.clocks import ReaderCase


def clock_table(run: RunSummary) -> ReportTable | None:
    """The meter of each board and the clock that stamped its readings; None when nothing is known of any."""
    if not any(state.meter is not None or state.clock.bursts for state in run.boards):
        return None
    rows = [
        (
            state.device,
            _meter(state),
            _reader(state),
            f"{state.clock.offset_ms:+,.2f} ms" if math.isfinite(state.clock.offset_ms) else NONE,
            f"± {state.clock.bound_ns * 1e-6:,.2f} ms" if math.isfinite(state.clock.bound_ns) else NONE,
            f"{state.clock.drift_ppm:+.1f} ppm" if math.isfinite(state.clock.drift_ppm) else NONE,
            str(state.clock.bursts),
            state.clock.verdict.value if state.clock.case is ReaderCase.REMOTE else "not needed",
        )
        for state in run.boards
    ]
    scale = run.info.time_scale
    times = "" if scale == 1.0 else f" in device time, {scale:g} times the machines'"
    return ReportTable(
        f"clocks-{run.label}",
        f"{run.label}: meters and clocks",
        "A meter read by its own board needs no offset: readings and phases are stamped by one clock. Read "
        "elsewhere, the offset must be known: worse than 100 ms is flagged, worse than 400 ms refused. "
        f"Offset, and ± its bound, are of the board's clock against the controller's{times}.",
        ("board", "meter", "read by", "offset", "bound", "drift", "bursts", "verdict"),
        tuple(rows),
        numeric_from=3,
        text_from=7,
    )


def host_table(run: RunSummary) -> ReportTable | None:
    """Temperature, clock rate, load and spool of each board; None when no board said anything."""
    if not any(state.host is not None or state.spools or state.notes for state in run.boards):
        return None
    rows = []
    for state in run.boards:
        host = state.host
        phases = ", ".join(f"{count} {phase.value}" for phase, count in state.throttled_phases().items())
        throttle = NONE if host is None or not host.knows_throttling else "none"
        if phases:
            throttle = f"{phases}: {', '.join(state.throttle_names())}"
        rows.append(
            (
                state.device,
                NONE if host is None else numbers.percent(host.cpu_share),
                NONE if host is None else numbers.percent(host.agent_share, 2),
                NONE if host is None else _pair(host.mean_c, host.highest_c, "°C"),
                NONE if host is None else _pair(host.lowest_mhz, host.highest_mhz, "MHz"),
                throttle,
                "; ".join(
                    f"{spool.store}: {spool.dropped:,} dropped, {spool.dead:,} dead, {spool.depth:,} left"
                    for spool in state.spools
                )
                or NONE,
                "; ".join(f"{note.kind}: {note.text}" for note in state.notes) or NONE,
            )
        )
    return ReportTable(
        f"host-{run.label}",
        f"{run.label}: health of the boards",
        "CPU: mean share of all cores. Agent: CPU time of the agent's own processes (training included), in "
        "percent of one core. Temperature: mean and highest. Clock: lowest and highest. Throttled: phases "
        "that a throttle bit touches. Noted: what its agent noted that bears on its figures. An emulated "
        "board has no temperature sensor.",
        ("board", "CPU", "agent", "temperature", "clock", "throttled", "spool at the end", "noted"),
        tuple(rows),
        numeric_from=1,
        text_from=5,
    )


def _meter(state: BoardState) -> str:
    if state.meter is None:
        return NONE
    serial = f", serial {state.meter.serial}" if state.meter.serial else ""
    return f"{state.meter.driver} ({state.meter.traits}){serial}"


def _reader(state: BoardState) -> str:
    match state.clock.case:
        case ReaderCase.LOCAL:
            return "the board itself: one clock"
        case ReaderCase.REMOTE:
            return state.clock.reader
        case ReaderCase.UNKNOWN:
            return "not described"


def _pair(low: float, high: float, unit: str) -> str:
    return f"{low:.0f}, {high:.0f} {unit}" if math.isfinite(low) else NONE
