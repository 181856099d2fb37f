"""Meters that repeat their last values: told from boards at rest by the device's own readings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from roambench.energy.readings.frozen import Frozen, frozen_stretches
from roambench.meters.catalogue import driver_row
from roambench.meters.transcript import read_transcript, recorded_meter

TRANSCRIPTS = Path(__file__).parents[4] / "firmware_notes" / "transcripts"

SP2_W, SP2_A, SP2_V = 3.81687e-3, 0.1526e-3, 1.25e-3


def smartpower2(true_w: np.ndarray, sd_w: float = 0.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    """What a Smart Power 2 prints of a board's power at 1 Hz, with white noise: ns, volts, amps, watts."""
    draws = np.random.default_rng(seed)
    noisy = true_w + sd_w * draws.standard_normal(len(true_w))
    volts = 5.1 + (0.001 * draws.standard_normal(len(true_w)) if sd_w else 0.0) - 0.01 * noisy
    chip = [
        np.round(values / lsb) * lsb
        for values, lsb in ((volts, SP2_V), (noisy / volts, SP2_A), (noisy, SP2_W))
    ]
    return (np.arange(len(true_w), dtype=np.int64) * 10**9, *(np.round(values, 3) for values in chip))


def rounds(count: int = 30, idle_w: float = 1.9, train_w: float = 3.4) -> tuple[np.ndarray, list[int]]:
    """A minute of idling, `count` rounds of 12 s of training and 18 s of waiting, a minute of idling; and
    when trainings begin and end."""
    work = np.concatenate(
        [
            np.full(60, idle_w),
            *[np.r_[np.full(12, train_w), np.full(18, idle_w)]] * count,
            np.full(60, idle_w),
        ]
    )
    starts = 60 + 30 * np.arange(count)
    return work, [int(at * 1e9) for at in np.sort(np.concatenate((starts, starts + 12)))]


def frozen(columns: tuple[np.ndarray, ...], first: int, last: int) -> tuple[np.ndarray, ...]:
    """The same from a meter that repeats line `first` up to line `last`."""
    ns, *values = (column.copy() for column in columns)
    for column in values:
        column[first : last + 1] = column[first]
    return (ns, *values)


def found(
    columns: tuple[np.ndarray, ...], changes: list[int] = (), step_w: float = SP2_W, nominal_s: float = 1.0
):
    stretches = frozen_stretches(*columns, nominal_s=nominal_s, step_w=step_w, changes_ns=changes)
    return [(stretch.first, stretch.last) for stretch in stretches]


@pytest.mark.parametrize("sd_w", [0.006, 0.02, 0.1])
@pytest.mark.parametrize(("first", "seconds"), [(30, 140), (200, 60), (200, 140), (700, 250)])
def test_a_meter_that_repeats_a_line_of_a_noisy_board_is_frozen(sd_w, first, seconds):
    work, changes = rounds()
    ((begins, ends),) = found(frozen(smartpower2(work, sd_w), first, first + seconds), changes)
    assert begins == first
    assert first + seconds <= ends <= first + seconds + 1


def test_it_is_without_a_word_on_what_the_board_did():
    work, _ = rounds()
    assert found(frozen(smartpower2(work, 0.02), 200, 340)) == [(200, 340)]


def test_it_is_every_time():
    work, changes = rounds()
    columns = frozen(frozen(smartpower2(work, 0.02), 100, 200), 500, 700)
    assert found(columns, changes) == [(100, 200), (500, 700)]


def test_it_is_where_the_board_has_no_noise_but_works():
    """The emulator's boards: power is constant, but not through five beginnings and ends of trainings."""
    work, changes = rounds()
    columns = smartpower2(work)
    assert found(columns, changes) == []
    ((begins, ends),) = found(frozen(columns, 200, 340), changes)
    assert (begins <= 200, ends >= 340) == (True, True)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sd_w", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.03])
def test_a_living_meter_is_not_frozen_however_quiet_its_board_is(sd_w, seed):
    work, changes = rounds()
    assert found(smartpower2(work, sd_w, seed), changes) == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("sd_w", [0.0, 0.01, 0.03, 0.06])
