"""`run --plan` says how sure the energy of each phase will be, and what would bring it to 5 %."""

from __future__ import annotations

import dataclasses
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from roambench.energy.window_sums import sampling_j2
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.meters.traits import TRAITS, MeterTraits
from roambench.plan.energy import PhaseJoules, agents_joules
from roambench.plan.fleet import PlannedFleet, planned_fleet
from roambench.plan.plan import RunPlan
from roambench.plan.rehearsed import Rehearsed
from roambench.plan.tables import widths_of
from roambench.plan.widths import ExpectedPhases
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.event_log import EventLog

_SLOW = MeterTraits("slow", 1.0, 0.26, 0.26, 0.0, 0.0)
_FAST = MeterTraits("fast", 0.1, 0.06, 0.0, 0.0, 0.0)


def phases_of(count: int, watts: float, seconds: float, after_j: float = 0.0) -> ExpectedPhases:
    phases = ExpectedPhases()
    for _ in range(count):
        phases.add(watts, seconds, after_j)
    return phases


def plan_of(*phases: PhaseJoules) -> RunPlan:
    made = object.__new__(RunPlan)
    object.__setattr__(made, "joules", phases)
    return made


def test_a_wide_phase_says_how_many_of_them_would_bring_it_to_5_percent() -> None:
    wide = PhaseJoules("download", 44.0, 80.0, 20.0, 40, u_net_j=1.0)
    assert widths_of(plan_of(wide)) == ["net download ± 10 % (40 of 1.1 s); ± 5 % takes 160 of them"]


@pytest.mark.parametrize(("u_faster_j", "advised"), [(0.4, True), (0.6, False), (0.0, False)])
def test_a_faster_meter_is_advised_where_it_brings_5_percent(u_faster_j: float, advised: bool) -> None:
    wide = PhaseJoules("download", 44.0, 80.0, 20.0, 40, u_net_j=1.0, u_faster_j=u_faster_j)
    (said,) = widths_of(plan_of(wide))
    assert said.endswith(", or a meter that prints every 100 ms") == advised


@pytest.mark.parametrize(("u_j", "said"), [(0.73, "120"), (7.3, "1,200"), (0.0061, "1"), (0.0006, "0.1")])
def test_a_width_is_a_percentage_that_people_read(u_j: float, said: str) -> None:
    down = PhaseJoules("download", 1.6, 2.9, 1.2, 4, u_net_j=u_j)
    up = PhaseJoules("upload", 1.6, 2.9, 1.2, 4, u_net_j=u_j)
    assert widths_of(plan_of(down, up))[0].startswith(f"net download ± {said} % (4 of 0.4 s)")
    assert "e+" not in widths_of(plan_of(down, up))[-1]


def test_what_the_gain_of_the_meters_leaves_no_number_of_phases_lowers() -> None:
    lasting = PhaseJoules("upload", 40.0, 80.0, 20.0, 40, u_net_j=1.0, u_lasting_j=0.6)
    assert widths_of(plan_of(lasting)) == ["net upload ± 10 % (40 of 1.0 s)"]
    sure = PhaseJoules("train", 400.0, 800.0, 350.0, 40, u_net_j=2.0)
    assert widths_of(plan_of(sure)) == ["net train ± 1.1 % (40 of 10.0 s)"]


def test_where_nothing_is_measured_or_phases_touch_nothing_is_promised() -> None:
    assert widths_of(plan_of(PhaseJoules("train", 10.0, 20.0, 8.0))) == []


@pytest.mark.parametrize("duration_s", [0.2, 1.0, 2.0, 30.0])
def test_a_meter_that_looks_for_an_instant_is_as_unsure_as_a_boxcar_and_a_seamless_one_is_not(
    duration_s: float,
) -> None:
    instant = float(sampling_j2(3.0, np.array([duration_s]), 1.0, 0.0)[0])
    fraction = duration_s if duration_s < 0.5 else None
    expected = 9.0 * (fraction * (1.0 - fraction) if fraction else 1.0 / 6.0)
    assert instant == pytest.approx(expected, rel=0.05)
    assert float(sampling_j2(3.0, np.array([duration_s]), 1.0, 1.0)[0]) < 0.05 * instant


def test_ten_lines_a_second_are_surer_than_one() -> None:
    phases = phases_of(20, 1.2, 1.4)
    assert phases.u_j(1.5, _FAST) < 0.25 * phases.u_j(4.0, _SLOW)


def test_phases_of_a_whole_period_are_surer_than_those_of_half_a_period_more() -> None:
    whole, more = phases_of(60, 1.2, 2.0), phases_of(60, 1.2, 2.5)
    assert whole.u_j(4.0, _SLOW) < 0.8 * more.u_j(4.0, _SLOW)


def test_few_phases_are_less_sure_than_their_number_says() -> None:
    few, many = phases_of(3, 1.2, 2.3), phases_of(300, 1.2, 2.3)
    assert few.u_j(4.0, _SLOW) > 1.05 * many.u_j(4.0, _SLOW) / 10.0


