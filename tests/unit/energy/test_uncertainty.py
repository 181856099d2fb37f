from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import Energy
from roambench.energy.uncertainty import EXACT, MeterCalibration, with_meter
from roambench.meters.traits import TRAITS


def test_an_uncalibrated_meter_knows_1_9_watts_to_1_21_percent_and_5_1_watts_to_1_12() -> None:
    # sqrt(1 + 0.25 + 0.25 + (30 mV / 5.1 V)^2 + (0.2 / 15 mOhm)^2 + (3.33 mA / I)^2) percent, I = P / 5.1 V:
    # limits, so 2.10, 1.97 and 1.93 % over sqrt(3).
    meter = MeterCalibration()
    for watts, share in ((1.9, 0.0210), (3.4, 0.0197), (5.1, 0.0193)):
        relative_u = math.hypot(meter.u_gain, meter.u_offset_w / watts)
        assert relative_u == pytest.approx(share / 3**0.5, abs=5e-5)
    row = TRAITS.load("smartpower2")
    assert (meter.u_gain, meter.u_offset_w) == pytest.approx((row.u_gain, row.u_offset_w))


def test_a_calibrated_meter_gives_back_the_true_power() -> None:
    meter = MeterCalibration(gain=1.03, offset_w=0.02, u_gain=0.002, u_offset_w=0.001)
    assert meter.correct(np.array([1.03 * 2.0 + 0.02, 0.02])) == pytest.approx([2.0, 0.0])


def test_the_budget_adds_gain_offset_and_sampling_in_quadrature() -> None:
    parts = with_meter(Energy(100.0, 4.0, 50.0), MeterCalibration(u_gain=0.12, u_offset_w=0.06)).budget
    assert (parts.gain_j, parts.offset_j, parts.sampling_j) == (12.0, 3.0, 4.0)
    assert parts.total_j == 13.0


def test_an_exact_meter_leaves_only_the_sampling() -> None:
    assert with_meter(Energy(100.0, 4.0, 50.0, 1.0), EXACT) == Energy(100.0, 4.0, 50.0, 1.0)


def test_every_impossible_field_of_a_calibration_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        MeterCalibration(gain=0.0, offset_w=math.nan, u_gain=-0.1, u_offset_w=math.nan, u_reference=1.0)
    named = [line.split()[1] for line in caught.value.problems]
    assert named == ["gain", "offset_w", "u_gain", "u_offset_w", "u_reference"]


def test_two_meters_are_independent_unless_they_were_calibrated_against_one_reference() -> None:
    own = MeterCalibration(u_gain=0.05, u_offset_w=0.0)
    common = MeterCalibration(u_gain=0.05, u_offset_w=0.0, u_reference=0.04, reference="LAB-1")
    first, second = (with_meter(Energy(100.0), own, name) for name in "ab")
    assert (first + second).u_joules == pytest.approx(5.0 * 2**0.5)
    # 3 J of its own each in quadrature, 4 J of the reference twice: sqrt(18 + 64).
    first, second = (with_meter(Energy(100.0), common, name) for name in "ab")
    assert first.u_joules == pytest.approx(5.0)
    assert (first + second).u_joules == pytest.approx(82.0**0.5)
    # The same meter twice: all of it linear.
    assert (first + first).u_joules == pytest.approx(10.0)
