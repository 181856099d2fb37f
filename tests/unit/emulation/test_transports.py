"""The real drivers on a real emulator process, over every transport of every firmware."""

import asyncio
import contextlib
import socket
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.emulation import control
from roambench.emulation.drivers import DRIVERS, reader
from roambench.emulation.network.telnet import UNSENT_LIMIT, TelnetPort
from roambench.emulation.profiles import PROFILES, Transport, profile
from roambench.emulation.spec import Fault, FaultKind
from roambench.emulation.truth import energy_j, read_truth
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter
from roambench.meters.sources.websocket import connect_websocket
from roambench.meters.traits import TRAITS, MeterDescription
from roambench.meters.websocket_switch import Smartpower2Switch, YtrikozSwitch
from samples import sampled

SECOND = 1_000_000_000
SERIAL, TELNET, WEBSOCKET, UDP = Transport.SERIAL, Transport.TELNET, Transport.WEBSOCKET, Transport.UDP


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def way(transport: Transport, folder: Path = Path()) -> dict[str, object]:
    """Device options for a meter that is read by `transport` only."""
    match transport:
        case Transport.TELNET:
            return {"link_path": "", "telnet_port": 0}
        case Transport.WEBSOCKET:
            return {"link_path": "", "websocket_port": 0}
        case Transport.UDP:
            return {"link_path": "", "udp_to": f"127.0.0.1:{free_udp_port()}"}
        case Transport.SYSFS:
            return {"link_path": "", "sysfs_dir": str(folder / "hwmon")}
    return {}


def meter_of(emulator, transport: Transport, device: str = "pi-00") -> Meter:
    """Our driver of that meter, where the emulator says that it is."""
    address = control.addresses(emulator.socket)[device][transport.value]
    driver, port = reader(emulator.spec.profile, transport, address, emulator.spec.interval_ms)
    return open_meter(driver, port, emulator.clock, reopen_allowed=True)


async def take(meter: Meter, count: int) -> tuple[list[Reading], list[AgentEvent]]:
    """The next `count` readings and the events among them."""
    readings: list[Reading] = []
    events: list[AgentEvent] = []
    async with asyncio.timeout(60):
        while len(readings) < count:
            item = await anext(meter)
            readings.append(item) if isinstance(item, Reading) else events.append(item)
    return readings, events


async def until(meter: Meter, kind: str) -> AgentEvent:
    async with asyncio.timeout(60):
        while True:
            item = await anext(meter)
            if isinstance(item, AgentEvent) and item.kind == kind:
                return item


WAYS = [
    (name, transport)
    for name, row in PROFILES.own.items()
    for transport in row.transports
    if transport in DRIVERS[row.traits]
]
#: Every driver once, with the newest of the firmwares that it reads.
SAMPLE = list({DRIVERS[PROFILES.own[name].traits][via]: (name, via) for name, via in WAYS}.values())


@pytest.mark.parametrize(("name", "transport"), sampled(SAMPLE, WAYS))
@pytest.mark.asyncio
async def test_every_driver_reads_its_firmware(start_emulator, tmp_path, name, transport):
    sysfs = transport is Transport.SYSFS
    # Of a kernel's sensor the driver's, or the chip's where that is slower.
    period_s = {"ina226": 0.141}.get(name, 0.1) if sysfs else profile(name).period_s
    # A line in 83 ms of the host at the fastest, whatever the firmware.
    emulator = start_emulator(
        way(transport, tmp_path), profile=name, tolerance=0.0, time_scale=min(12.0, 12.0 * period_s)
    )
    async with contextlib.aclosing(meter_of(emulator, transport)) as meter:
        readings, events = await take(meter, 8)
    # A Smart Power 3 cuts its figures off: 1.9 W read as 0.373 A and 1.898 W. An INA3221 has steps of 20 mW.
    assert [r.watts for r in readings] == pytest.approx([1.9] * 8, abs=0.011 if sysfs else 0.005)
    assert not any(r.flags & ReadingFlag.INCONSISTENT for r in readings)
    # Over all eight: a busy host is late with one line, and then in time with the next.
    steps_s = np.diff([r.monotonic_ns for r in readings]) / SECOND
    assert np.mean(steps_s) == pytest.approx(period_s, rel=0.5, abs=0.05)
    described = MeterDescription.from_event(
        next(event for event in events if event.kind == EventKind.METER_DESCRIBED)
    )
    assert described.driver == DRIVERS[profile(name).traits][transport]
    assert (described.nominal_s or TRAITS.load(described.traits).nominal_s) == pytest.approx(period_s)
    if profile(name).sensor == "pac1933":
        clock_s = np.diff([r.meter_ms for r in readings]) / 1000
        assert np.mean(clock_s) == pytest.approx(0.1, abs=0.02)