def test_a_tail_is_part_of_the_net_energy_that_the_width_is_a_share_of() -> None:
    phases = phases_of(10, 0.5, 2.0, after_j=0.1)
    assert phases.net_j == pytest.approx(11.0)


def test_a_comparison_adds_both_directions_gain_and_all() -> None:
    down = PhaseJoules("download", 40.0, 80.0, 10.0, 40, u_net_j=0.5, u_lasting_j=0.3)
    up = PhaseJoules("upload", 40.0, 80.0, 20.0, 40, u_net_j=1.0, u_lasting_j=0.6)
    own_j = math.hypot(0.4, 0.8)
    share = 200.0 * math.hypot(own_j, 0.9) / 30.0
    assert widths_of(plan_of(down, up))[-1] == (
        f"compare: all transfers ± {share:.2g} %, and what the link model adds"
    )


def trainings_of(*devices: int) -> Rehearsed:
    """Five trainings of 20 s on each device."""
    records: list[RoundRecord] = []
    for device, number in product(devices, range(5)):
        order = f"{device}/{number}"
        records.append(OrderGiven(number, device, order, "train", -1))
        records.append(OrderAnswered(number, device, order, "ok", train_s=20.0, samples=8))
    return Rehearsed(EventLog.of(records), (), 1, 1)


def train_on(fleet: PlannedFleet, devices: int = 2) -> PhaseJoules:
    rows = agents_joules(fleet, trainings_of(*range(devices)), devices, 600.0)
    return next(row for row in rows if row.phase == "train")


def local(**energy: object) -> PlannedFleet:
    tables = {"energy": energy, "fleet": {"agents": 2}, "rounds": {"rest_s": 4.0}}
    return planned_fleet(Experiment.model_validate({"systems": ("mohawk",), **tables}), "local")


def test_the_gain_is_known_as_well_as_the_experiment_says_of_each_meter() -> None:
    row = TRAITS.load("smartpower2")
    plain = train_on(local())
    assert plain.u_lasting_j == pytest.approx(row.u_gain * plain.net_j / math.sqrt(2.0))
    assert train_on(local(u_gain=0.002)).u_lasting_j == pytest.approx(0.002 * plain.net_j / math.sqrt(2.0))
    one = train_on(local(meters={"pi-01": {"u_gain": 0.002}}))
    assert one.u_lasting_j == pytest.approx(math.hypot(0.002, row.u_gain) * plain.net_j / 2.0)
    # Both were calibrated against one reference: what it has wrong, both have wrong.
    alike = {"u_gain": 0.002, "u_reference": 0.002, "reference": "the lab's"}
    assert train_on(local(meters={"pi-01": alike, "pi-02": alike})).u_lasting_j == pytest.approx(
        0.002 * plain.net_j
    )
    assert train_on(local(u_gain=0.002)).u_net_j < plain.u_net_j


def test_the_gain_is_known_as_well_as_the_calibration_file_says_of_the_benchs_meters(tmp_path: Path) -> None:
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[controller]\naddress = "10.0.0.9"\n'
        '[[hosts]]\nname = "a"\naddress = "10.0.0.1"\nmeter.port = "/dev/meter"\nmeter.serial = "SP2-7"\n'
        '[[hosts]]\nname = "b"\naddress = "10.0.0.2"\nmeter.port = "/dev/meter?serial=SP2-8"\n'
    )
    (tmp_path / "meters.toml").write_text("[SP2-7]\nu_gain = 0.002\n[SP2-8]\nu_gain = 0.003\n")
    file = tmp_path / "e.toml"
    file.write_text('energy.calibration_file = "meters.toml"\nrounds.rest_s = 4.0\n')
    train = train_on(planned_fleet(load_experiment(file), f"bench:{bench}"))
    assert train.u_lasting_j == pytest.approx(math.hypot(0.002, 0.003) * train.net_j / 2.0)


def test_each_devices_few_sums_tell_their_own_scatter() -> None:
    """A run knows the scatter of five sums from those five, however many other boards have as many."""
    one, all_four = train_on(local(u_gain=0.0), 1), train_on(local(u_gain=0.0), 4)
    assert all_four.u_net_j == pytest.approx(2.0 * one.u_net_j)


def test_a_slow_meter_is_compared_with_one_that_prints_every_100_ms() -> None:
    assert 0.0 < train_on(local()).u_faster_j < train_on(local()).u_net_j
    tables = {
        "local": {"meter_profile": "smartpower2-100ms"},
        "fleet": {"agents": 2},
        "rounds": {"rest_s": 4.0},
    }
    fast = planned_fleet(Experiment.model_validate({"systems": ("mohawk",), **tables}), "local")
    assert train_on(fast).u_faster_j == 0.0


def test_a_phases_gross_joules_are_idle_and_net() -> None:
    assert dataclasses.replace(PhaseJoules("train", 1.0, 2.0, 3.0)).gross_j == 5.0
