"""The power of each window of a sweep above the idle power around it, from meter lines alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.emulation.electric.power import Activity, PiPower
from roambench.emulation.virtual import emulate
from roambench.energy.links.sweep import SweepPoint, SweepWindow
from roambench.energy.links.windows import window_powers
from roambench.energy.readings.samples import PowerSamples

POWER = replace(PiPower(), tx_w=0.2, rx_w=0.2, tx_w_per_mbit_s=0.010, rx_w_per_mbit_s=0.005)
UP, DOWN = SweepPoint("up", 2_000_000, 10.0), SweepPoint("down", 2_000_000, 10.0)  # 1.6 s each


def scene(*windows: SweepWindow, idle_s: float = 6.0, warming_w_per_s: float = 0.0, meter_s: float = 1e9):
    """Samples, spans and orders of windows with idle time around them; the board may warm up as it goes."""
    at, spans, schedule, orders = 0.0, [], [], {}

    def add(phase, length_s, activity, order="", moved=0):
        nonlocal at
        end = at + length_s
        spans.append(PhaseSpan("pi", "b", phase, 0, round(at * 1e9), round(end * 1e9), order, "", moved))
        for t in np.arange(at, end, 1.0):
            busy = warming_w_per_s * float(t) / POWER.core_w
            schedule.append((float(t), replace(activity, busy_cores=busy)))
        at = end

    add(Phase.IDLE, idle_s, Activity())
    for window in windows:
        point, order = window.point, f"o{window.index}"
        orders[order] = window
        up = point.direction == "up"
        for _ in range(window.repeats):
            add(
                Phase.UPLOAD if up else Phase.DOWNLOAD,
                point.transfer_s,
                Activity(tx_mbit_s=point.mbit_s) if up else Activity(rx_mbit_s=point.mbit_s),
                order,
                point.size_bytes,
            )
        add(Phase.WAIT, idle_s, Activity())
    run = emulate(schedule, at + 2.0, 5, power=POWER, tolerance=0.0)
    readings = [reading for reading in run.readings() if reading.monotonic_ns < meter_s * 1e9]
    return PowerSamples.from_readings(readings), spans, orders


def test_net_power_is_alpha_rate_plus_beta_in_either_direction():
    ways = (UP, DOWN)
    powers = window_powers(*scene(*(SweepWindow(index, ways[index % 2], 7) for index in range(24))))
    assert [power.window.index for power in powers] == list(range(24))
    # 10 mW per Mbit/s at 10 Mbit/s and 200 mW; 5 mW and 200 mW. A step of the meter is 3.8 mW.
    for first, net_w in enumerate((0.300, 0.250)):
        own = np.array([power.net_w for power in powers[first::2]])
        u_w = np.array([np.hypot(power.u_net_w, power.rounding_w) for power in powers[first::2]])
        assert own.mean() == pytest.approx(net_w, abs=0.003)
        # Where lines fall makes no difference to a steady power: only the meter's steps are left.
        assert (np.abs(own - net_w) <= 2.0 * u_w).all()
        assert own.std() < 0.001
    for power in powers:
        assert power.idle_w == pytest.approx(1.9, abs=0.005)
        assert power.active_s == pytest.approx(11.2)
        assert power.transferred_bytes == 14_000_000
        assert power.mbit_s == pytest.approx(10.0)
        assert 0.0001 < power.u_net_w < 0.01


def test_a_board_that_warms_up_is_measured_above_its_idle_power_of_that_minute():
    windows = [SweepWindow(index, UP, 7) for index in range(6)]
    powers = window_powers(*scene(*windows, warming_w_per_s=0.002))  # 0.2 W in all
    assert [power.net_w for power in powers] == pytest.approx([0.3] * 6, abs=0.008)
    assert powers[-1].idle_w - powers[0].idle_w == pytest.approx(5 * 17.2 * 0.002, abs=0.01)


def test_a_window_that_broke_off_is_left_out():
    samples, spans, orders = scene(*[SweepWindow(index, UP, 3) for index in range(3)])
    second = [i for i, span in enumerate(spans) if span.order_id == "o1"]
    spans[second[-1]] = replace(spans[second[-1]], transferred_bytes=500_000)
    assert [power.window.index for power in window_powers(samples, spans, orders)] == [0, 2]


def test_a_window_beside_lost_time_is_left_out():
    samples, spans, orders = scene(*[SweepWindow(index, UP, 3) for index in range(3)])
    waits = [i for i, span in enumerate(spans) if span.phase is Phase.WAIT]
    spans[waits[0]] = replace(spans[waits[0]], phase=Phase.LOST)
    assert [power.window.index for power in window_powers(samples, spans, orders)] == [2]


def test_windows_that_the_meter_did_not_see_are_left_out():
    windows = [SweepWindow(index, UP, 7) for index in range(3)]
    # The second begins after 27.2 s; before that, eight lines and more saw the board idle.
    found = window_powers(*scene(*windows, idle_s=8.0, meter_s=29.0))
    assert [power.window.index for power in found] == [0]


def test_without_readings_or_windows_there_is_nothing():
    samples, spans, orders = scene(SweepWindow(0, UP, 3))
    assert window_powers(PowerSamples.of([], []), spans, orders) == []
    assert window_powers(samples, spans, {}) == []
