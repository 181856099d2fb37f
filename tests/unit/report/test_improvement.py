"""The improvement factor against numbers worked by hand, against scipy, and its interval against truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from roambench.contract.draws import generator
from roambench.contract.metric import Better
from roambench.energy.energy_value import UncertaintyPart
from roambench.report.improvement import Improvement, Measured, improvement
from roambench.report.spread import t_interval


def plain(a: list[float], b: list[float], better: Better = "lower") -> Improvement:
    return improvement([(Measured(x), Measured(y)) for x, y in zip(a, b, strict=True)], better)


def test_two_pairs_by_hand() -> None:
    # d = ln 2, ln 8: mean ln 4, s = ln 4 / sqrt 2, s / sqrt 2 = ln 2; t(1 df, 97.5 %) = 12.7062.
    found = plain([1.0, 1.0], [2.0, 8.0])
    assert found.factor == pytest.approx(4.0)
    assert found.factor_interval is not None
    assert found.factor_interval.low == pytest.approx(4.0 * 2.0**-12.706205, rel=1e-6)
    assert found.factor_interval.high == pytest.approx(4.0 * 2.0**12.706205, rel=1e-6)
    # b - a = 1, 7: mean 4, s = 3 sqrt 2, s / sqrt 2 = 3.
    assert found.difference == 4.0
    assert found.difference_interval is not None
    assert found.difference_interval.high == pytest.approx(4.0 + 3.0 * 12.706205, rel=1e-6)
    assert (found.resolved, found.winner) == (False, "")


def test_the_interval_is_the_one_of_scipys_paired_t_test() -> None:
    draws = generator(1, "improvement test")
    a = draws.lognormal(5.0, 0.05, 7)
    b = draws.lognormal(5.2, 0.05, 7)
    found = plain(list(a), list(b))
    expected = stats.ttest_rel(np.log(b), np.log(a)).confidence_interval(0.95)
    assert found.factor_interval is not None
    assert found.factor_interval.low == pytest.approx(math.exp(expected.low), rel=1e-12)
    assert found.factor_interval.high == pytest.approx(math.exp(expected.high), rel=1e-12)
    mean = stats.t.interval(0.95, 6, loc=a.mean(), scale=a.std(ddof=1) / math.sqrt(7))
    assert found.a.interval is not None
    assert (found.a.interval.low, found.a.interval.high) == pytest.approx(mean, rel=1e-12)
    assert found.a.sd == pytest.approx(a.std(ddof=1))
    assert found.winner == "A"


def test_more_of_a_score_is_better_and_more_of_a_cost_is_worse() -> None:
    a, b = [0.90, 0.91, 0.905], [0.60, 0.61, 0.605]
    as_score, as_cost = plain(a, b, "higher"), plain(a, b)
    assert as_score.factor == pytest.approx(1.0 / as_cost.factor)  # type: ignore[operator]
    assert as_score.factor is not None
    assert as_score.factor > 1.0
    assert (as_score.winner, as_cost.winner) == ("A", "B")


def test_a_drift_over_the_session_cancels_in_abba_order() -> None:
    """A costs 100 J, B 150 J, and every run costs 2 % more than the one before."""
    runs = {"A": [], "B": []}  # type: dict[str, list[float]]
    for place, arm in enumerate("ABBAABBA"):
        runs[arm].append((100.0 if arm == "A" else 150.0) * 1.02**place)
    found = plain(runs["A"], runs["B"])
    assert found.factor == pytest.approx(1.5, rel=1e-12)


def test_a_gain_that_both_share_alike_cancels_and_what_differs_remains() -> None:
    # 1 % of board 1 and 1 % of board 2; A takes 60 J and 40 J there, B 120 J and 80 J: the same shares.
    a = Measured(100.0, ((UncertaintyPart.GAIN, "pi-1", 0.6), (UncertaintyPart.GAIN, "pi-2", 0.4)))
    alike = Measured(200.0, ((UncertaintyPart.GAIN, "pi-1", 1.2), (UncertaintyPart.GAIN, "pi-2", 0.8)))
    assert improvement([(a, alike)] * 2, "lower").u_meter == pytest.approx(0.0, abs=1e-15)
    # All of B's 200 J on board 2: relative parts 0.006 and 0.004 against 0 and 0.01.
    moved = Measured(200.0, ((UncertaintyPart.GAIN, "pi-2", 2.0),))
    found = improvement([(a, moved)] * 2, "lower")
    assert found.u_meter == pytest.approx(0.006 * math.sqrt(2.0))
    # No scatter at all: the normal distribution's 1.96.
    assert found.factor_interval is not None
    assert math.log(found.factor_interval.high / 2.0) == pytest.approx(1.959964 * found.u_meter, rel=1e-5)
    assert found.a.u == pytest.approx(math.hypot(0.6, 0.4))


def test_errors_that_scatter_between_runs_are_not_counted_twice() -> None:
    a = Measured(100.0, ((UncertaintyPart.SAMPLING, "pi-1/download", 5.0), (UncertaintyPart.GAIN, "", 1.0)))
    b = Measured(200.0)  # what both have alike would cancel whatever counts
    assert improvement([(a, b)] * 2, "lower").u_meter == 0.0


def test_scatter_has_students_factor_and_the_meters_the_normal_one() -> None:
    values = [1.0, 2.0, 3.0, 4.0]  # s / sqrt n = sqrt(5/3) / 2, t(3 df, 97.5 %) = 3.182446
    found = t_interval(values, 0.7)
    assert found is not None
    expected = math.hypot(3.182446 * math.sqrt(5.0 / 3.0) / 2.0, 1.959964 * 0.7)
    assert found.high - 2.5 == pytest.approx(expected, rel=1e-6)


def test_nothing_wasted_has_no_ratio_but_a_difference() -> None:
    found = plain([0.0, 0.0, 0.0], [5.0, 6.0, 7.0])
    assert (found.factor, found.factor_interval) == (None, None)
    assert found.reason == "a value of 0 or less has no ratio"
    assert found.difference == 6.0
    assert found.winner == "A"  # 6 ± 2.48 holds no 0


def test_a_value_that_its_uncertainty_hides_has_no_ratio_but_a_difference() -> None:
    """1e-15 J is what rounding leaves of a net energy of nothing."""
    nothing = Measured(1e-15, ((UncertaintyPart.SAMPLING, "pi-1/upload", 0.3),))
    found = improvement([(nothing, Measured(5.0)), (nothing, Measured(6.0))], "lower")
    assert found.factor is None
    assert found.reason == "a value that is less than its own uncertainty has no ratio"
    assert found.difference == pytest.approx(5.5)


def test_one_pair_gives_a_factor_and_claims_nothing() -> None:
    found = plain([2.0], [3.0])
    assert (found.factor, found.factor_interval, found.winner) == (pytest.approx(1.5), None, "")
    assert (found.a.sd, found.a.interval) == (None, None)
    with pytest.raises(ValueError, match="at least one pair"):
        improvement([], "lower")


@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-15])
def test_copies_of_one_pair_claim_no_more_than_one(factor: float) -> None:
    found = plain([2.0, 2.0 * factor, 2.0], [3.0 * factor, 3.0, 3.0])
    assert (found.doubt, found.resolved, found.winner) == ("the same in every pair: no claim", False, "")
    assert plain([0.0, 0.0], [5.0, 5.0]).doubt == "the same in every pair: no claim"
    assert plain([0.0, 0.0, 0.0], [5.0, 6.0, 7.0]).doubt == ""
    assert plain([2.0], [3.0]).doubt == "one pair: no claim"
    assert plain([1.0, 1.0], [2.0, 8.0]).doubt == "not resolved"


def test_equal_runs_are_not_resolved() -> None:
    found = plain([2.0, 2.0], [2.0, 2.0])
    assert found.factor_interval is None
    assert found.difference_interval is None
    assert not found.resolved


@pytest.mark.parametrize("pairs", [2, 4, 10])
def test_95_percent_of_the_intervals_hold_the_truth(pairs: int) -> None:
    """3,000 benches of 3 boards with their own gains; A and B use the boards differently, runs scatter by
    2 %, blocks by 10 %. The binomial's 4 sigma at 95 % of 3,000 is 1.6 %."""
    draws = generator(7, "coverage", pairs)
    shares = {"A": np.array([0.5, 0.3, 0.2]), "B": np.array([0.2, 0.3, 0.5])}
    true = {"A": 100.0, "B": 130.0}
    u_gain, benches, held = 0.02, 3000, 0
    for _ in range(benches):
        gains = 1.0 + u_gain * draws.standard_normal(3)
        measured = []
        for _ in range(pairs):
            block = math.exp(0.1 * draws.standard_normal())
            measured.append(
                tuple(
                    run(true[arm] * block * math.exp(0.02 * draws.standard_normal()) * shares[arm], gains)
                    for arm in "AB"
                )
            )
        found = improvement([(a, b) for a, b in measured], "lower")
        assert found.factor_interval is not None
        held += found.factor_interval.holds(1.3)
    assert 0.934 < held / benches < 0.992


def run(joules: np.ndarray, gains: np.ndarray) -> Measured:  # type: ignore[type-arg]
    read = joules * gains
    terms = tuple((UncertaintyPart.GAIN, f"pi-{i}", 0.02 * float(part)) for i, part in enumerate(read))
    return Measured(float(read.sum()), terms)
