"""Every emulated firmware in virtual time: its pace, its clock, its sensor, and what can go wrong with it."""

import json

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.records import ReadingFlag
from roambench.emulation.drivers import driver_of
from roambench.emulation.electric.pac1933 import Pac1933
from roambench.emulation.electric.power import Activity
from roambench.emulation.electric.sensor import SUPPLY_V
from roambench.emulation.electric.signal import PowerSignal
from roambench.emulation.profiles import PROFILES, Sensor, Transport, profile
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec, Fault, FaultKind
from roambench.emulation.virtual import VirtualRun, emulate

SECOND = 1_000_000_000
STEPS = [(2.0 * i, Activity(busy_cores=0.77 * (i % 5))) for i in range(60)]


def joules(run: VirtualRun) -> tuple[float, float]:
    """(trapezoid of the readings, truth) over the readings' span, moved by the meter's own delay."""
    readings = run.readings()
    seconds = np.array([r.monotonic_ns for r in readings]) / SECOND
    watts = np.array([r.watts for r in readings])
    delay_ns = (
        264_000_000 if profile(run.profile).sensor is Sensor.INA231 else round(run.period_s / 2 * SECOND)
    )
    start_ns, end_ns = readings[0].monotonic_ns - delay_ns, readings[-1].monotonic_ns - delay_ns
    return float(np.trapezoid(watts, seconds)), run.truth.energy_j(start_ns, end_ns)


WAYS = [
    (name, transport)
    for name, row in PROFILES.own.items()
    for transport in row.transports
    if driver_of(row, transport) is not None
]


@pytest.mark.parametrize(("name", "transport"), WAYS, ids=[f"{name}-{via}" for name, via in WAYS])
def test_the_energy_of_two_minutes_comes_out_true_by_every_way(name, transport):
    run = emulate(STEPS, 120.0, seed=4, profile=name, transport=transport, tolerance=0.0, ppm=0.0)
    measured, true = joules(run)
    # 1 Hz over steps of 2 s leaves sampling noise; ytrikoz text has a step of 10 mW; cuts cost 0.15 %.
    assert measured / true == pytest.approx(1.0, abs=0.02 if run.period_s == 1.0 else 0.005)
    assert len(run.readings()) == pytest.approx(120.0 / run.period_s, abs=4)
    assert not any(r.flags & ReadingFlag.INCONSISTENT and r.watts == 0 for r in run.readings())


def test_short_names_stand_for_full_ones_and_a_wrong_one_lists_all():
    assert profile("sp2-1.6").name == "smartpower2-1.6"
    assert profile("sp3-2.2").name == "smartpower3-2.2"
    assert profile("ytrikoz").name == "smartpower2-ytrikoz"
    assert profile("dres100").name == "smartpower2-100ms"
    with pytest.raises(
        ConfigError, match=r"unknown meter profile 'sp2-9': expected one of ina219, .*smartpower2-1\.1, "
    ):
        profile("sp2-9")


def test_serial_readings_came_with_firmware_1_4():
    serial = {name for name, row in PROFILES.own.items() if Transport.SERIAL in row.lines}
    wired = {name for name, row in PROFILES.own.items() if Transport.SYSFS not in row.lines}
    assert wired - serial == {"smartpower2-1.1", "smartpower2-1.3"}


def test_values_of_the_100_ms_firmware_repeat_because_the_chip_is_slower():
    run = emulate(
        [(0.1 * i, Activity(busy_cores=(i * 7919 % 31) / 10)) for i in range(600)], 60.0, 4, profile="dres100"
    )
    watts = [r.watts for r in run.readings()]
    runs = 1 + int(np.count_nonzero(np.diff(watts)))
    # One value every 263.8 ms, printed every 100 ms: 2.6 times each.
    assert len(watts) / runs == pytest.approx(2.64, abs=0.15)


def test_at_10_ms_the_stamps_of_a_smartpower3_are_9_to_45_ms_apart_and_the_pace_holds():
    run = emulate([], 120.0, 4, profile="sp3-2.2", interval_ms=10, ppm=0.0)
    steps_ms = np.diff([r.meter_ms for r in run.readings()])
    assert steps_ms.min() == 9
    assert 40 <= steps_ms.max() <= 46
    assert steps_ms.mean() == pytest.approx(10.0, abs=0.01)


