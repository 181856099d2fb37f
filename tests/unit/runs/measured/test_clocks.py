"""Whose clock a board has: the fit per boot, the case of its reader, and what is said of it."""

from __future__ import annotations

import math

import pytest

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.energy.clocks.clock_fit import ClockVerdict
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import ClockProbed, StepClosed
from roambench.runs.measured.clocks import ReaderCase, board_clock, board_clocks, described

S = 1_000_000_000
MS = 1_000_000
LOCAL = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2")
REMOTE = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", remote_reader="gateway")


def burst(at_s, offset_ms, bound_ms=1.0, device=0, boot="a", probes=8, scale=1.0) -> ClockProbed:
    return ClockProbed(
        -1, device, "during", boot, at_s * S, offset_ms * 1e6, bound_ms * 1e6, probes, (0, 0, 0, 0), scale
    )


def test_a_steady_drift_is_a_straight_line() -> None:
    """50 ms ahead at 100 s, then 20 us a second."""
    clock = board_clock("pi-01", [burst(t, 50.0 + 0.02 * (t - 100)) for t in (100, 400, 700)], LOCAL)
    assert clock.offset_ms == pytest.approx(50.0)
    assert clock.drift_ppm == pytest.approx(20.0)
    assert (clock.verdict, clock.bursts) == (ClockVerdict.GOOD, 3)
    assert clock.bound_ns == pytest.approx(1.0 * MS, rel=0.5)


def test_a_board_that_booted_in_the_middle_has_two_lines_and_not_one_through_both() -> None:
    """Its clock fell back by an hour: one line would show a drift of seconds per second."""
    before = [burst(t, 3_600_000.0, boot="a") for t in (100, 200)]
    after = [burst(t, 5.0, boot="b") for t in (300, 400)]
    clock = board_clock("pi-01", [*before, *after], REMOTE, 50 * S, 410 * S)
    assert list(clock.fits) == ["a", "b"]
    assert clock.offset_ms == pytest.approx(5.0)
    assert clock.drift_ppm == pytest.approx(0.0, abs=1e-6)
    assert (clock.verdict, clock.refused, clock.bursts) == (ClockVerdict.GOOD, False, 4)
    # 50 s before the first burst and 10 s after the last one at 100 ppm, and 1 ms of bound (a little more
    # where the line leaves its bursts behind).
    assert 6.0 * MS <= clock.bound_ns <= 8.0 * MS


@pytest.mark.parametrize(
    ("bound_ms", "probes", "verdict", "refused"),
    [
        (99.0, 8, ClockVerdict.GOOD, False),
        (101.0, 8, ClockVerdict.FLAGGED, False),
        (99.0, 7, ClockVerdict.FLAGGED, False),
        (399.0, 8, ClockVerdict.FLAGGED, False),
        (401.0, 8, ClockVerdict.REFUSED, True),
    ],
)
def test_a_bound_beyond_100_ms_is_flagged_and_beyond_400_ms_refused(
    bound_ms, probes, verdict, refused
) -> None:
    bursts = [burst(100, 0.0, bound_ms, probes=probes)]
    remote = board_clock("pi-01", bursts, REMOTE)
    assert (remote.verdict, remote.refused) == (verdict, refused)
    local = board_clock("pi-01", bursts, LOCAL)
    assert (local.verdict, local.refused) == (verdict, False)  # flagged, never refused


def test_far_from_its_only_burst_a_clock_may_have_drifted_by_100_ppm() -> None:
    """A run of two hours probed at its start only: 7200 s x 100 ppm = 720 ms besides the burst's 1 ms."""
    clock = board_clock("pi-01", [burst(100, 0.0)], REMOTE, 100 * S, 7300 * S)
    assert clock.bound_ns == pytest.approx(721 * MS)
    assert clock.refused


def test_without_a_burst_a_remote_readers_clock_is_refused_and_a_local_one_is_not_needed() -> None:
    assert board_clock("pi-01", [], REMOTE).refused
    assert not board_clock("pi-01", [], LOCAL).refused
    assert math.isnan(board_clock("pi-01", [], LOCAL).offset_ms)


def test_the_report_says_which_case_holds() -> None:
    bursts = [burst(t, 0.0, 120.0, scale=4.0) for t in (0, 60)]
    assert board_clock("pi-01", bursts, LOCAL).sentence() == (
        "pi-01: reads its own meter, so no offset is needed "
        "(bound 120.0 ms of device time, 30.0 ms of this machine's, over 2 bursts)"
    )
    assert board_clock("pi-01", [burst(t, 0.0, 120.0) for t in (0, 60)], REMOTE).sentence() == (
        "pi-01: gateway reads its meter; bound 120.0 ms over 2 bursts; "
        "flagged: worse than 100 ms, or known from too few probes"
    )
    assert board_clock("pi-01", [], None).sentence() == "pi-01: no meter is described (no clock probes)"


def test_the_boards_of_a_run_are_told_apart_by_device_and_their_latest_meter() -> None:
    records = [burst(100, 1.0, device=1), StepClosed(0, 0, (), (), None, None), burst(200, 7.0, device=0)]
    events = {
        "pi-01": [LOCAL.to_event(1), REMOTE.to_event(2)],
        "pi-02": [AgentEvent(EventKind.METER_DESCRIBED, 1, "{damaged"), LOCAL.to_event(3)],
    }
    first, second, third = board_clocks(("pi-01", "pi-02", "pi-03"), records, events)
    assert (first.case, first.reader, first.offset_ms) == (ReaderCase.REMOTE, "gateway", pytest.approx(7.0))
    assert first.refused
    assert first.sentence().startswith(
        "pi-01: gateway reads its meter; the clock of gateway was never probed"
    )
    assert (second.case, second.offset_ms) == (ReaderCase.LOCAL, pytest.approx(1.0))
    assert (third.case, third.bursts) == (ReaderCase.UNKNOWN, 0)
    assert described([AgentEvent(EventKind.METER_DESCRIBED, 1, "[]")]) is None


@pytest.mark.parametrize(
    ("reader", "bounds_ms", "verdict", "bound_ms"),
    [
        ("controller", (90.0, 350.0), ClockVerdict.GOOD, 90.0),
        ("pi-02", (60.0, 30.0), ClockVerdict.GOOD, 90.0),
        ("pi-02", (60.0, 50.0), ClockVerdict.FLAGGED, 110.0),
        ("pi-02", (90.0, 350.0), ClockVerdict.REFUSED, 440.0),
        ("gateway", (1.0, 1.0), ClockVerdict.REFUSED, math.inf),
    ],
)
def test_two_hosts_bounds_add_up_and_the_controller_is_the_clock_that_asks(
    reader, bounds_ms, verdict, bound_ms
) -> None:
    meter = MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", remote_reader=reader)
    records = [burst(100, 0.0, bound, device=device) for device, bound in enumerate(bounds_ms)]
    first, second = board_clocks(("pi-01", "pi-02"), records, {"pi-01": [meter.to_event(1)]})
    assert (first.verdict, first.bound_ns * 1e-6) == (verdict, pytest.approx(bound_ms))
    assert second.bound_ns * 1e-6 == pytest.approx(bounds_ms[1])