def test_an_idle_board_on_a_coarse_meter_honestly_repeats(sd_w, seed):
    """Steps of 0.1 W, no amps: a plug. It dithers while the board cools, and then rests within a step."""
    draws = np.random.default_rng(seed)
    work, changes = rounds()
    idle = np.full(1800, 1.93) + 0.05 * np.exp(-np.arange(1800) / 200.0)
    watts = np.concatenate((work, idle))
    watts = np.round(watts + sd_w * draws.standard_normal(len(watts)), 1)
    nothing = np.full(len(watts), math.nan)
    columns = (np.arange(len(watts), dtype=np.int64) * 10**9, np.full(len(watts), 230.1), nothing, watts)
    assert found(columns, changes, step_w=0.1) == []


@pytest.mark.parametrize("sd_w", [0.0, 0.002, 0.02])
def test_a_board_that_is_off_for_long_honestly_reads_as_nothing(sd_w):
    work, changes = rounds()
    ns, volts, amps, watts = smartpower2(work, sd_w)
    volts[300:600], amps[300:600], watts[300:600] = 5.15, 0.0, 0.0
    assert found((ns, volts, amps, watts), [at for at in changes if not 295e9 < at < 605e9]) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_board_that_falls_quiet_between_noisy_hours_is_not_frozen(seed):
    """Quiet: a change of one step now and then, for longer than chance allows a noisy board."""
    draws = np.random.default_rng(seed)
    columns = smartpower2(np.full(3000, 1.9), 0.02, seed)
    quiet = 1.9 + SP2_W * np.cumsum(draws.choice([-1, 0, 1], 1000, p=[0.02, 0.96, 0.02]))
    for column, values in zip(columns[1:], smartpower2(quiet)[1:], strict=True):
        column[1000:2000] = values
    assert found(columns) == []


@pytest.mark.parametrize("board", ["a", "b"])
def test_a_board_without_noise_that_works_now_and_then_rests_for_long_honestly(board):
    """Two emulated boards: they wait at a few powers, warm up, cool, and are absent for long."""
    rows = [line.split(",") for line in (Path(__file__).parent / "quiet_boards.csv").read_text().split()[1:]]
    lines = [row for row in rows if row[0] == board for _ in range(int(row[1]))]
    volts, amps, watts = (np.array([float(row[column]) for row in lines]) for column in (2, 3, 4))
    assert found((np.arange(len(lines), dtype=np.int64) * 10**9, volts, amps, watts)) == []


def test_a_meter_that_prints_a_value_two_or_three_times_is_not_frozen():
    """A Smart Power 2 that is read every 100 ms renews its values every 264 ms."""
    work, changes = rounds()
    at_s = np.arange(0.0, len(work), 0.1)
    windows = (at_s / 0.2638).astype(int)
    _, *values = smartpower2(work[np.minimum((windows * 0.2638).astype(int), len(work) - 1)], 0.02)
    held = [column[np.searchsorted(windows, windows)] for column in values]
    columns = ((at_s * 1e9).astype(np.int64), *held)
    assert found(columns, changes, nominal_s=0.1) == []
    assert found(frozen(columns, 3005, 3205), nominal_s=0.1)[0][0] <= 3005


def test_silence_within_a_stretch_does_not_part_it():
    work, _ = rounds()
    columns = frozen(smartpower2(work, 0.02), 200, 400)
    columns = tuple(np.delete(column, np.arange(300, 310)) for column in columns)
    assert found(columns) == [(200, 390)]


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_no_meter_of_the_firmware_notes_is_frozen(path: Path):
    row = driver_row(recorded_meter(path))
    frames = row.frames(row.port("0.0.0.0"))
    read = [line for at_s, data in read_transcript(path) for line in frames.feed(data, round(at_s * 1e9))]
    ns = np.array([line.monotonic_ns for line in read], dtype=np.int64)
    values = (np.array([getattr(line, name) for line in read]) for name in ("volts", "amps", "watts"))
    assert found((ns, *values), nominal_s=0.01) == []


def test_few_readings_tell_nothing():
    ns = np.arange(60, dtype=np.int64) * 10**9
    assert found((ns, np.full(60, 5.0), np.full(60, 0.4), np.full(60, 2.0))) == []
    assert found((ns[:0], np.empty(0), np.empty(0), np.empty(0))) == []


def test_it_is_told_in_the_meters_own_digits():
    assert str(Frozen(0, 140, 140.0, 5.012, 0.431, 2.16)) == "5.012 V 0.431 A 2.160 W for 140 s"
    assert str(Frozen(0, 140, 1400.0, math.nan, math.nan, 2.16)) == "2.160 W for 1,400 s"