@pytest.mark.parametrize("interval_ms", [5, 10, 50, 100, 500, 1000])
def test_a_smartpower3_logs_at_the_interval_of_its_menu_and_at_no_other(interval_ms):
    run = emulate([], 30.0, 4, profile="sp3-2.2", interval_ms=interval_ms, ppm=0.0)
    assert len(run.readings()) == pytest.approx(30_000 / interval_ms, abs=1 if interval_ms >= 50 else 8)
    with pytest.raises(ConfigError, match="interval 20 ms: expected one of 5, 10, 50, 100, 500, 1000"):
        emulate([], 1.0, 4, profile="sp3-2.2", interval_ms=20)
    with pytest.raises(ConfigError, match="its period is fixed at 1 s"):
        emulate([], 1.0, 4, profile="sp2-1.6", interval_ms=100)


def test_a_smartpower3s_clock_drifts_and_wraps():
    run = emulate([], 100.0, 4, profile="sp3-2.2", ppm=1000.0, uptime_s=2**32 / 1000 - 50.0)
    readings = run.readings()
    stamps = [r.meter_ms for r in readings]
    assert max(stamps) > 2**32 - 200
    assert min(stamps) < 200
    meter_s = ((stamps[-1] - stamps[0]) % 2**32) / 1000
    # A slow crystal counts fewer milliseconds than pass.
    host_s = (readings[-1].monotonic_ns - readings[0].monotonic_ns) / SECOND
    assert host_s / meter_s == pytest.approx(1.001, abs=1e-4)


def test_a_pac1933_means_its_newest_entries_and_cuts_the_figures_off():
    sensor = Pac1933(interval_ms=100, sample_ns=1_000_000)
    signal = PowerSignal(-SECOND, 1.9)
    # 1.9 W at 5.0905 V: 0.37324 A -> 373 mA; 5.090 V x 373 mA = 1.898 W
    read = sensor.read(signal, 0, SUPPLY_V)
    assert (read.volts, read.amps, read.watts) == pytest.approx((5.090, 0.373, 1.898), abs=1e-9)
    # 2 W: 5.09014 V -> 10424 steps of 0.488 mV; 0.39292 A -> 392.9 mA; 5.08984 V x 392 mA = 1995.2 mW
    cut = sensor.read(PowerSignal(-SECOND, 2.0), 0, SUPPLY_V)
    assert (cut.volts, cut.amps, cut.watts) == pytest.approx((5.089, 0.392, 1.995), abs=1e-9)
    # 50 entries 1 ms apart, each the mean of 7.8125 ms: a step 25 ms ago has passed through 21.6 of them.
    signal.change(-25_000_000, 5.1)
    mixed = sensor.read(signal, 0, SUPPLY_V)
    full = sensor.read(signal, SECOND, SUPPLY_V)
    entries = [min(1.0, max(0.0, (25.0 - k) / 7.8125)) for k in range(50)]
    share = sum(entries) / 50
    assert mixed.amps == pytest.approx(0.37324 + share * (full.amps - 0.37324), abs=0.0015)
    assert mixed.volts == full.volts  # volts are the newest entry's
    assert full.watts == pytest.approx(5.1, rel=0.003)


def test_smartpower3s_off_the_shelf_differ_within_their_parts_limits():
    signal = PowerSignal(-SECOND, 3.4)
    errors = [
        Pac1933.drawn(3, device, 100).read(signal, 0, SUPPLY_V).watts / 3.4 - 1.0 for device in range(300)
    ]
    # Uniform draws: shunt 1 %, 0.5 % and 0.5 %, 1 mA of 0.67 A, each over sqrt(3), in quadrature; 0.1 % cut.
    assert np.std(errors) == pytest.approx(0.0071, rel=0.15)
    assert np.mean(errors) == pytest.approx(-0.001, abs=0.0015)


