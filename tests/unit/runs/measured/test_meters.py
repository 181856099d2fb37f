"""Each device is accounted by its own meter: traits and period as described, calibration, whose clock."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from roambench.contract.errors import RunError
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.energy.account import Method
from roambench.energy.idle.baseline import IdleBaselines
from roambench.experiment.energy_section import EnergySection
from roambench.experiment.sections import Experiment
from roambench.meters.traits import TRAITS, MeterDescription
from roambench.rounds.records import ClockOccasion, ClockProbed, RoundRecord
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import DeviceEnergy, account_run
from roambench.runs.measured.analysis import analysis_of
from roambench.runs.measured.meters import DeviceMeter, device_meter
from small_runs import a_run

S = 10**9
MS = 10**6
#: 2 W, and 5 W in the training from 60 to 90 s.
SPANS = (
    PhaseSpan("", "b", Phase.IDLE, 0, 0, 60 * S),
    PhaseSpan("", "b", Phase.TRAIN, 0, 60 * S, 90 * S, "t", "t"),
    PhaseSpan("", "b", Phase.IDLE, 0, 90 * S, 150 * S),
)


def lines(
    period_s: float, late_s: float = 0.0, *, clock: bool = False, idle_after_w: float = 2.0
) -> list[Reading]:
    """A line every period that shows the power of 0.264 s before, `late_s` after its time."""
    found = []
    for k, at in enumerate(np.arange(-2.0, 153.0, period_s).tolist()):
        middle = at - 0.264
        watts = 5.0 if 60.0 <= middle < 90.0 else 2.0 if middle < 60.0 else idle_after_w
        # The way to the host takes 5 ms and up to 30 more.
        on_the_way_s = 0.005 + 0.03 * ((7 * k) % 11) / 11.0 if clock else 0.0
        stamp = round((at + late_s + on_the_way_s) * S)
        meter_ms = round((at + 100.0) * 1000) if clock else -1
        found.append(Reading(stamp, 5.0, watts / 5.0, watts, meter_ms=meter_ms))
    return found


def measured(
    folder: Path,
    readings: Sequence[Reading],
    description: MeterDescription | None,
    energy: dict[str, object] | None = None,
    records: Sequence[RoundRecord] = (),
    others: Sequence[str] = (),
) -> DeviceEnergy:
    with a_run(
        folder / "run",
        "bench",
        ["pi-01", *others],
        Experiment.model_validate({"seed": 1, "energy": energy or {}}),
    ) as run:
        rows = [(RecordKind.READING, reading.to_bytes()) for reading in readings]
        rows += [(RecordKind.PHASE, phase_to_bytes(span)) for span in SPANS]
        if description is not None:
            rows.append((RecordKind.EVENT, description.to_event(0).to_bytes()))
        run.records.insert("pi-01", "s", [(seq, *row) for seq, row in enumerate(rows)])
        run.update(start_device_ns=0, end_device_ns=150 * S, state=RunState.FINISHED)
        found = account_run(run, records)
    assert found is not None
    return found.devices[0]


def section(**values: object) -> EnergySection:
    return EnergySection.model_validate(values)


def test_a_meter_that_nobody_described_is_an_uncalibrated_smart_power_2(tmp_path: Path) -> None:
    device = measured(tmp_path, lines(1.0), None)
    assert (device.meter.traits.name, device.meter.nominal_s) == ("smartpower2", 1.0)
    assert not device.meter.calibrated
    # 1.10 % of 150 s x 2 W + 30 s x 3 W.
    assert device.whole_run.budget.gain_j == pytest.approx(0.01099 * 390.0, rel=0.01)
    assert device.whole_run.budget.offset_j == pytest.approx(0.0098 * 150.0, rel=0.02)


def test_a_meter_that_repeats_its_last_line_measured_nothing_meanwhile(tmp_path: Path) -> None:
    """Two watts that are noisy, and 50 s of one and the same line of them."""
    draws = np.random.default_rng(0)
    noisy = []
    for line in lines(1.0):
        watts = round(line.watts + 0.02 * float(draws.standard_normal()), 3)
        noisy.append(replace(line, watts=watts, amps=watts / 5.0))
    assert measured(tmp_path / "living", noisy, None).frozen == ()
    stuck = next(line for line in noisy if line.monotonic_ns >= 92 * S)
    repeated = [
        replace(stuck, monotonic_ns=line.monotonic_ns) if 92 * S <= line.monotonic_ns <= 142 * S else line
        for line in noisy
    ]
    device = measured(tmp_path / "frozen", repeated, None)
    assert [round(stretch.duration_s) for stretch in device.frozen] == [50]
    assert device.whole_run.gap_s == pytest.approx(50.0, abs=2.0)
    assert device.rows[2].covered_s == pytest.approx(10.0, abs=3.0)


def test_period_and_window_are_those_of_the_described_meter(tmp_path: Path) -> None:
    description = MeterDescription("smartpower3-serial", "/dev/x", "smartpower3-100ms", nominal_s=0.1)
    device = measured(tmp_path, lines(0.1), description)
    assert device.meter.nominal_s == 0.1
    assert device.meter.traits.latch_s == 0.0
    assert device.account.period_s == pytest.approx(0.1, rel=1e-3)
    assert device.rows[1].gross_j == pytest.approx(150.0, rel=0.005)
    # 0.4 s without a line are a gap for this meter and would be none for a Smart Power 2.
    kept = [line for line in lines(0.1) if not 30.0 < line.monotonic_ns / S < 30.4]
    assert measured(tmp_path / "gap", kept, description).whole_run.gap_s == pytest.approx(0.4, abs=0.11)


def test_a_period_that_the_driver_measured_goes_before_the_types(tmp_path: Path) -> None:
    description = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", nominal_s=2.0)
    device = measured(tmp_path, lines(2.0), description)
    assert device.meter.nominal_s == 2.0
    assert device.whole_run.gap_s == 0.0


def test_lines_with_the_meters_own_clock_are_placed_by_it(tmp_path: Path) -> None:
    description = MeterDescription("smartpower3-serial", "/dev/x", "smartpower3-100ms", nominal_s=0.1)
    device = measured(tmp_path, lines(0.1, clock=True), description)
    # Arrivals scatter by 30 ms; the samples are 100 ms apart, all late by the 5 ms of the fastest.
    apart_ms = np.diff(device.samples.ns) / MS
    assert apart_ms == pytest.approx(100.0, abs=0.2)
    assert (device.samples.ns[0] + 2 * S) / MS == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize(
    "case", ["on for 30 days", "one false digit", "a false digit of hundreds", "off for a while", "wrapped"]
)
def test_a_count_that_leaves_the_hosts_time_moves_no_other_lines(tmp_path: Path, case: str) -> None:
    """A meter restarts at 40 s; the count of one line is false; it is off from 20 s to 70 s, and its new
    count when it says the next line is above the old."""
    readings, hidden_s = [], (39.0, 40.0) if case == "on for 30 days" else (0.0, 0.0)
    hidden_s = (20.0, 70.0) if case == "off for a while" else hidden_s
    for k, line in enumerate(lines(0.1, clock=True)):
        at_s, ms = line.monotonic_ns / S, line.meter_ms
        if case == "on for 30 days":
            ms += 30 * 86_400_000 if at_s < 40.0 else -139_000
        elif case == "one false digit":
            ms += 40_000_000 * (k == 1000)
        elif case == "a false digit of hundreds":
            ms += 900 * (k == 1000)
        elif case == "off for a while":
            ms -= 40_000 * (at_s > 70.0)
        else:
            ms = (ms + 2**32 - 175_000) % 2**32
        if not hidden_s[0] < at_s < hidden_s[1]:
            readings.append(replace(line, meter_ms=ms))
    description = MeterDescription("smartpower3-serial", "/dev/x", "smartpower3-100ms", nominal_s=0.1)
    device = measured(tmp_path, readings, description)
    arrived_s = np.array([line.monotonic_ns for line in readings]) / S
    assert np.abs(device.samples.ns / S - arrived_s).max() < 0.05
    dark_s = hidden_s[1] - hidden_s[0]
    assert device.whole_run.gap_s == pytest.approx(dark_s, abs=0.3)
    trained_j = 5.0 * (20.0 if case == "off for a while" else 30.0)
    assert device.rows[1].gross_j == pytest.approx(trained_j, rel=0.01)
    truth_j = 390.0 - (130.0 if case == "off for a while" else 2.0 * dark_s)
    assert device.whole_run.joules == pytest.approx(truth_j, abs=2.0 * device.whole_run.u_joules)


@pytest.mark.parametrize("key", ["pi-01", "CP2104-7"])
def test_each_meter_has_its_own_calibration_by_device_or_serial(tmp_path: Path, key: str) -> None:
    description = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", serial="CP2104-7")
    energy: dict[str, object] = {
        "gain": 2.0,
        "meters": {
            key: {"gain": 1.25, "offset_w": 0.0, "u_gain": 0.004, "u_offset_w": 0.001},
            "pi-02": {"u_gain": 0.5},
        },
    }
    device = measured(tmp_path, lines(1.0), description, energy)
    assert device.meter.calibrated
    assert device.whole_run.joules == pytest.approx(390.0 / 1.25, rel=0.005)
    assert device.whole_run.budget.gain_j == pytest.approx(0.004 * 312.0, rel=0.01)


def test_a_meter_that_is_exchanged_in_mid_run_leaves_the_other_its_own_calibration(tmp_path: Path) -> None:
    """Meter A until 74.6 s, then B, which shows a quarter more: 390 J and 150 J all the same."""

    def rows(serial: str, from_s: float, gain: float, to_s: float) -> list[tuple[RecordKind, bytes]]:
        meter = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", serial=serial)
        shown = [
            Reading(line.monotonic_ns, 5.0, gain * line.amps, gain * line.watts)
            for line in lines(1.0)
            if from_s <= line.monotonic_ns / S < to_s
        ]
        event = (RecordKind.EVENT, meter.to_event(round(from_s * S)).to_bytes())
        return [event, *((RecordKind.READING, line.to_bytes()) for line in shown)]

    plain = {"offset_w": 0.0, "u_offset_w": 0.001}
    meters = {"A": {"gain": 1.0, "u_gain": 0.004, **plain}, "B": {"gain": 1.25, "u_gain": 0.002, **plain}}
    experiment = Experiment.model_validate({"seed": 1, "energy": {"meters": meters}})
    with a_run(tmp_path / "run", "bench", ["pi-01"], experiment) as run:
        records = [(RecordKind.PHASE, phase_to_bytes(span)) for span in SPANS]
        records += [*rows("A", -3.0, 1.0, 74.6), *rows("B", 74.6, 1.25, 160.0)]
        run.records.insert("pi-01", "s", [(seq, *row) for seq, row in enumerate(records)])
        run.update(start_device_ns=0, end_device_ns=150 * S, state=RunState.FINISHED)
        found = account_run(run, [])
    assert found is not None
    (device,) = found.devices
    assert device.whole_run.joules == pytest.approx(390.0, rel=0.005)
    assert device.rows[1].gross_j == pytest.approx(150.0, rel=0.005)
    assert device.whole_run.budget.gain_j == pytest.approx(0.004 * 390.0, rel=0.01)  # the less sure of both
    assert device.samples.watts == pytest.approx(np.where(device.samples.watts > 3.0, 5.0, 2.0))
    assert device.reopened is not None


def test_a_meter_is_the_same_by_serial_number_and_calibration_and_unknown_without_a_number() -> None:
    def identity(serial: str, **calibration: object) -> str:
        description = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", serial=serial)
        found = section(meters={"pi-01": calibration} if calibration else {})
        return device_meter("pi-01", [description.to_event(0)], found).identity

    assert identity("CP2104-7") == identity("CP2104-7") != identity("CP2104-8")
    assert identity("CP2104-7") != identity("CP2104-7", gain=1.002, u_gain=0.001)
    assert identity("") == ""


def test_a_meters_serial_number_goes_before_its_boards_name_which_is_told(tmp_path: Path) -> None:
    description = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", serial="CP2104-7")
    of_board = {"gain": 1.25, "u_gain": 0.004, "date": "2025-03-01"}
    of_meter = {"gain": 1.5, "u_gain": 0.004, "date": ""}

    def meter(**meters: dict[str, object]) -> DeviceMeter:
        return device_meter("pi-01", [description.to_event(0)], section(meters=meters))

    own = meter(**{"pi-01": of_board, "CP2104-7": of_meter})
    assert (own.calibration.gain, own.calibrated_as, own.misfiled) == (1.5, "CP2104-7", False)
    assert own.calibrated_on is None
    assert own.undated
    boards = meter(**{"pi-01": of_board})
    assert (boards.calibration.gain, boards.calibrated_as, boards.misfiled) == (1.25, "pi-01", True)
    assert not boards.out_of_date(dt.date(2026, 3, 1))
    assert boards.out_of_date(dt.date(2026, 3, 2))
    assert not boards.undated
    without_serial = device_meter("pi-01", [], section(meters={"pi-01": of_board}))
    assert without_serial.calibrated
    assert not without_serial.misfiled
    assert not device_meter("pi-01", [], section(u_gain=0.004)).undated


def test_only_a_gain_that_nobody_gave_is_the_types(tmp_path: Path) -> None:
    known = TRAITS.load("smartpower2").gain
    assert known == pytest.approx(3.81687 / 3.81463, rel=1e-6)
    for energy, gain in (({}, known), ({"gain": None, "u_gain": 0.01}, known), ({"gain": 1.0}, 1.0)):
        assert device_meter("pi-01", [], section(**energy)).calibration.gain == gain
        assert section(**energy).calibration().gain == gain
    assert device_meter("pi-01", [], section()).calibration.gain == known


def test_a_calibration_that_is_no_number_is_named(tmp_path: Path) -> None:
    measured(tmp_path, lines(1.0), None)
    by_hand = {"energy": {"meters": {"pi-01": {"gain": "x", "u_gain": 0.1}}}}
    (tmp_path / "run" / "experiment.json").write_text(json.dumps(by_hand))
    with (
        RunFolder.open(tmp_path / "run") as folder,
        pytest.raises(RunError, match=r'experiment\.json: energy\.meters\.pi-01\.gain: .* got "x"$'),
    ):
        account_run(folder, ())


_PROBED: tuple[tuple[int, ClockOccasion], ...] = ((0, "before"), (75, "during"), (150, "after"))


def probed(device: int, offset_ns: int, bound_ms: float = 2.0) -> list[RoundRecord]:
    """Three bursts; the device's clock is ahead of the controller's by `offset_ns`."""
    return [
        ClockProbed(-1, device, when, "b", at_s * S, float(offset_ns), bound_ms * MS, 8, ())
        for at_s, when in _PROBED
    ]


def test_readings_of_another_host_are_moved_into_the_boards_clock(tmp_path: Path) -> None:
    # The reader's clock is an hour ahead of the controller's, the board's is the controller's.
    ahead = 3600 * S
    there = [Reading(line.monotonic_ns + ahead, line.volts, line.amps, line.watts) for line in lines(1.0)]
    description = MeterDescription(
        "smartpower2-telnet", "10.0.0.7:23", "smartpower2", remote_reader="gateway"
    )
    records = [*probed(0, 0), *probed(1, ahead)]
    device = measured(tmp_path, there, description, records=records, others=["gateway"])
    assert device.whole_run.gap_s == 0.0
    assert device.rows[1].gross_j == pytest.approx(150.0, rel=0.02)
    same = measured(tmp_path / "local", lines(1.0), None)
    assert np.array_equal(device.samples.ns, same.samples.ns)


def test_a_bad_clock_of_another_host_stands_in_the_budget(tmp_path: Path) -> None:
    description = MeterDescription(
        "smartpower2-telnet", "10.0.0.7:23", "smartpower2", remote_reader="controller"
    )
    # The idle power after the run is 0.5 W higher: a shift of the clock shifts joules across the border.
    readings = lines(1.0, idle_after_w=2.5)
    bad = measured(tmp_path / "bad", readings, description, records=probed(0, 0, 290.0))
    assert bad.whole_run.budget.edges_j > 0.0
    # Where phases touch, their borders are no surer than the clocks.
    good = measured(tmp_path / "good", readings, description, records=probed(0, 0, 1.0))
    assert bad.rows[1].u_level_j > 1.15 * good.rows[1].u_level_j


def test_readings_of_a_host_whose_clock_nobody_knows_are_laid_over_no_phase(tmp_path: Path) -> None:
    description = MeterDescription(
        "smartpower2-telnet", "10.0.0.7:23", "smartpower2", remote_reader="controller"
    )
    unknown = measured(tmp_path, lines(1.0), description)
    assert unknown.doubt == "clock refused: controller reads its meter, no clock probes"
    assert (unknown.whole_run.covered_s, len(unknown.samples)) == (0.0, 0)
    assert len(unknown.readings) == len(lines(1.0))


def test_idle_power_that_drifts_is_drawn_off_by_the_line_between_its_baselines(tmp_path: Path) -> None:
    device = measured(tmp_path, lines(1.0, idle_after_w=2.5), None)
    idle = device.account.idle
    assert isinstance(idle, IdleBaselines)
    assert idle.drifted
    assert (idle.before.watts, idle.after.watts) == pytest.approx((2.0 / 1.00059, 2.5 / 1.00059), rel=1e-5)
    # In the middle of the training half of the drift has happened: 5 W - 2.25 W for 30 s.
    assert device.rows[1].net_j == pytest.approx(2.75 * 30.0, rel=0.01)
    steady = measured(tmp_path / "steady", lines(1.0), None)
    assert isinstance(steady.account.idle, IdleBaselines)
    assert not steady.account.idle.drifted
    assert steady.rows[1].net_j == pytest.approx(90.0, rel=0.01)


def test_gross_idle_and_net_always_belong_together(tmp_path: Path) -> None:
    device = measured(tmp_path, lines(1.0), None)
    row, idle_w = device.rows[1], device.account.split.idle_w
    assert row.gross_j - row.net_j == pytest.approx(idle_w * row.covered_s, rel=1e-3)


def test_a_ledger_says_by_which_version_and_with_which_parameters_it_was_made(tmp_path: Path) -> None:
    description = MeterDescription("smartpower3-serial", "/dev/x", "smartpower3-100ms", nominal_s=0.1)
    measured(tmp_path, lines(0.1, idle_after_w=2.5), description)
    with RunFolder.open(tmp_path / "run") as run:
        export_run(run)
    said = pq.read_schema(tmp_path / "run" / "ledger.parquet").metadata[b"roambench"]
    about = json.loads(said)
    assert about["version"]
    assert re.fullmatch("[0-9a-f]{16}", about["code"])
    # How much of a rest is guard, how far idle power is looked for, and what a tail is.
    assert about["assumptions"]["rests"]["guard_share"] == 0.65
    assert about["assumptions"]["local_idle"]["reach_s"] == 80.0
    assert about["assumptions"]["rest_checks"]["tail_z"] == 4.0
    board = about["devices"]["pi-01"]
    assert (board["meter"]["name"], board["nominal_s"]) == ("smartpower3-100ms", 0.1)
    assert board["calibrated"] is False
    assert board["calibration"]["gain"] == 1.0
    assert board["without"] == ""
    assert board["clock"]["case"] == "local"
    assert board["clock"]["bound_s"] is None  # nobody probed it
    assert [round(board["baselines"][when]["watts"], 3) for when in ("before", "after")] == [2.0, 2.5]
    assert (board["split"]["method"], board["split"]["rest_s"]) == (Method.TOUCHING, 0.0)
    assert board["split"]["idle_w"] == pytest.approx(2.25, abs=0.3)


def test_the_assumptions_are_those_of_every_module_that_made_the_ledger() -> None:
    """Whatever accounting a device imports of `energy` and has a number for a constant."""
    code = (
        "import sys, roambench.energy.account, roambench.energy.readings.timeline\n"
        "import roambench.energy.clocks.clock_fit, roambench.energy.clocks.meter_clock\n"
        "import roambench.energy.readings.frozen\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    if name.startswith('roambench.energy.') and any(\n"
        "        one.isupper() and type(value) in (int, float) for one, value in vars(module).items()\n"
        "    ):\n"
        "        print(name.rpartition('.')[2])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    named = set(found.stdout.split())
    # Sizes of blocks, what rounding leaves, and traits of a meter (those of each board are in its `meter`)
    # assume nothing.
    assert named - {"ledger", "energy_value", "occupancy"} == analysis_of(None)["assumptions"].keys()


def test_a_ledger_has_the_bound_of_each_boards_clock(tmp_path: Path) -> None:
    """2 ms at each of three bursts, 8/3 ms at the ends of the line through them."""
    description = MeterDescription(
        "smartpower2-telnet", "10.0.0.7:23", "smartpower2", remote_reader="controller"
    )
    measured(tmp_path, lines(1.0), description)
    with RunFolder.open(tmp_path / "run") as run:
        unknown = analysis_of(account_run(run, []))["devices"]["pi-01"]
        known = analysis_of(account_run(run, probed(0, 0, 2.0)))["devices"]["pi-01"]
    assert known["clock"]["bound_s"] == pytest.approx(0.008 / 3.0, rel=1e-3)
    assert (known["clock"]["reader"], known["clock"]["verdict"]) == ("controller", "good")
    assert known["clock"]["u_s"] == pytest.approx(known["clock"]["bound_s"] / math.sqrt(3.0), rel=0.2)
    assert unknown["clock"]["verdict"] == "refused"
    assert unknown["without"] == "clock refused: controller reads its meter, no clock probes"
