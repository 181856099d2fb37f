"""The true power and its exact integral."""

import math
from itertools import pairwise

import pytest

from roambench.contract.draws import generator
from roambench.emulation.electric.signal import PowerSignal

SECOND = 1_000_000_000


def test_the_integral_of_a_train_phase_is_the_hand_computed_energy():
    signal = PowerSignal(0, 1.9)
    signal.change(10 * SECOND, 2.7)
    signal.change(15 * SECOND, 1.9)
    # 10 s of 1.9 W, 5 s of 2.7 W, 5 s of 1.9 W
    assert signal.energy_j(0, 20 * SECOND) == pytest.approx(19.0 + 13.5 + 9.5, abs=1e-12)
    # half a second on either side of the first border
    assert signal.mean_w(9_500_000_000, 10_500_000_000) == pytest.approx(2.3, abs=1e-12)
    assert signal.energy_j(12 * SECOND, 12 * SECOND) == 0.0


def test_changes_told_late_and_out_of_order_hold_until_the_next_known_change():
    told_late = PowerSignal(0, 1.9)
    for ns, watts in [(3, 3.0), (1, 1.0), (2, 2.0), (3, 3.5)]:
        told_late.change(ns * SECOND, watts)
    assert told_late.segments == [(0, 1.9), (SECOND, 1.0), (2 * SECOND, 2.0), (3 * SECOND, 3.5)]
    assert told_late.energy_j(0, 4 * SECOND) == pytest.approx(1.9 + 1.0 + 2.0 + 3.5, abs=1e-12)


def test_parts_add_up_to_the_whole_whatever_the_cuts():
    draws = generator(1, "signal")
    signal = PowerSignal(0, 1.9)
    for ns in draws.integers(0, 100 * SECOND, 200).tolist():
        signal.change(ns, float(draws.uniform(1.9, 5.1)))
    cuts = [0, *sorted(draws.integers(0, 100 * SECOND, 50).tolist()), 100 * SECOND]
    parts = [signal.energy_j(a, b) for a, b in pairwise(cuts)]
    assert math.fsum(parts) == pytest.approx(signal.energy_j(0, 100 * SECOND), rel=1e-12)


def test_pruning_forgets_the_past_and_says_so():
    signal = PowerSignal(0, 1.9)
    for second in range(1, 10):
        signal.change(second * SECOND, float(second))
    before = signal.energy_j(5 * SECOND, 20 * SECOND)
    signal.prune(5_500_000_000)
    assert signal.start_ns == 5 * SECOND
    assert signal.energy_j(5 * SECOND, 20 * SECOND) == before
    with pytest.raises(ValueError, match="not known"):
        signal.energy_j(4 * SECOND, 6 * SECOND)
    signal.change(SECOND, 99.0)  # far too late: the newer word for that time stands
    assert signal.watts_at(5 * SECOND) == 5.0