def test_an_output_that_is_off_takes_the_boards_power():
    off = Fault(FaultKind.OFF, at_s=20.0, duration_s=10.0)
    run = emulate([(0.0, Activity(busy_cores=1.0))], 60.0, 4, faults=[off])
    assert run.truth.energy_j(0, 60 * SECOND) == pytest.approx(2.7 * 50, abs=1e-9)
    telnet = emulate([], 60.0, 4, faults=[off], transport=Transport.TELNET).readings()
    assert sum(bool(r.flags & ReadingFlag.OFF) for r in telnet) == 10


def test_a_reset_takes_the_boards_power_until_the_meter_is_up_and_for_ever_without_autorun():
    reset = Fault(FaultKind.RESET, at_s=20.0)
    run = emulate([], 60.0, 4, faults=[reset])
    assert run.truth.energy_j(0, 60 * SECOND) == pytest.approx(1.9 * (60 - 4.5), abs=1e-9)
    dark = emulate([], 60.0, 4, faults=[reset], autorun=False)
    assert dark.truth.energy_j(0, 60 * SECOND) == pytest.approx(1.9 * 20, abs=1e-9)
    assert max(r.monotonic_ns for r in dark.readings()) < 20 * SECOND
    booted = emulate([], 60.0, 4, faults=[reset], board_boot_s=20.0)
    # 20 s idle, 4.5 s dark, 20 s of one busy core, 15.5 s idle
    assert booted.truth.energy_j(0, 60 * SECOND) == pytest.approx(1.9 * 35.5 + 2.7 * 20, abs=1e-9)


def test_a_reset_smartpower3_counts_its_milliseconds_anew():
    run = emulate([], 60.0, 4, profile="sp3-2.2", faults=[Fault(FaultKind.RESET, at_s=30.0)], uptime_s=5000.0)
    stamps = [r.meter_ms for r in run.readings()]
    assert max(stamps) == pytest.approx(5_030_000, abs=200)
    assert stamps[-1] == pytest.approx(30_000, abs=200)


def test_what_is_said_into_an_unplugged_cable_is_lost():
    run = emulate([], 60.0, 4, ppm=0.0, faults=[Fault(FaultKind.UNPLUG, at_s=10.0, duration_s=5.0)])
    assert len(run.readings()) == 55


@pytest.mark.parametrize("name", ["sp2-1.6", "dres100", "ytrikoz", "sp3-1.6", "sp3-2.2"])
@pytest.mark.parametrize("kind", [FaultKind.GARBAGE, FaultKind.NOISE, FaultKind.TRUNCATE, FaultKind.DROP])
def test_spoilt_lines_are_never_read_as_another_power(name, kind):
    run = emulate([], 60.0, 4, profile=name, tolerance=0.0, faults=[Fault(kind, at_s=10.0, count=5)])
    clean = emulate([], 60.0, 4, profile=name, tolerance=0.0)
    assert {r.watts for r in run.readings()} <= {r.watts for r in clean.readings()}
    assert len(clean.readings()) - 11 <= len(run.readings()) <= len(clean.readings())


def test_a_spec_asks_only_for_what_the_firmware_has():
    spec = EmulatorSpec(
        (
            EmulatedDevice("a", "/a", udp_to="here:0"),
            EmulatedDevice("b"),
            EmulatedDevice(
                "c", telnet_port=5, faults=(Fault(FaultKind.UNPLUG), Fault(FaultKind.SECOND_CLIENT))
            ),
            EmulatedDevice("d", telnet_port=5),
        ),
        "/s",
        "/t",
        profile="sp2-1.1",
    )
    with pytest.raises(ConfigError) as caught:
        EmulatorSpec.from_json(spec.to_json(), "spec")
    assert list(caught.value.problems) == [
        "spec: devices: telnet_port '5' is used twice",
        "spec: devices: 'a': smartpower2-1.1 has no serial readings",
        "spec: devices: 'a': smartpower2-1.1 has no udp readings",
        "spec: devices: 'a': udp_to: expected host:port, got 'here:0'",
        "spec: devices: 'b': nothing to read it by: expected a link_path, a port, udp_to or sysfs_dir",
        "spec: devices: 'c': faults: unplug needs a serial port or a folder",
    ]
    with pytest.raises(ConfigError, match="spec: unknown meter profile 'sp9'"):
        EmulatorSpec.from_json(json.dumps({**json.loads(spec.to_json()), "profile": "sp9"}), "spec")
