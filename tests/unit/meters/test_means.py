"""Down-sampling conserves joules; what was lost is a gap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.contract.errors import ConfigError
from roambench.contract.records import NO_METER_CLOCK, ReadingFlag
from roambench.meters.frames.means import MeansFrames, line
from roambench.meters.means import Means, period_s
from roambench.meters.ports import Port

#: Chunks of samples as they come, each after so many lost ones.
CHUNKS = st.lists(st.tuples(st.sampled_from((0, 0, 0, 1, 63, 1000)), st.integers(0, 700)), max_size=20)


@given(chunks=CHUNKS, seed=st.integers(0, 2**32 - 1))
def test_the_joules_of_the_means_are_those_of_the_samples_and_a_window_that_lost_one_has_none(
    chunks: list[tuple[int, int]], seed: int
) -> None:
    draws = np.random.default_rng(seed)
    means = Means(100_000, 0.001)
    taken = np.full(sum(lost + count for lost, count in chunks), np.nan)
    found: list[tuple[int, float]] = []
    at = 0
    for lost, count in chunks:
        if lost:
            means.skip(lost)
        at += lost
        taken[at : at + count] = samples = draws.uniform(0.0, 12.0, count)
        at += count
        found += means.feed(samples)
    windows = taken[: len(taken) // 100 * 100].reshape(-1, 100)
    whole = ~np.isnan(windows).any(axis=1)
    assert [ms for ms, _ in found] == (np.flatnonzero(whole) + 1).tolist()
    joules = sum(watts * 0.001 for _, watts in found)
    assert joules == pytest.approx(float(windows[whole].sum()) * 1e-5, rel=1e-12)


def test_the_lines_hold_the_means_to_nine_digits_and_those_of_one_chunk_are_no_burst() -> None:
    frames = MeansFrames()
    text = b"".join(line(watts, ms, amps=0.5) for ms, watts in ((10, 2.123456789), (20, 1e-7), (30, 0.0)))
    readings = frames.feed(text, 5_000)
    assert [(r.watts, r.meter_ms, int(r.flags)) for r in readings] == [
        (2.12345679, 10, 0), (1e-7, 20, 0), (0.0, 30, 0)
    ]  # fmt: skip
    (plain,) = frames.feed(line(3.5), 6_000)
    assert plain.meter_ms == NO_METER_CLOCK
    full, negative = frames.feed(line(5.0, 40, full=True) + line(-0.1, 50), 7_000)
    assert (full.flags, negative.flags) == (ReadingFlag.SATURATED, ReadingFlag.INCONSISTENT)
    assert frames.feed(b"nan nan 99999 1\nnan nan 1 99999999999\nwhat\n", 8_000) == []
    assert frames.counts.text() == "accepted 6, partial 1, noise 1, implausible 1"


def test_readings_a_second_are_of_those_that_have_whole_milliseconds() -> None:
    assert period_s(Port("x", "x", "x", {})) == 0.01
    assert period_s(Port("x", "x", "x", {"hz": "1000"})) == 0.001
    with pytest.raises(ConfigError, match="hz: expected one of 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000"):
        period_s(Port("x", "x?hz=3", "x", {"hz": "3"}))
