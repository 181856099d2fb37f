"""A Nordic PPK2 by its library, and an emulated one that speaks its protocol over a pseudo-terminal."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time

import numpy as np
import pytest

from meter_items import items
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import ReadingFlag
from roambench.emulation import control
from roambench.emulation.electric.power import PiPower
from roambench.emulation.spec import Fault, FaultKind
from roambench.emulation.truth import energy_j
from roambench.extras.meters.emulated_ppk2 import Ppk2Dialog
from roambench.extras.meters.ppk2 import PPK2_TRAITS
from roambench.extras.meters.ppk2_samples import Factors, SampleBytes
from roambench.extras.meters.sample_clock import SampleClock
from roambench.meters.catalogue import open_meter, traits_at
from roambench.meters.protocol import Meter


@pytest.fixture
def library():
    return pytest.importorskip("ppk2_api.ppk2_api")


def said(*amps: float) -> bytes:
    """Samples that the emulated device sends, 10 ms of each current."""
    dialog = Ppk2Dialog()
    dialog.say(b"90 0 0")
    assert dialog.hear(b"\x06") == b""
    return b"".join(dialog.say(f"{100 + 10 * k} {value} 0".encode()) for k, value in enumerate(amps))


def test_samples_are_what_the_library_makes_of_them(library) -> None:
    device = library.PPK2_API(None)  # pyserial opens no port of this name
    device.current_vdd = 5100
    assert device._parse_metadata(Ppk2Dialog().hear(b"\x19").decode())
    data = said(0.3, 0.7)
    theirs = 1e-6 * np.array(device.get_samples(data)[0])
    ((lost, words),) = SampleBytes().feed(data)
    ours = Factors.of(device.modifiers).amps(words, 5.1)
    assert lost == 0
    assert ours == pytest.approx(theirs, rel=1e-12)
    assert ours.reshape(2, 1000).mean(axis=1) == pytest.approx([0.3, 0.7], abs=1e-6)


def test_lost_samples_show_by_the_counter_and_a_lost_byte_costs_few() -> None:
    data = said(0.3, 0.3)
    pieces = SampleBytes()
    rows = [*pieces.feed(data[: 4 * 100]), *pieces.feed(data[4 * 107 : 4 * 500])]
    assert [(lost, len(words)) for lost, words in rows] == [(0, 100), (7, 393)]
    pieces = SampleBytes()
    rows = [*pieces.feed(data[:401]), *pieces.feed(data[402:2000]), *pieces.feed(data[2000:])]
    assert pieces.misplaced <= 4
    assert sum(lost + len(words) for lost, words in rows) == 2000


def test_a_loss_of_whole_turns_of_the_counter_shows_by_its_time_and_a_slow_reader_loses_nothing() -> None:
    clock, found = SampleClock(100_000, 64), []
    count = 0
    for ms in range(5, 10_000, 5):
        count += 500
        if ms == 3000:
            count -= 960  # 15 turns, 9.6 ms
        late_ms = 400 if 6000 <= ms < 6400 else 0  # this process stood still, then read what had come
        if not late_ms:
            missed = clock.missed(count, (ms + 7) * 1_000_000)
            count += missed
            found += [missed] if missed else []
    assert found == [960]


def test_a_missing_library_is_one_sentence_with_the_command(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ppk2_api.ppk2_api", None)
    meter = open_meter("ppk2", "/dev/ttyACM0?volts=5", DeviceClock(), reopen_allowed=True)
    with pytest.raises(MeterError, match=r"ppk2-api is not installed .*-m pip install 'ppk2-api"):
        asyncio.run(meter.open())


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("/dev/x", "volts: expected those that power the board: a PPK2 does not measure them"),
        ("/dev/x?mode=source", "volts: expected those that the PPK2 is to give"),
        ("/dev/x?mode=source&volts=5.1", "volts: expected 0.8 to 5 in mode source, got 5.1"),
        ("/dev/x?volts=5&hz=60", "hz: expected one of 1, 2"),
        ("/dev/x?volts=5&mode=both", "mode: expected one of ampere, source"),
    ],
)
def test_a_port_that_says_too_little_or_too_much_is_refused(port: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        open_meter("ppk2", port, DeviceClock(), reopen_allowed=True)


def test_traits_are_those_of_what_the_port_says() -> None:
    fast = traits_at("ppk2", "/dev/x?volts=5&hz=1000&u_volts=0.01")
    assert fast.nominal_s == fast.window_s == 0.001
    assert fast.u_gain == pytest.approx(math.hypot(0.15 / 3**0.5, 0.01 / 5))


def opened(emulator, index: int, options: str) -> Meter:
    port = f"{emulator.port(index)}?{options}"
    return open_meter("ppk2", port, emulator.clock, reopen_allowed=True)


@pytest.mark.asyncio
@pytest.mark.parametrize("hz", [100, 1000])
async def test_joules_of_an_emulated_device_are_the_true_ones_and_lost_samples_are_a_gap(
    library, start_emulator, hz: int
) -> None:
    emulator = start_emulator({}, profile="ppk2", tolerance=0.0, time_scale=1.0)
    async with contextlib.aclosing(opened(emulator, 0, f"volts=5.09&hz={hz}")) as meter:
        readings, _ = await items(meter, readings=6 * hz // 10)
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.DROP, count=10))
        readings += (await items(meter, readings=16 * hz // 10))[0]
    steps_ms = np.diff([r.meter_ms for r in readings])
    assert steps_ms.sum() > 2190 + 90  # the gap is as long as the time that it took
    assert (steps_ms > 1000 / hz).sum() >= 1
    begin_ns, end_ns = readings[0].monotonic_ns, readings[-1].monotonic_ns
    assert emulator.end() == 0
    true_w = energy_j(emulator.truth(0), begin_ns, end_ns) / (1e-9 * (end_ns - begin_ns))
    assert np.mean([r.watts for r in readings]) == pytest.approx(true_w, rel=2e-3)
    assert not any(r.flags for r in readings)


@pytest.mark.asyncio
async def test_as_a_source_it_gives_the_boards_volts_and_more_than_an_ampere_is_told(
    library, start_emulator
) -> None:
    emulator = start_emulator(
        {"power": PiPower(idle_w=2.0)},
        {"power": PiPower(idle_w=6.0)},
        profile="ppk2",
        tolerance=0.0,
        time_scale=1.0,
    )
    for index, watts in enumerate((2.0, 6.0)):
        async with contextlib.aclosing(opened(emulator, index, "mode=source&volts=4.8")) as meter:
            readings, events = await items(meter, readings=20)
        alarms = [event.detail for event in events if event.kind == EventKind.METER_ALARM]
        assert [r.watts for r in readings] == pytest.approx([watts] * 20, rel=1e-3)
        assert [r.amps for r in readings] == pytest.approx([watts / 4.8] * 20, rel=1e-3)
        assert alarms == ([] if watts == 2.0 else ["range: more than 1 A"])
        flags = ReadingFlag(0) if watts == 2.0 else ReadingFlag.SATURATED
        assert {r.flags for r in readings} == {flags}


def test_an_output_that_is_off_gives_no_current() -> None:
    dialog = Ppk2Dialog()
    dialog.say(b"90 0 0")
    dialog.hear(b"\x11\x02" + b"\x0d\x03\x20" + b"\x0c\x00" + b"\x06")
    ((_, off),) = SampleBytes().feed(dialog.say(b"100 0.4 2.0"))
    dialog.hear(b"\x0c\x01")
    ((_, on),) = SampleBytes().feed(dialog.say(b"110 0.4 2.0"))
    assert (off & 0x3FFF).max() <= 24  # the offset of the converter
    assert (on & 0x3FFF).min() > 100


@pytest.mark.asyncio
async def test_a_reader_that_is_kept_from_running_loses_no_sample(library, start_emulator) -> None:
    """As a controller is under load, by other processes and by its own threads: twice what the port holds."""
    emulator = start_emulator({}, profile="ppk2", tolerance=0.0, time_scale=1.0)
    async with contextlib.aclosing(opened(emulator, 0, "volts=5.09")) as meter:
        readings, _ = await items(meter, readings=60)
        time.sleep(2.0)  # noqa: ASYNC251 - nothing else of this process runs
        readings += (await items(meter, readings=290))[0]
    assert np.diff([r.meter_ms for r in readings]).tolist() == [10] * 349


def test_traits_are_the_makers_typical_errors_where_boards_draw() -> None:
    assert PPK2_TRAITS.u_gain == pytest.approx(math.hypot(0.15, 0.05) / math.sqrt(3))
    assert PPK2_TRAITS.u_offset_w == pytest.approx(1e-3 * 5.0 / math.sqrt(3))
