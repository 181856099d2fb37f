"""Windows around what is measured, the seconds a line stands for, and how sums scatter: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import account_device
from roambench.energy.readings.periods import periods_between
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.rests import rest_of, windows_of
from roambench.energy.uncertainty import EXACT
from roambench.energy.window_sums import cells_of, sampling_j2, scatter

S = 10**9


def timeline(*parts: tuple[Phase, float]) -> list[PhaseSpan]:
    spans, at_s = [], 0.0
    for phase, seconds in parts:
        spans.append(PhaseSpan("pi", "b", phase, 0, round(at_s * S), round((at_s + seconds) * S)))
        at_s += seconds
    return spans


REST = (Phase.REST, 4.0)
ROUND = (
    REST,
    (Phase.DOWNLOAD, 2.0),
    REST,
    (Phase.TRAIN, 10.0),
    REST,
    (Phase.WAIT, 1.0),
    (Phase.UPLOAD, 3.0),
    REST,
)


def test_a_window_goes_from_a_phase_to_the_end_of_its_guard() -> None:
    windows = windows_of(timeline(*ROUND), 2.6)
    assert [(w.start_s, w.end_s) for w in windows] == [(4.0, 6.0), (10.0, 20.0), (25.0, 28.0)]
    assert [w.until_s for w in windows] == pytest.approx([8.6, 22.6, 30.6])
    # Waiting is not quiet: before the upload the board was at rest for no time.
    assert [w.rest_from_s for w in windows] == pytest.approx([0.0, 6.0, 25.0])
    assert [w.rest_until_s for w in windows] == pytest.approx([10.0, 24.0, 32.0])


def test_two_active_phases_with_less_than_the_guard_between_them_are_one_window() -> None:
    for between in ((), ((Phase.WAIT, 1.0),), ((Phase.REST, 2.0),)):
        spans = timeline(REST, (Phase.DOWNLOAD, 2.0), *between, (Phase.TRAIN, 10.0), REST)
        (window,) = windows_of(spans, 2.6)
        assert [spans[k].phase for k in window.active] == [Phase.DOWNLOAD, Phase.TRAIN]
    spans = timeline(REST, (Phase.DOWNLOAD, 2.0), (Phase.WAIT, 3.0), (Phase.TRAIN, 10.0), REST)
    assert len(windows_of(spans, 2.6)) == 2  # waiting outlasts the guard, and nothing is sent in it


def test_a_guard_ends_where_the_next_phase_begins() -> None:
    spans = timeline(REST, (Phase.DOWNLOAD, 2.0), (Phase.REST, 2.58), (Phase.TRAIN, 10.0), REST)
    assert windows_of(spans, 2.6)[0].until_s == pytest.approx(8.58)


def test_the_rest_of_a_run_is_that_behind_all_but_its_shortest_tenth() -> None:
    parts = [part for k in range(20) for part in ((Phase.UPLOAD, 1.0), (Phase.REST, 0.5 if k == 7 else 4.0))]
    assert rest_of(timeline(*parts)) == pytest.approx(4.0)
    parts = [part for k in range(20) for part in ((Phase.UPLOAD, 1.0), (Phase.REST, 0.3 if k < 9 else 4.0))]
    assert rest_of(timeline(*parts)) == pytest.approx(4.0)  # a rest that was cut is none
    assert rest_of(timeline((Phase.UPLOAD, 1.0), (Phase.TRAIN, 5.0))) == 0.0


def test_a_lost_line_is_stood_for_by_its_neighbours() -> None:
    at_s = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    assert cells_of(at_s, 1.0, 2.5).tolist() == pytest.approx([0.5, 1.0, 1.5, 1.5, 1.0, 0.5])


def test_nothing_stands_for_a_gap() -> None:
    at_s = np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    assert cells_of(at_s, 1.0, 2.5).tolist() == pytest.approx([0.5, 1.0, 0.5, 0.5, 1.0, 0.5])


def test_late_lines_are_no_losses_and_stand_for_a_period_each() -> None:
    at_s = np.arange(20.0)
    at_s[8:12] += 0.4, 0.9, 0.6, 0.2  # while the board worked
    assert periods_between(at_s, 1.0).tolist() == [1] * 19
    assert cells_of(at_s, 1.0, 2.5)[1:-1] == pytest.approx(1.0)
    lost = np.delete(at_s, 9)
    assert periods_between(lost, 1.0).sum() == 19
    assert cells_of(lost, 1.0, 2.5).sum() == pytest.approx(19.0)


def test_a_meter_without_a_steady_period_has_lines_that_stand_for_the_time_that_passed() -> None:
    at_s = np.cumsum(np.random.default_rng(1).uniform(0.9, 1.3, 40))
    assert cells_of(at_s, 1.1, 2.75).sum() == pytest.approx(np.ptp(at_s))


def test_what_a_meter_misses_of_a_rectangle_is_its_sampling_variance() -> None:
    """Against 20,000 rectangles of 3 W and 2 to 4 s, seen for 0.26 s of every second or end to end."""
    draw = np.random.default_rng(2)
    for window_s in (0.05, 0.264, 0.6):
        start_s, length_s = draw.uniform(0.0, 1.0, (20_000, 1)), draw.uniform(2.0, 4.0, (20_000, 1))
        ends_s = np.arange(0.0, 8.0) + 1.0
        overlap_s = np.minimum(ends_s, start_s + length_s) - np.maximum(ends_s - window_s, start_s)
        sums_j = (3.0 * np.maximum(overlap_s, 0.0) / window_s).sum(axis=1)
        error_j = sums_j - 3.0 * length_s[:, 0]
        assert abs(error_j.mean()) < 0.03
        assert error_j.var() == pytest.approx(
            sampling_j2(3.0, length_s[:, 0], 1.0, window_s).mean(), rel=0.08
        )


def test_scatter_says_how_far_sums_are_from_what_they_should_be() -> None:
    draw = np.random.default_rng(3)
    u_of = {}
    for noise_j in (0.05, 1.0):
        lengths_s = draw.uniform(1.7, 2.3, 40)
        expected = np.sqrt(sampling_j2(2.0, lengths_s, 1.0, 0.264))
        sums_j = 2.0 * lengths_s + np.hypot(expected, noise_j) * draw.standard_normal(40)
        u_j, excess = scatter(sums_j, lengths_s, np.full(40, 0.0), 1.0, 0.264)
        u_of[noise_j] = excess
        assert np.median(u_j) == pytest.approx(np.median(np.hypot(expected, noise_j)), rel=0.3)
    assert u_of[0.05] < 1.6 < 2.0 < u_of[1.0]


def test_lost_time_between_rests_keeps_the_uncertainty_of_what_was_sampled_of_it() -> None:
    draw = np.random.default_rng(4)
    spans = timeline((Phase.IDLE, 30.0), *ROUND * 6, (Phase.LOST, 60.0), (Phase.IDLE, 30.0))
    at_s = np.arange(0.5, spans[-1].end_ns / S)
    lost_s = spans[-2].start_ns / S
    watts = 2.0 + 0.01 * draw.standard_normal(len(at_s))
    works = (at_s > lost_s) & (at_s <= lost_s + 60.0) & (at_s % 10.0 < 5.0)
    watts += 1.5 * works
    account = account_device(
        PowerSamples.of(np.rint(at_s * S).astype(np.int64), watts), spans, {}, {}, EXACT, 0, spans[-1].end_ns
    )
    (row,) = [row for row in account.rows if row.phase is Phase.LOST]
    assert row.gross_j == pytest.approx(60.0 * 2.75, rel=0.03)
    assert row.u_gross_j > 0.5
