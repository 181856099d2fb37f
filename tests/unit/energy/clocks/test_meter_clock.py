from __future__ import annotations

import numpy as np

from roambench.energy.clocks.meter_clock import sample_stamps

S = 10**9


def lines(
    count: int, ppm: float, seed: int = 0, first_ms: int = 5000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(true ns, arrival ns, meter ms) of a line every 10 ms, delayed by 7 ms and up to 36 ms more."""
    meter_ms = first_ms + 10 * np.arange(count, dtype=np.int64)
    true = 3 * S + np.rint((meter_ms - first_ms) * 1e6 * (1.0 + ppm * 1e-6)).astype(np.int64)
    delay = np.random.Generator(np.random.PCG64(seed)).exponential(0.008, count)
    arrival = np.maximum.accumulate(true + np.rint((0.007 + delay) * 1e9).astype(np.int64))
    return true, arrival, meter_ms % 2**32


def test_the_line_under_all_arrivals_undoes_their_jitter_and_the_meters_drift() -> None:
    true, arrival, meter_ms = lines(6000, ppm=40.0)
    found = sample_stamps(arrival, meter_ms)
    late = (found - true) * 1e-9
    # 7 ms is the smallest delay and stays; the arrivals themselves scatter by 8 ms.
    assert np.abs(late - 0.007).max() < 0.0005
    assert np.std((arrival - true) * 1e-9) > 0.006
    assert np.all(found <= arrival)


def test_a_clock_that_begins_anew_after_49_days_is_followed() -> None:
    true, arrival, meter_ms = lines(2000, ppm=-20.0, first_ms=2**32 - 10_000)
    assert meter_ms.min() < 100 < meter_ms[0]
    assert np.abs((sample_stamps(arrival, meter_ms) - true) * 1e-9 - 0.007).max() < 0.001


def test_a_meter_that_restarted_has_a_line_of_its_own_from_then_on() -> None:
    before, after = lines(500, ppm=0.0), lines(500, ppm=0.0, seed=1, first_ms=100)
    later = 20 * S
    arrival = np.concatenate((before[1], after[1] + later))
    true = np.concatenate((before[0], after[0] + later))
    found = sample_stamps(arrival, np.concatenate((before[2], after[2])))
    assert np.abs((found - true) * 1e-9 - 0.007).max() < 0.001


def test_lines_without_a_clock_or_too_few_for_a_line_keep_their_arrival() -> None:
    _, arrival, meter_ms = lines(100, ppm=0.0)
    assert np.array_equal(sample_stamps(arrival, np.full(100, -1, dtype=np.int64)), arrival)
    assert np.array_equal(sample_stamps(arrival[:19], meter_ms[:19]), arrival[:19])
    mixed = np.where(np.arange(100) % 2 == 0, meter_ms, -1)
    found = sample_stamps(arrival, mixed)
    assert np.array_equal(found[1::2], arrival[1::2])
    assert not np.array_equal(found[::2], arrival[::2])
