"""A meter in virtual time: what it prints when all is well, and when it is not."""

import numpy as np
import pytest

from roambench.contract.records import ReadingFlag
from roambench.emulation.electric.power import Activity
from roambench.emulation.spec import Fault, FaultKind
from roambench.emulation.virtual import VirtualRun, emulate
from roambench.meters.frames.smartpower2 import Smartpower2Frames

SECOND = 1_000_000_000


def seconds(run: VirtualRun) -> list[float]:
    return [reading.monotonic_ns / SECOND for reading in run.readings()]


def fault(kind: FaultKind, **values: float) -> VirtualRun:
    return emulate([], 60.0, seed=4, ppm=0.0, faults=[Fault(kind, **values)])


def test_a_healthy_meter_prints_one_line_a_second():
    run = emulate([], 600.0, seed=4, ppm=0.0)
    assert len(run.readings()) == 600
    assert np.diff(seconds(run)) == pytest.approx(1.0, abs=1e-9)
    assert all(data.count(b"\n") == 1 for _, data in run.chunks)


def test_the_same_seed_gives_the_same_bytes_and_another_device_others():
    schedule = [(3.0, Activity(busy_cores=1.0)), (9.0, Activity())]
    assert emulate(schedule, 30.0, seed=4).chunks == emulate(schedule, 30.0, seed=4).chunks
    assert emulate(schedule, 30.0, seed=4).chunks != emulate(schedule, 30.0, seed=4, device=1).chunks
    assert emulate(schedule, 30.0, seed=4).chunks != emulate(schedule, 30.0, seed=5).chunks


def test_the_truth_is_the_hand_computed_energy_and_knows_no_sensor():
    schedule = [(10.0, Activity(busy_cores=1.0)), (15.0, Activity())]
    for gain in (1.0, 1.03):
        run = emulate(schedule, 20.0, seed=4, gain=gain)
        assert run.truth.energy_j(0, 20 * SECOND) == pytest.approx(1.9 * 15 + 2.7 * 5, abs=1e-9)


def test_perfect_parts_read_the_firmwares_own_bias_and_a_gain_on_top():
    """The firmware multiplies the power register by 3.81687 mW where the chip means 3.81463: +0.059 %."""
    schedule = [(2.0 * i, Activity(busy_cores=float(i % 5) * 0.77)) for i in range(600)]
    true_w = emulate(schedule, 1200.0, seed=4).truth.mean_w(0, 1200 * SECOND)

    def mean_w(gain: float) -> float:
        run = emulate(schedule, 1200.0, seed=4, tolerance=0.0, gain=gain)
        return float(np.mean([reading.watts for reading in run.readings()]))

    assert mean_w(1.0) / true_w == pytest.approx(1.00059, abs=0.01)
    assert mean_w(1.03) / mean_w(1.0) == pytest.approx(1.03, abs=1e-3)


def test_a_fast_crystal_gains_lines():
    # 1000 ppm over 10,000 s are 10 lines
    slow = emulate([], 10_000.0, seed=4, ppm=0.0)
    fast = emulate([], 10_000.0, seed=4, ppm=-1000.0)
    assert len(fast.chunks) - len(slow.chunks) == pytest.approx(10, abs=1)


def test_dropped_lines_are_gone_and_no_more_than_asked():
    assert len(fault(FaultKind.DROP, at_s=10.0, count=3).readings()) == 57


def test_a_truncated_line_takes_the_next_one_with_it():
    run = fault(FaultKind.TRUNCATE, at_s=10.0)
    assert len(run.readings()) == 58
    assert max(np.diff(seconds(run))) == pytest.approx(3.0, abs=0.01)


def test_garbage_and_broken_lines_are_rejected_by_the_parser():
    for kind in (FaultKind.GARBAGE, FaultKind.NOISE):
        run = fault(kind, at_s=10.0, count=5)
        frames = Smartpower2Frames()
        accepted = sum(len(frames.feed(data, ns)) for ns, data in run.chunks)
        assert 55 <= accepted < 60
        assert frames.counts.rejected >= 5


def test_a_stall_leaves_a_gap_and_then_all_missed_lines_with_one_value():
    run = emulate(
        [(12.0, Activity(busy_cores=4.0))],
        60.0,
        seed=4,
        ppm=0.0,
        faults=[Fault(FaultKind.STALL, at_s=10.0, duration_s=5.0)],
    )
    readings = run.readings()
    assert len(readings) == 60
    burst = [r for r in readings if 15 * SECOND <= r.monotonic_ns < 15_050_000_000]
    assert len(burst) == 5
    assert len({r.watts for r in burst}) == 1
    assert [bool(r.flags & ReadingFlag.BURST) for r in burst] == [False, True, True, True, True]
    assert not [r for r in readings if 10_010_000_000 < r.monotonic_ns < 15 * SECOND]


def test_silence_and_an_output_that_is_off_are_never_made_up_for():
    for kind in (FaultKind.SILENCE, FaultKind.OFF):
        run = fault(kind, at_s=10.0, duration_s=5.0)
        assert len(run.readings()) == 55
        assert max(np.diff(seconds(run))) == pytest.approx(6.0, abs=0.01)


def test_a_reset_meter_boots_for_five_seconds_and_says_its_version():
    run = fault(FaultKind.RESET, at_s=10.0)
    frames = Smartpower2Frames()
    stamps = [r.monotonic_ns / SECOND for ns, data in run.chunks for r in frames.feed(data, ns)]
    assert (frames.counts.boots, frames.firmware) == (1, "1.60")
    assert next(stamp for stamp in stamps if stamp > 10.0) == pytest.approx(15.2, abs=0.05)
    assert frames.counts.noise >= 7
    assert frames.counts.garbage == 1


def test_a_skewed_crystal_changes_the_pace_from_then_on():
    run = emulate([], 100.0, seed=4, ppm=0.0, faults=[Fault(FaultKind.SKEW, at_s=50.0, ppm=10_000.0)])
    steps = np.diff(seconds(run))
    assert steps[:49] == pytest.approx(1.0, abs=1e-6)
    assert steps[51:] == pytest.approx(1.01, abs=1e-6)


def test_debug_lines_between_readings_cost_no_reading():
    run = emulate([], 2000.0, seed=4, ppm=0.0, noise_per_line=0.1)
    assert len(run.readings()) == 2000
    noise = sum(b"," not in data for _, data in run.chunks)
    assert noise == pytest.approx(200, rel=0.25)


def test_a_meter_that_is_plugged_in_prints_its_boot_text_first():
    run = emulate([], 20.0, seed=4, boots=True)
    assert b"".join(data for _, data in run.chunks)[70:].startswith(b"[SETUP] BOOT WAIT 4...\n\r")
    assert seconds(run)[0] == pytest.approx(5.2, abs=0.05)
