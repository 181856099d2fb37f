"""Calibrations at some loads of seeded meters: gain and offset come back within what is said of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.emulation.electric.power import PiPower
from roambench.emulation.electric.sensor import Ina231, Tolerance, load
from roambench.emulation.virtual import emulate
from roambench.energy.uncertainty import uncalibrated
from roambench.instrument.load_points import LoadPoint, calibrate, doubts, linearity
from roambench.meters.traits import TRAITS

SP2 = TRAITS.load("smartpower2")


def exact(chip: Ina231, watts: float) -> float:
    """What the emulated chip's parts make of a steady power, before any register rounds it."""
    part: Tolerance = chip.tolerance
    volts, amps = load(watts)
    amps = amps * chip.gain * (1.0 + part.current_gain) + part.shunt_offset_a + chip.offset_w / volts
    return SP2.gain * (volts * (1.0 + part.voltage_gain) + part.bus_offset_v) * amps


def read(chip: Ina231, watts: np.ndarray) -> np.ndarray:
    return np.array([chip.registers(float(each)).printed().watts for each in watts]).round(3)


def test_gain_and_offset_lie_within_2u_in_95_percent_of_seeded_meters() -> None:
    """Meters off the shelf (and worse), loads that flicker and wander, a reference that is wrong itself."""
    errors = []
    for seed in range(300):
        draw = generator(seed, "two points")
        chip = Ina231.drawn(seed, 0, gain=draw.uniform(0.98, 1.02), offset_w=draw.uniform(-0.02, 0.02))
        loads = draw.uniform(1.7, 2.3), draw.uniform(4.5, 5.5)
        u_reference, u_value_w = 10.0 ** draw.uniform(-4.0, -2.7), 0.0005
        reference = 1.0 + u_reference * draw.standard_normal()
        points = []
        for true_w in loads:
            flicker = 10.0 ** draw.uniform(-4.0, -2.0) * draw.standard_normal(60)
            wander = np.convolve(0.002 * draw.standard_normal(64), np.ones(5) / 5, "valid")
            told_w = true_w * reference + u_value_w * draw.standard_normal()
            points.append(LoadPoint.of(told_w, u_value_w, read(chip, true_w + flicker + wander), SP2))
        made = calibrate(points, "a standard", u_reference)
        low, high = (exact(chip, true_w) for true_w in loads)
        gain = (high - low) / (loads[1] - loads[0])
        errors.append(
            (
                (made.gain / gain - 1.0) / made.u_gain,
                (made.offset_w - (low - gain * loads[0])) / made.u_offset_w,
            )
        )
    z = np.array(errors)
    assert (np.abs(z) <= 2.0).mean(axis=0).min() >= 0.95
    # Not by saying too much: the errors are about as large as they are said to be.
    assert z.std(axis=0).min() > 0.5
    assert np.abs(z.mean(axis=0)).max() < 0.2


def test_the_line_through_two_points_by_hand() -> None:
    """1.9 W reads 2.0, 4.9 W reads 5.12: gain 1.04, offset 24 mW; u of both points alike."""
    still = np.full(20, 2.0), np.full(20, 5.12)
    points = [
        LoadPoint.of(true_w, 0.001, watts, SP2) for true_w, watts in zip((1.9, 4.9), still, strict=True)
    ]
    made = calibrate(points[::-1], "a standard", 0.001)
    assert (made.gain, made.offset_w) == pytest.approx((1.04, 0.024))
    u_w = math.hypot(3.81687e-3 / math.sqrt(12.0), 1.04e-3)
    assert made.u_gain == pytest.approx(math.hypot(u_w * math.sqrt(2.0) / 3.12, 0.001))
    assert made.u_offset_w == pytest.approx(u_w * math.hypot(1.9, 4.9) / 3.0)
    assert (made.u_reference, made.reference) == (0.001, "a standard")


def test_an_emulated_meter_without_a_fault_has_the_firmwares_own_gain_and_its_type_knows_it() -> None:
    """Through bytes and parser: perfect parts read 0.059 % high, and the traits alone take it off."""
    watts = []
    loads = [PiPower(idle_w=idle_w) for idle_w in np.linspace(1.9, 5.1, 97)]
    for power in loads:
        run = emulate([], 12.0, 3, power=power, tolerance=0.0)
        watts.append(np.mean([reading.watts for reading in run.readings()]))
    true_w = np.array([power.idle_w for power in loads])
    # 97 loads at random places of a step of 3.8 mW: their mean is known to 0.11 mW of 3.5 W.
    raw, corrected = (
        np.sum(each) / np.sum(true_w) for each in (watts, uncalibrated(SP2).correct(np.array(watts)))
    )
    assert raw - 1.0 == pytest.approx(5.9e-4, abs=1e-4)
    assert corrected == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("true_w", "watts", "complaint"),
    [
        (0.0, np.full(60, 0.004), "zero is no point of a calibration"),
        (2.0, np.array([*np.full(59, 2.0), 0.0]), "printed 0 W at a load of 2 W: zero is no point"),
        (math.nan, np.full(60, 2.0), "at least 0.05 W, got nan W"),
        (2.0, np.full(9, 2.0), "at least 10 readings of a load, got 9"),
    ],
)
def test_what_is_no_load_is_no_point(true_w: float, watts: np.ndarray, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        LoadPoint.of(true_w, 0.0, watts, SP2)


def test_doubts_name_what_is_wrong_and_what_to_do() -> None:
    def point(true_w: float, read_w: float, drift_w: float = 0.0) -> LoadPoint:
        return LoadPoint.of(true_w, 0.001, np.linspace(read_w, read_w + drift_w, 40), SP2)

    def told(first: LoadPoint, second: LoadPoint) -> list[str]:
        return doubts(calibrate([first, second]), [first, second], SP2)

    assert told(point(1.9, 1.91), point(5.1, 5.12)) == []
    (close,) = told(point(4.0, 4.01), point(5.1, 5.12))
    assert close.startswith("the loads are close to each other: their distance adds 0.19%")
    (warming,) = told(point(1.9, 1.91), point(5.1, 5.12, 0.05))
    assert warming.startswith("the load of 5.100 W changed while it was read")
    (wrong,) = told(point(1.9, 1.9 * 1.1), point(5.1, 5.1 * 1.1))
    assert wrong.startswith("a gain of 1.1000 and an offset of")
    with pytest.raises(
        ConfigError, match=r"read more at the greater load, got 5.000 W at 2.000 W and 2.000 W"
    ):
        calibrate([point(2.0, 5.0), point(5.0, 2.0)])


def test_a_third_load_tells_how_far_the_gain_depends_on_the_power() -> None:
    """1 % more above 3.5 W: neither slope is further than the gain's 2 u; two loads do not see it."""
    bent = [
        LoadPoint.of(true_w, 0.0001, np.full(20, true_w + 0.01 * max(0.0, true_w - 3.5)), SP2)
        for true_w in (2.0, 5.0, 3.5)
    ]
    assert linearity(bent[:2]) == 0.0
    assert linearity(bent) == pytest.approx(0.01 / 2.0 / math.sqrt(3.0), rel=0.01)
    made = calibrate(bent)
    assert made.gain == pytest.approx(1.005)
    assert all(abs(slope / made.gain - 1.0) < 2.0 * made.u_gain for slope in (1.0, 1.01))
    with pytest.raises(ConfigError, match=r"read more at the greater load, got 6.000 W at 3.500 W"):
        calibrate([*bent[:2], LoadPoint.of(3.5, 0.0001, np.full(20, 6.0), SP2)])
