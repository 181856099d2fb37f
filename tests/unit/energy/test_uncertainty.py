from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import Energy
from roambench.energy.uncertainty import EXACT, MeterCalibration, budget, with_meter


def test_an_uncalibrated_meter_knows_1_9_watts_to_1_6_percent_and_5_1_watts_to_1_4() -> None:
    # sqrt(1 + 0.25 + 0.25 + (30 mV / 5.1 V)^2 + (3.33 mA / I)^2) percent, I = P / 5.1 V.
    meter = MeterCalibration()
    assert meter.relative_u(1.9) == pytest.approx(0.0163, abs=5e-5)
    assert meter.relative_u(3.4) == pytest.approx(0.0145, abs=5e-5)
    assert meter.relative_u(5.1) == pytest.approx(0.0140, abs=5e-5)


def test_a_calibrated_meter_gives_back_the_true_power() -> None:
    meter = MeterCalibration(gain=1.03, offset_w=0.02, u_gain=0.002, u_offset_w=0.001)
    assert meter.correct(np.array([1.03 * 2.0 + 0.02, 0.02])) == pytest.approx([2.0, 0.0])


def test_the_budget_adds_gain_offset_and_sampling_in_quadrature() -> None:
    parts = budget(Energy(100.0, 4.0, 50.0), MeterCalibration(u_gain=0.12, u_offset_w=0.06))
    assert (parts.gain_j, parts.offset_j, parts.sampling_j) == (12.0, 3.0, 4.0)
    assert parts.total_j == 13.0
    assert parts.expanded_j == 26.0


def test_an_exact_meter_leaves_only_the_sampling() -> None:
    assert with_meter(Energy(100.0, 4.0, 50.0, 1.0), EXACT) == Energy(100.0, 4.0, 50.0, 1.0)


def test_every_impossible_field_of_a_calibration_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        MeterCalibration(gain=0.0, offset_w=math.nan, u_gain=-0.1, u_offset_w=math.nan)
    assert [line.split()[1] for line in caught.value.problems] == ["gain", "offset_w", "u_gain", "u_offset_w"]
