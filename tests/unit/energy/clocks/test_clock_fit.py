from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.energy.clocks.clock_fit import ClockBurst, ClockExchange, ClockFit, ClockVerdict, moved

S = 10**9
MS = 10**6


def burst(at_s: float, offset_ms: float, bound_ms: float = 5.0, probes: int = 8) -> ClockBurst:
    return ClockBurst(round(at_s * S), offset_ms * 1e6, bound_ms * 1e6, probes)


def test_four_stamps_give_the_offset_and_half_the_round_trip_as_its_bound() -> None:
    # Asked at 100, heard at 530 (the other clock is 400 ahead, 30 there), answered after 10, 50 back.
    probe = ClockExchange(100, 530, 540, 190)
    assert probe.round_trip_ns == 80
    assert probe.offset_ns == 390.0
    assert abs(probe.offset_ns - 400) <= probe.round_trip_ns / 2


def test_a_burst_believes_its_fastest_probe() -> None:
    slow = [ClockExchange(k * S, k * S + 90 * MS, k * S + 90 * MS, k * S + 100 * MS) for k in range(7)]
    fast = ClockExchange(8 * S, 8 * S + 3 * MS, 8 * S + 3 * MS, 8 * S + 4 * MS)
    found = ClockBurst.of([*slow, fast])
    assert (found.at_ns, found.offset_ns, found.bound_ns, found.probes) == (8 * S + 2 * MS, MS, 2 * MS, 8)


def test_probes_that_end_before_they_began_are_no_probes() -> None:
    with pytest.raises(ValueError, match="none of them possible"):
        ClockBurst.of([ClockExchange(10, 0, 20, 15)])


def test_a_clock_that_gains_50_ppm_is_found_and_followed() -> None:
    fit = ClockFit.of([burst(0, 100.0), burst(1000, 150.0), burst(2000, 200.0)])
    assert fit.drift == pytest.approx(50e-6)
    assert fit.offset_ns_at(500 * S) == pytest.approx(125e6)
    assert fit.residual_ns == pytest.approx(0.0, abs=1.0)
    # In the middle three bounds of 5 ms count a third each; at an end 5/6, 1/3 and -1/6: 4/3 of 5 ms.
    assert fit.bound_ns_at(1000 * S) == pytest.approx(5e6)
    assert fit.bound_ns_at(2000 * S) == pytest.approx(5e6 * 4 / 3)
    assert fit.verdict is ClockVerdict.GOOD


def test_a_clock_that_was_stepped_shows_as_a_residual_in_the_bound() -> None:
    fit = ClockFit.of([burst(0, 0.0), burst(1000, 60.0), burst(2000, 0.0)])
    assert fit.residual_ns == pytest.approx(40e6)
    assert fit.bound_ns_at(1000 * S) == pytest.approx(45e6)


def test_outside_the_bursts_a_drift_nobody_watched_is_granted() -> None:
    fit = ClockFit.of([burst(100, 7.0)])
    assert fit.offset_ns_at(0) == fit.offset_ns_at(1000 * S) == 7e6
    assert fit.bound_ns_at(100 * S) == pytest.approx(5e6)
    assert fit.bound_ns_at(1100 * S) == pytest.approx(5e6 + 100e6)  # 100 ppm of 1000 s


@pytest.mark.parametrize(
    ("bound_ms", "probes", "verdict"),
    [
        (99.0, 8, ClockVerdict.GOOD),
        (101.0, 8, ClockVerdict.FLAGGED),
        (399.0, 8, ClockVerdict.FLAGGED),
        (401.0, 8, ClockVerdict.REFUSED),
        (1.0, 7, ClockVerdict.FLAGGED),
    ],
)
def test_more_than_100_ms_is_flagged_and_more_than_400_refused(
    bound_ms: float, probes: int, verdict: ClockVerdict
) -> None:
    assert ClockFit.of([burst(0, 0.0, bound_ms, probes)]).verdict is verdict


def test_without_a_burst_nothing_is_known_and_nothing_is_accepted() -> None:
    fit = ClockFit.of([])
    assert fit.verdict is ClockVerdict.REFUSED
    assert math.isinf(fit.bound_ns_at(0))
    assert fit.offset_ns_at(5) == 0.0


def test_a_run_longer_than_its_bursts_is_judged_by_its_worst_moment() -> None:
    fit = ClockFit.of([burst(0, 0.0), burst(10, 0.0)])
    assert fit.verdict is ClockVerdict.GOOD
    assert fit.verdict_over(0, 2000 * S) is ClockVerdict.REFUSED


def test_stamps_of_a_remote_reader_move_into_the_boards_clock() -> None:
    # Asker at 10 s: the reader's clock shows 1010 s, the board's 12 s.
    reader, board = ClockFit.of([burst(0, 1e6)]), ClockFit.of([burst(0, 2000.0)])
    assert moved(np.array([1010 * S]), reader, board).tolist() == [12 * S]


@given(
    offset_ms=st.floats(-1e6, 1e6),
    drift_ppm=st.floats(-80.0, 80.0),
    ways=st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(0, 50 * MS)), min_size=2, max_size=6),
    ask_s=st.floats(0.0, 100.0),
)
def test_the_true_offset_of_a_steady_clock_lies_within_the_bound(
    offset_ms: float, drift_ppm: float, ways: list[tuple[int, int]], ask_s: float
) -> None:
    def truth(ns: float) -> float:
        return offset_ms * 1e6 + drift_ppm * 1e-6 * ns

    bursts = []
    for k, (there, back) in enumerate(ways):
        t0 = round(k * 100 * S / (len(ways) - 1))
        heard = t0 + there + round(truth(t0 + there))
        bursts.append(ClockBurst.of([ClockExchange(t0, heard, heard, t0 + there + back)]))
    fit = ClockFit.of(bursts)
    ns = round(ask_s * S)
    # The drift inside a probe's round trip (80 ppm of 0.1 s) and rounding come on top.
    assert abs(fit.offset_ns_at(ns) - truth(ns)) <= fit.bound_ns_at(ns) + 3e4


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_worst_bound_of_a_run_is_no_less_than_at_any_burst(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    at_s, offset_ms, bound_ms = (
        draw.uniform(0, 1e5, count),
        draw.normal(0, 9, count),
        draw.uniform(1, 99, count),
    )
    fit = ClockFit.of(burst(*values) for values in zip(at_s, offset_ms, bound_ms, strict=True))
    from_ns, to_ns = (round(1e9 * s) for s in sorted(draw.uniform(-1e5, 2e5, 2)))
    worst_ns = fit.worst_bound_ns(from_ns, to_ns)
    for one in fit.bursts:
        if from_ns <= one.at_ns <= to_ns:
            assert fit.bound_ns_at(one.at_ns) <= worst_ns * (1.0 + 1e-12)