@pytest.mark.asyncio
async def test_the_websocket_cuts_the_boards_power_and_every_way_of_reading_shows_it(start_emulator):
    emulator = start_emulator({"telnet_port": 0, "websocket_port": 0}, tolerance=0.0)
    address = control.addresses(emulator.socket)["pi-00"][WEBSOCKET.value]
    switch = Smartpower2Switch("127.0.0.1", int(address.rpartition(":")[2]))
    async with contextlib.AsyncExitStack() as open_:
        serial, telnet = [
            await open_.enter_async_context(contextlib.aclosing(meter_of(emulator, via)))
            for via in (SERIAL, TELNET)
        ]
        await take(serial, 1)
        await take(telnet, 1)
        await switch.off()
        off_ns = emulator.clock.now_ns()
        await until(telnet, EventKind.METER_OFF)
        await until(serial, EventKind.METER_STALE)
        assert not (await switch.state()).on
        before_on_ns = emulator.clock.now_ns()
        await switch.on()
        on_ns = emulator.clock.now_ns()
        readings, _ = await take(serial, 3)
        assert readings[-1].watts == pytest.approx(1.9, abs=0.005)
    assert emulator.end() == 0
    truth = read_truth(emulator.truth(0))
    assert truth.watts_at(off_ns) == 0.0
    assert truth.watts_at(on_ns) == 1.9
    # Between the meter's first answer and the second request there was no power.
    assert energy_j(emulator.truth(0), off_ns, before_on_ns) == 0.0


@pytest.mark.asyncio
async def test_the_ytrikoz_websocket_switches_too(start_emulator):
    emulator = start_emulator({"websocket_port": 0}, profile="ytrikoz", tolerance=0.0)
    address = control.addresses(emulator.socket)["pi-00"][WEBSOCKET.value]
    switch = YtrikozSwitch("127.0.0.1", int(address.rpartition(":")[2]))
    assert (await switch.state()).on
    await switch.set_volts(5.2)
    await switch.off()
    off_ns = emulator.clock.now_ns()
    assert (await switch.state()).volts == 5.2
    assert emulator.end() == 0
    assert read_truth(emulator.truth(0)).watts_at(off_ns) == 0.0


@pytest.mark.asyncio
async def test_a_second_telnet_client_is_closed_at_once_and_the_first_stays(start_emulator):
    emulator = start_emulator(way(TELNET))
    host, _, port = control.addresses(emulator.socket)["pi-00"][TELNET.value].partition(":")
    async with contextlib.aclosing(meter_of(emulator, TELNET)) as meter:
        await take(meter, 1)
        second, writer = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(ConnectionResetError):
            assert await second.read() == b""
        writer.close()
        await take(meter, 2)


@pytest.mark.asyncio
async def test_somebody_else_takes_the_telnet_port_and_gives_it_back(start_emulator):
    emulator = start_emulator(way(TELNET))
    async with contextlib.aclosing(meter_of(emulator, TELNET)) as meter:
        await take(meter, 2)
        taken_ns = emulator.clock.now_ns()
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.SECOND_CLIENT, duration_s=8.0))
        await until(meter, EventKind.METER_LOST)
        readings, _ = await take(meter, 1)
    assert readings[0].monotonic_ns - taken_ns > 8 * SECOND


@pytest.mark.asyncio
async def test_an_unplugged_port_vanishes_and_comes_back(start_emulator):
    emulator = start_emulator({})
    link = Path(emulator.port(0))
    async with contextlib.aclosing(meter_of(emulator, SERIAL)) as meter:
        await take(meter, 1)
        before = link.readlink()
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.UNPLUG, duration_s=24.0))
        await until(meter, EventKind.METER_LOST)
        assert not link.is_symlink()
        await until(meter, EventKind.METER_OK)
        await take(meter, 2)
    assert link.is_symlink()
    assert before.name.isdigit()


