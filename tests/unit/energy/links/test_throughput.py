from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.link_power import LTE, WIFI, LinkPower
from roambench.energy.links.models import KnownLink
from roambench.energy.links.radio_work import RadioWork
from roambench.energy.links.throughput import (
    Direction,
    DistanceStatistics,
    link_name,
    link_throughput_mbit_s,
    lte_throughput_mbit_s,
    megabits,
    throughput_mbit_s,
)


def _joules(size_mbit: float, link: LinkPower, mbit_s: float, direction: Direction) -> float:
    return RadioWork.of(size_mbit, mbit_s, direction).energy(KnownLink(link)).joules


PLACES = DistanceStatistics(mean_m=1000.0, sd_m=400.0)


def test_one_megabit_up_over_lte_at_10_costs_0_567_joules() -> None:
    # (438.39 * 10 + 1288.04) mW * 1 Mbit / 10 Mbit/s = 567.194 mJ
    assert _joules(1.0, LTE, 10.0, "up") == pytest.approx(0.567194)


def test_one_megabit_down_over_lte_at_24_costs_0_106_joules() -> None:
    # (51.97 * 24 + 1288.04) / 24 = 105.6383 mJ
    assert _joules(1.0, LTE, 24.0, "down") == pytest.approx(0.10563833, rel=1e-6)


def test_mohawks_mnist_model_over_wifi_costs_what_eq_1_says() -> None:
    # 659,242 float32 = 21.095744 Mbit; (137.01 + 283.17 + 2 * 0.13286) mJ per Mbit at 1000 Mbit/s.
    size = megabits(659_242 * 4)
    assert size == pytest.approx(21.095744)
    both = [_joules(float(size), WIFI, 1000.0, direction) for direction in ("down", "up")]
    assert sum(both) == pytest.approx(21.095744 * 0.42044572)


def test_near_is_fast_far_is_slow_and_the_middle_is_linear() -> None:
    distances = [0.0, 600.0, 800.0, 1000.0, 1400.0, 9000.0]
    assert lte_throughput_mbit_s(distances, PLACES, "up") == pytest.approx([17, 17, 14.5, 12, 7, 7])
    assert lte_throughput_mbit_s(distances, PLACES, "down") == pytest.approx([36, 36, 30, 24, 12, 12])


def test_within_100_metres_it_is_wifi_both_ways() -> None:
    assert throughput_mbit_s([99.9, 100.0, 100.1], PLACES, "up") == pytest.approx([1000, 1000, 17])
    assert throughput_mbit_s(50.0, PLACES, "down") == 1000.0
    assert (link_name(100.0), link_name(100.1)) == ("wifi", "lte")


def test_equal_distances_get_the_middle_throughput() -> None:
    same = DistanceStatistics(500.0, 0.0)
    assert lte_throughput_mbit_s([500.0, 499.0, 501.0], same, "up") == pytest.approx([12, 17, 7])


@pytest.mark.parametrize("statistics", [PLACES, DistanceStatistics(800.0, 0.0)])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_one_link_has_the_same_bits_as_the_link_within_an_array(
    statistics: DistanceStatistics, direction: Direction
) -> None:
    borders = [0.0, 100.0, np.nextafter(100.0, 101.0), 600.0, 800.0, 1000.0, 1400.0, 1e6]
    distances_m = np.concatenate((borders, np.random.default_rng(3).uniform(0.0, 2000.0, 5000)))
    one_by_one = [link_throughput_mbit_s(d, statistics, direction) for d in distances_m.tolist()]
    assert one_by_one == throughput_mbit_s(distances_m, statistics, direction).tolist()


def test_a_link_at_the_mean_distance_has_the_middle_of_the_range() -> None:
    assert link_throughput_mbit_s(1000.0, PLACES, "up") == 12.0  # (7 + 17) / 2
    assert link_throughput_mbit_s(1200.0, PLACES, "down") == 18.0  # 36 - 3/4 * (36 - 12)
