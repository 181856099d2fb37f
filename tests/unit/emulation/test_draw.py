"""What boards with shapes draw, feature by feature, against sums by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from roambench.emulation.electric.draw import BoardDraw
from roambench.emulation.electric.power import IDLE, Activity, PiPower
from roambench.emulation.electric.shapes import HARSH, REALISTIC, SHAPES, SPREAD, STEADY, PowerShape
from roambench.emulation.electric.signal import PowerSignal
from roambench.emulation.virtual import emulate

S = 1_000_000_000
POWER = PiPower()
RECEIVING = Activity(rx_mbit_s=10.0)  # 0.15 W + 0.05 W
SENDING = Activity(tx_mbit_s=10.0)  # 0.25 W + 0.10 W
TRAINING = Activity(busy_cores=1.0)  # 0.8 W
WAITING = Activity(waiting=True)


def drawn(shape: PowerShape, *told: tuple[float, Activity], until_s: float = 60.0, seed: int = 1):
    """The true power and that of idling, from 0 s on."""
    draw = BoardDraw(POWER, shape, seed, 0, 0)
    signal = PowerSignal(0, POWER.idle_w)
    for at_s, activity in told:
        for ns, watts in draw.work(activity, round(at_s * S)):
            signal.change(ns, watts)
    for ns, watts in draw.until(round(until_s * S)):
        signal.change(ns, watts)
    return signal, draw.idle


def above_idle_j(shape: PowerShape, *told: tuple[float, Activity], from_s: float, to_s: float, seed: int = 1):
    signal, idle = drawn(shape, *told, seed=seed)
    span = (round(from_s * S), round(to_s * S))
    return signal.energy_j(*span) - idle.energy_j(*span)


def between(mean: float):
    """Of a drawn length, what it may be."""
    return pytest.approx(mean, rel=SPREAD)


def moving(activity: Activity, until_s: float) -> Activity:
    return replace(activity, moves_until_ns=round(until_s * S))


def test_a_steady_board_draws_what_it_does_to_the_nanosecond():
    told = ((1.0, RECEIVING.radio_resting()), (1.5, moving(RECEIVING, 3.0)), (4.0, TRAINING), (9.0, WAITING))
    signal, idle = drawn(STEADY, *told)
    changes = [(0, 1.9), (S, 2.05), (1.5 * S, 2.1), (3 * S, 2.05), (4 * S, 2.7), (9 * S, 1.9)]
    assert [found for found in signal.segments if found[0] in dict(changes)] == changes
    assert signal.energy_j(0, 60 * S) == pytest.approx(
        60 * 1.9 + 0.5 * 0.15 + 1.5 * 0.2 + 1.0 * 0.15 + 5.0 * 0.8
    )
    assert idle.segments == [(0, 1.9)]


def test_a_sleeping_radio_needs_time_and_is_done_before_the_last_byte():
    shape = PowerShape(wake_s=0.04, drained_s=0.02)
    told = ((1.0, RECEIVING.radio_resting()), (1.001, moving(RECEIVING, 3.0)), (3.1, IDLE))
    asleep_j = (2.0 - 0.04) * 0.2 + 0.1 * 0.15 - 0.02 * 0.05
    assert above_idle_j(shape, *told, from_s=0, to_s=60) == pytest.approx(
        asleep_j, abs=0.02 * 0.2 + 0.01 * 0.05
    )
    assert above_idle_j(shape, *told, from_s=0, to_s=1.02) == 0.0
    assert above_idle_j(shape, *told, from_s=2.991, to_s=3.0) == pytest.approx(0.009 * 0.15, abs=1e-9)


def test_a_transfer_begins_with_a_burst_and_ends_with_a_write_if_it_is_received():
    burst = PowerShape(burst_s=0.2, burst_factor=1.5)
    told = ((1.0, SENDING.radio_resting()), (1.5, moving(SENDING, 3.0)), (3.0, IDLE))
    steady_j = above_idle_j(STEADY, *told, from_s=0, to_s=60)
    assert above_idle_j(burst, *told, from_s=0, to_s=60) - steady_j == between(0.2 * 0.5 * 0.35)
    write = PowerShape(ending_s=0.1, ending_w=0.5)
    assert above_idle_j(write, *told, from_s=0, to_s=60) == pytest.approx(steady_j)
    told = ((1.0, RECEIVING.radio_resting()), (1.5, moving(RECEIVING, 3.0)), (3.0, IDLE))
    extra_j = above_idle_j(write, *told, from_s=2.85, to_s=3.0) - 0.15 * 0.2
    assert extra_j == between(0.1 * 0.5)


def test_a_tail_follows_a_transfer_whatever_the_board_does_then_until_the_radio_is_needed():
    shape = PowerShape(tail_s=0.6)
    for after, watts in ((IDLE, 0.0), (TRAINING, 0.8)):
        told = ((1.0, SENDING), (3.0, after), (3.1, after))
        extra_j = above_idle_j(shape, *told, from_s=3.0, to_s=10.0) - 7.0 * watts
        assert extra_j == between(0.6 * 0.25)
    again = ((1.0, SENDING), (3.0, IDLE), (3.1, RECEIVING), (8.0, IDLE))
    assert above_idle_j(shape, *again, from_s=3.1, to_s=8.0) == pytest.approx(4.9 * 0.2)


def test_waiting_costs_and_being_away_does_not():
    shape = PowerShape(wait_w=0.05)
    assert above_idle_j(shape, (1.0, WAITING), (11.0, IDLE), from_s=0, to_s=60) == pytest.approx(0.5)


def test_a_training_ramps_up_and_dips_for_as_long_as_it_lasts():
    ramp = PowerShape(ramp_s=0.2, low_share=0.5)
    lost_j = 40 * 0.8 - above_idle_j(ramp, (1.0, TRAINING), (41.0, IDLE), from_s=0, to_s=60)
    assert lost_j == between(0.2 * 0.4)
    dips = PowerShape(dip_every_s=2.0, dip_s=0.2, low_share=0.5)
    draw = BoardDraw(POWER, dips, 1, 0, 0)
    signal = PowerSignal(0, POWER.idle_w)
    for second in range(60):  # told of nothing more, the board goes on
        told = draw.work(TRAINING, S) if second == 1 else draw.until(second * S)
        for ns, watts in told:
            signal.change(ns, watts)
    edges = [ns for (_, before), (ns, now) in pairwise(signal.segments) if now < before and ns < 59 * S]
    pauses = [b - a for a, b in pairwise(edges)]
    assert len(pauses) >= 15
    assert max(pauses) - min(pauses) <= 1
    assert pauses[0] / S == between(2.0)


def test_idle_power_warms_up_by_itself_and_by_the_cores_work():
    shape = PowerShape(warm_w=0.1, warm_s=50.0, heat_w=0.05, heat_s=20.0)
    _, idle = drawn(shape, (100.0, TRAINING), (200.0, IDLE), until_s=400.0)

    def warm(s: float) -> float:
        return 1.9 + 0.1 * (1 - math.exp(-s / 50))

    assert idle.watts_at(40 * S) == pytest.approx(warm(40), abs=1e-9)
    assert idle.watts_at(200 * S) == pytest.approx(warm(200) + 0.05 * (1 - math.exp(-100 / 20)), abs=1e-4)
    assert idle.watts_at(220 * S) == pytest.approx(warm(220) + 0.05 * (1 - math.exp(-5)) / math.e, abs=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_the_order_in_which_records_arrive_changes_nothing_but_the_seed_does(name):
    shape = replace(SHAPES[name], warm_w=0.0, heat_w=0.0)  # warmth looks back only
    told = [
        (at + 10 * k, activity)
        for k in range(4)
        for at, activity in (
            (1.0, RECEIVING.radio_resting()),
            (1.1, moving(RECEIVING, 10 * k + 2.9)),
            (3.0, TRAINING),
            (6.0, SENDING.radio_resting()),
            (6.1, moving(SENDING, 10 * k + 8.0)),
            (8.1, WAITING),
        )
    ]
    mixed = random.Random(3).sample(told, len(told))
    probes = [round(k * 0.0137 * S) for k in range(3400)]
    power = [drawn(shape, *order)[0] for order in (told, mixed)]
    assert [power[0].watts_at(ns) for ns in probes] == [power[1].watts_at(ns) for ns in probes]
    other = drawn(shape, *told, seed=2)[0]
    assert (name != "steady") == any(power[0].watts_at(ns) != other.watts_at(ns) for ns in probes)


@pytest.mark.parametrize("shape", [REALISTIC, HARSH])
def test_a_meter_sees_the_same_joules_as_the_truth(shape):
    told = []
    for k in range(60):
        told += [
            (9.73 * k, RECEIVING),
            (9.73 * k + 2, TRAINING),
            (9.73 * k + 6, SENDING),
            (9.73 * k + 8, WAITING),
        ]
    run = emulate(told, 583.0, 4, profile="sp3-2.2", interval_ms=10, tolerance=0.0, shape=shape)
    watts = [reading.watts for reading in run.readings()]
    assert sum(watts) / len(watts) == pytest.approx(run.truth.mean_w(0, 583 * S), rel=2e-3)
    assert run.truth.mean_w(0, 583 * S) > 1.02 * emulate(told, 583.0, 4).truth.mean_w(0, 583 * S)


def test_what_is_over_is_forgotten_and_a_record_from_then_still_does_no_harm():
    draw = BoardDraw(POWER, REALISTIC, 1, 0, 0)
    draw.work(SENDING, 10 * S)
    draw.work(TRAINING, 12 * S)
    draw.until(300 * S)
    draw.prune(240 * S)
    assert 230 * S < draw.load.start_ns <= draw.idle.start_ns == 240 * S
    assert draw.work(IDLE, 11 * S) == []  # the training was told since
    assert draw.load.watts_at(301 * S) in (0.8, 0.8 * REALISTIC.low_share)
    draw.work(IDLE, 238 * S)
    assert draw.load.watts_at(301 * S) == 0.0