@pytest.mark.asyncio
async def test_a_reset_without_autorun_ends_connections_and_leaves_the_board_dark(start_emulator):
    emulator = start_emulator({"telnet_port": 0, "autorun": False}, tolerance=0.0)
    async with contextlib.aclosing(meter_of(emulator, TELNET)) as meter:
        await take(meter, 1)
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.RESET))
        await until(meter, EventKind.METER_LOST)
        await until(meter, EventKind.METER_OFF)
        dark_ns = emulator.clock.now_ns()
    assert emulator.end() == 0
    assert read_truth(emulator.truth(0)).watts_at(dark_ns) == 0.0


@pytest.mark.asyncio
async def test_a_reset_ends_a_browsers_connection_and_its_driver_comes_back(start_emulator):
    emulator = start_emulator(way(WEBSOCKET))
    async with contextlib.aclosing(meter_of(emulator, WEBSOCKET)) as meter:
        await take(meter, 1)
        reset_ns = emulator.clock.now_ns()
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.RESET))
        await until(meter, EventKind.METER_LOST)
        readings, _ = await take(meter, 1)
    assert readings[0].monotonic_ns - reset_ns > 4 * SECOND


@pytest.mark.asyncio
async def test_an_emulator_with_readers_on_every_port_ends_in_order(start_emulator):
    emulator = start_emulator({"telnet_port": 0, "websocket_port": 0})
    async with contextlib.AsyncExitStack() as open_:
        for via in (SERIAL, TELNET, WEBSOCKET):
            meter = await open_.enter_async_context(contextlib.aclosing(meter_of(emulator, via)))
            await take(meter, 1)
        assert await asyncio.to_thread(emulator.end) == 0
    assert emulator.truth(0).read_text().endswith(",nan,\n")
    assert not Path(emulator.port(0)).is_symlink()


@pytest.mark.asyncio
async def test_a_sixth_browser_is_refused_and_five_get_readings(start_emulator):
    emulator = start_emulator(way(WEBSOCKET))
    uri = control.addresses(emulator.socket)["pi-00"][WEBSOCKET.value]
    lines = [await connect_websocket(uri) for _ in range(5)]
    with pytest.raises(OSError, match="503"):
        await connect_websocket(uri)
    for line in lines:
        await line.send("p0")
    for line in lines:
        async with asyncio.timeout(60):
            while not (await line.recv()).startswith("d"):
                pass
    for line in lines:
        await line.close()


@pytest.mark.asyncio
async def test_what_a_reader_does_not_fetch_is_lost_and_not_kept():
    port = TelnetPort(lambda: 0, lambda: True)
    await port.open(0)
    _, writer = await asyncio.open_connection("127.0.0.1", port.port)
    while port.client is None:
        await asyncio.sleep(0)
    for _ in range(400):
        port.write(b"0" * 65_536)
    assert port.client.get_write_buffer_size() <= UNSENT_LIMIT + 65_536
    assert port.lost_bytes > 0
    port.close()
    writer.close()


@pytest.mark.asyncio
async def test_a_fault_needs_something_that_it_can_happen_to(start_emulator):
    emulator = start_emulator(way(TELNET))
    with pytest.raises(OSError, match="pi-00 has no serial port and no folder to unplug"):
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.UNPLUG))


@pytest.mark.asyncio
async def test_a_board_whose_output_is_off_draws_nothing_and_its_meter_is_silent(start_emulator):
    emulator = start_emulator({})
    async with contextlib.aclosing(meter_of(emulator, SERIAL)) as meter:
        await take(meter, 1)
        control.switch_output(emulator.socket, "pi-00", on=False)
        off_ns = emulator.clock.now_ns()
        await until(meter, EventKind.METER_STALE)
        on_ns = emulator.clock.now_ns()
        control.switch_output(emulator.socket, "pi-00", on=True)
        readings, _ = await take(meter, 2)
    assert readings[-1].watts > 1.0
    await asyncio.to_thread(emulator.end)
    assert energy_j(emulator.truth(0), off_ns, on_ns) == 0.0


@pytest.mark.asyncio
async def test_an_output_is_on_or_off(start_emulator):
    emulator = start_emulator({})
    with pytest.raises(OSError, match="on: expected true or false, got 1"):
        control.switch_output(emulator.socket, "pi-00", on=1)
