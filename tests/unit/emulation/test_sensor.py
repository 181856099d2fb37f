"""The measuring chip: windows, steps, dead bands, tolerances, by hand-computed numbers."""

import numpy as np
import pytest

from roambench.emulation.electric.sensor import (
    WINDOW_NS,
    Ina231,
    Measurement,
    Registers,
    Tolerance,
    load,
)
from roambench.emulation.electric.signal import PowerSignal

SECOND = 1_000_000_000


def test_one_window_is_sixteen_times_two_conversions():
    assert WINDOW_NS == 263_808_000


def test_the_load_takes_what_it_takes_behind_the_drop():
    volts, amps = load(1.9)
    assert volts * amps == pytest.approx(1.9, abs=1e-12)
    assert volts == pytest.approx(5.098 - 0.020 * amps, abs=1e-12)


def test_idle_power_is_rounded_to_the_chips_steps():
    # 1.9 W: V = (5.098 + sqrt(5.098^2 - 4 * 0.02 * 1.9)) / 2 = 5.09053 V -> 4072 steps of 1.25 mV
    # I = 0.373242 A -> 2446 steps of 0.152585 mA; power 4072 * 2446 / 20000 = 498.006 -> 498
    registers = Ina231().registers(1.9)
    assert registers == Registers(4072, 2446, 498)
    read = registers.printed()
    assert f"{read.volts:.3f},{read.amps:.3f},{read.watts:.3f}" == "5.090,0.373,1.901"
    assert read.watts == pytest.approx(498 * 3.81687e-3)


def test_below_the_dead_bands_the_meter_prints_zero():
    assert Registers(4078, 58, 9).printed() == Measurement(4078 * 1.25e-3, 0.0, 0.0)
    above = Registers(4078, 59, 10).printed()
    assert above.amps == pytest.approx(9.0034e-3)
    assert above.watts == pytest.approx(38.1687e-3)
    # 30 mW: 5.9 mA is 39 steps, power register 8
    assert Ina231().registers(0.030) == Registers(4078, 39, 8)


def test_a_negative_current_prints_zero():
    sensor = Ina231(tolerance=Tolerance(shunt_offset_a=-0.5))
    read = sensor.registers(1.9).printed()
    assert (read.amps, read.watts) == (0.0, 0.0)


def test_a_value_is_the_mean_of_the_newest_finished_window():
    sensor = Ina231(phase_ns=0)
    ns = 10 * WINDOW_NS + 100_000_000
    assert sensor.latched_window(ns) == (9 * WINDOW_NS, 10 * WINDOW_NS)
    assert sensor.latched_window(10 * WINDOW_NS) == (9 * WINDOW_NS, 10 * WINDOW_NS)
    assert sensor.latched_window(10 * WINDOW_NS - 1)[1] == 9 * WINDOW_NS
    signal = PowerSignal(0, 2.0)
    signal.change(9 * WINDOW_NS + WINDOW_NS // 4, 4.0)  # a quarter at 2 W, three quarters at 4 W
    assert sensor.read(signal, ns) == sensor.registers(3.5).printed()
    # What happens after the window ended is not seen, however long before the read.
    signal.change(10 * WINDOW_NS + 1, 5.1)
    assert sensor.read(signal, ns) == sensor.registers(3.5).printed()


def test_registers_read_across_an_update_do_not_belong_together():
    sensor = Ina231(phase_ns=0)
    signal = PowerSignal(0, 2.0)
    signal.change(10 * WINDOW_NS, 5.0)
    old, new = sensor.registers(2.0).printed(), sensor.registers(5.0).printed()
    # volts now, watts 0.4 ms later, amperes 0.8 ms later; the window ends in between
    read = sensor.read(signal, 11 * WINDOW_NS - 300_000)
    assert read == Measurement(old.volts, new.amps, new.watts)
    read = sensor.read(signal, 11 * WINDOW_NS - 600_000)
    assert read == Measurement(old.volts, new.amps, old.watts)
    assert sensor.read(signal, 11 * WINDOW_NS - 900_000) == old


def test_gain_and_offset_of_a_test_show_as_they_are():
    exact = Ina231().registers(3.0).printed().watts
    assert Ina231(gain=1.03).registers(3.0).printed().watts / exact == pytest.approx(1.03, abs=0.0015)
    assert Ina231(offset_w=0.1).registers(3.0).printed().watts - exact == pytest.approx(0.1, abs=0.004)


def test_meters_off_the_shelf_differ_within_their_parts_limits():
    drawn = [Tolerance.drawn(3, device) for device in range(400)]
    assert Tolerance.drawn(3, 5) == drawn[5]
    assert max(abs(t.current_gain) for t in drawn) <= 0.015
    assert max(abs(t.bus_offset_v) for t in drawn) <= 0.030
    # A uniform draw within +-L has a standard deviation of L / sqrt(3).
    assert np.std([t.voltage_gain for t in drawn]) == pytest.approx(0.005 / 3**0.5, rel=0.15)
    assert Tolerance.drawn(3, 5, scale=0.0) == Tolerance()
    errors = [Ina231.drawn(3, device).registers(3.4).printed().watts / 3.4 - 1.0 for device in range(400)]
    # shunt 1 %, chip 0.5 % and 0.5 %, 30 mV of 5.1 V, 3.3 mA of 0.67 A, each over sqrt(3), in quadrature
    assert np.std(errors) == pytest.approx(0.0083, rel=0.15)


def test_a_chip_may_average_over_longer_and_be_read_late():
    signal = PowerSignal(0, 2.0)
    signal.change(10_000_000_000, 5.0)

    def shown(sensor: Ina231, seconds: float) -> float:
        return sensor.read(signal, round(seconds * 1e9)).watts

    wide, late = Ina231(window_ns=1_000_000_000), Ina231(held_ns=400_000_000)
    assert shown(wide, 10.99) == pytest.approx(2.0, abs=0.01)
    assert shown(wide, 11.01) == pytest.approx(5.0, abs=0.01)
    half = Ina231(phase_ns=500_000_000, window_ns=1_000_000_000)
    assert shown(half, 10.51) == pytest.approx(3.5, abs=0.01)
    for seconds in (10.0, 10.2, 10.35, 10.5, 11.0):
        assert shown(late, seconds + 0.4) == shown(Ina231(), seconds)
    assert shown(late, 0.1) == pytest.approx(2.0, abs=0.01)
