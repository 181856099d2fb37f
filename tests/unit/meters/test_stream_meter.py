"""Meters over real pseudo-terminals, TCP, UDP and WebSocket: what is heard, lost, found and counted."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import termios
import tty
from dataclasses import replace
from pathlib import Path

import pytest
import websockets.asyncio.server
from websockets.exceptions import ConnectionClosed

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter, MeterItem
from roambench.meters.sources.udp import UdpListener
from roambench.meters.stream_meter import StreamMeter
from roambench.meters.traits import MeterDescription

LINE = b"5.161,0.662,3.416,0.000\r\n"
JSON = b'{"v":5.161,"i":0.662,"p":3.416,"wh":0.001234}\r'


class Pty:
    """A serial port in our hand: `link` is what the meter opens, `say` is what it hears."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self._ours, self.theirs = os.openpty()
        tty.setraw(self.theirs)
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(self.theirs))

    def say(self, data: bytes) -> None:
        os.write(self._ours, data)

    def unplug(self) -> None:
        self.link.unlink(missing_ok=True)
        os.close(self._ours)
        os.close(self.theirs)


async def items(meter: Meter, until: str | int) -> list[MeterItem]:
    """Items up to and including the next event of that kind, or so many readings."""
    found: list[MeterItem] = []
    async with asyncio.timeout(20):
        while True:
            found.append(await anext(meter))
            last = found[-1]
            if isinstance(last, AgentEvent) and last.kind == until:
                return found
            if isinstance(until, int) and sum(isinstance(item, Reading) for item in found) == until:
                return found


def kinds(found: list[MeterItem]) -> list[str]:
    return [item.kind if isinstance(item, AgentEvent) else f"{item.watts} W" for item in found]


def meter_at(driver: str, port: str, time_scale: float = 1.0) -> StreamMeter:
    clock = DeviceClock(0, time_scale)
    meter = open_meter(driver, port, clock, reopen_allowed=True)
    assert isinstance(meter, StreamMeter)
    return meter


@pytest.mark.asyncio
async def test_a_port_that_is_pulled_out_and_put_in_again_is_opened_again(tmp_path):
    pty = Pty(tmp_path / "port")
    async with contextlib.aclosing(meter_at("smartpower2", str(pty.link))) as meter:
        await meter.open()
        pty.say(LINE + LINE[:11])  # pulled out amid a line
        first = await items(meter, 1)
        pty.unplug()
        lost = await items(meter, EventKind.METER_LOST)
        pty = Pty(tmp_path / "port")
        again = await items(meter, EventKind.METER_DESCRIBED)
        pty.say(LINE[:7])
        pty.say(LINE[7:] + LINE)
        back = await items(meter, 1)
        # The half line of before and the whole one of after are one line without meaning.
        assert (meter.counts.accepted, meter.counts.partial) == (2, 1)
        pty.unplug()
    assert kinds(first) == [EventKind.METER_DESCRIBED, EventKind.METER_OK, "3.416 W"]
    assert kinds(lost) == [EventKind.METER_LOST]
    assert kinds(again) == [EventKind.METER_DESCRIBED]
    assert kinds(back) == [EventKind.METER_LINE_COUNTS, EventKind.METER_OK, "3.416 W"]
    assert meter.state == "closed"


@pytest.mark.asyncio
async def test_boot_noise_half_lines_and_garbage_are_counted_by_kind_and_told_once(tmp_path):
    pty = Pty(tmp_path / "port")
    async with contextlib.aclosing(meter_at("smartpower2", f"{pty.link}?serial=SP2-12")) as meter:
        await meter.open()
        pty.say(b"\xfe\x00\x9c\x06\n[SETUP] BOOT WAIT 4...\n\r" + LINE[9:] + b"x" * 200 + b"\n")
        pty.say(b"9.999,0.662,3.416,0.000\r\nSmartPower2 v1.60 (Serial Interface)\r\n" + LINE)
        found = await items(meter, 1)
        counts = meter.counts
        assert (counts.accepted, counts.garbage, counts.noise, counts.partial) == (1, 1, 2, 1)
        assert (counts.too_long, counts.implausible, counts.boots) == (1, 1, 1)
        pty.unplug()
    assert replace(MeterDescription.from_event(found[0]), unit="") == MeterDescription(
        driver="smartpower2", port=f"{pty.link}?serial=SP2-12", traits="smartpower2", serial="SP2-12"
    )
    assert kinds(found).count(EventKind.METER_LINE_COUNTS) == 1
    assert EventKind.METER_RESTARTED in kinds(found)


@pytest.mark.asyncio
async def test_an_analysis_is_told_again_when_the_meters_clock_has_told_its_period(tmp_path):
    chunks = (Path(__file__).parents[3] / "firmware_notes/transcripts/smartpower3-2.2-udp.txt").read_text()
    lines = [row.split("\t")[1][:79].encode() + b"\r\n" for row in chunks.splitlines() if "\t" in row]
    pty = Pty(tmp_path / "port")
    async with contextlib.aclosing(meter_at("smartpower3", str(pty.link))) as meter:
        await meter.open()
        pty.say(b"".join(lines[:30]))
        pty.say(b"".join(lines[30:60]))
        found = await items(meter, 60)
        pty.unplug()
    told = [
        MeterDescription.from_event(item)
        for item in found
        if isinstance(item, AgentEvent) and item.kind == EventKind.METER_DESCRIBED
    ]
    assert [description.nominal_s for description in told] == [0.0, pytest.approx(0.0133, abs=0.0006)]
    assert {description.traits for description in told} == {"smartpower3"}
    # Four lines of an output that is off, told as a state.
    assert kinds(found).count(EventKind.METER_OFF) == 1
    assert kinds(found).count(EventKind.METER_OK) == 2


def test_dtr_and_rts_are_only_ever_raised_together_and_never_lowered(tmp_path):
    """The kernel raises both when the port opens; a driver that lowers one of them resets the meter."""
    code = """
import asyncio, contextlib, sys, termios
from roambench.contract.device_time import DeviceClock
from roambench.meters.catalogue import open_meter
calls = []
sys.addaudithook(lambda name, args: calls.append(args[1]) if name == "fcntl.ioctl" else None)
async def look():
    for driver in ("smartpower2", "smartpower2-ytrikoz", "smartpower3"):
        meter = open_meter(driver, sys.argv[1], DeviceClock(), reopen_allowed=True)
        async with contextlib.aclosing(meter):
            await meter.open()
            await asyncio.sleep(0.05)
asyncio.run(look())
forbidden = {termios.TIOCMBIC, termios.TIOCMSET}
assert termios.TIOCMBIS in calls, calls  # the hook does see what pyserial does
assert not forbidden & set(calls), calls
"""
    pty = Pty(tmp_path / "port")
    result = subprocess.run([sys.executable, "-c", code, str(pty.link)], capture_output=True, text=True)
    pty.unplug()
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("driver", ["smartpower2", "smartpower2-100ms", "smartpower2-ytrikoz", "smartpower3"])
@pytest.mark.asyncio
async def test_every_serial_driver_opens_a_real_port_again_and_leaves_its_lines_up(tmp_path, driver):
    """As `systemctl restart` does it: closed in good order, opened by the next process of the same boot."""
    pty = Pty(tmp_path / "port")
    settings = termios.tcgetattr(pty.theirs)
    settings[2] |= termios.HUPCL
    termios.tcsetattr(pty.theirs, termios.TCSANOW, settings)
    latch = tmp_path / "latch.json"
    for _ in range(3):
        async with contextlib.aclosing(
            open_meter(driver, str(pty.link), DeviceClock(), latch=latch)
        ) as meter:
            await meter.open()
            assert '"survived": false' in latch.read_text()
        assert '"survived": true' in latch.read_text()
    assert not termios.tcgetattr(pty.theirs)[2] & termios.HUPCL
    pty.unplug()


@pytest.mark.asyncio
async def test_a_port_that_is_not_there_yet_is_opened_when_it_is(tmp_path):
    latch = tmp_path / "latch.json"
    meter = open_meter("smartpower2", str(tmp_path / "port"), DeviceClock(), latch=latch)
    with pytest.raises(MeterError, match="cannot be opened"):
        await meter.open()
    assert '"survived": true' in latch.read_text()


@pytest.mark.asyncio
async def test_a_meter_that_boots_because_its_port_was_opened_is_not_opened_again(tmp_path):
    pty = Pty(tmp_path / "port")
    latch = tmp_path / "latch.json"
    port = str(pty.link)
    async with contextlib.aclosing(open_meter("smartpower2", port, DeviceClock(), latch=latch)) as meter:
        await meter.open()
        pty.say(b"\r\nSmartPower2 v1.60 (Serial Interface)\r\n" + LINE)
        await items(meter, 1)
    with pytest.raises(MeterError, match="the meter restarted"):
        await open_meter("smartpower2", port, DeviceClock(), latch=latch).open()
    tried = open_meter("smartpower2", port, DeviceClock(), latch=latch, reopen_allowed=True)
    async with contextlib.aclosing(tried) as meter:
        await meter.open()
    pty.unplug()


class Telnet:
    """A meter's telnet server for one client, as the firmware does it."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._client: asyncio.StreamWriter | None = None
        self.port = 0
        self.refused = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._client is not None and not self._client.is_closing():
            self.refused += 1
            writer.close()
            return
        self._client = writer

    async def say(self, data: bytes) -> None:
        async with asyncio.timeout(20):
            while self._client is None or self._client.is_closing():
                await asyncio.sleep(0.01)
        self._client.write(data)

    async def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()


@pytest.mark.asyncio
async def test_telnet_says_off_with_zeros_and_is_dialled_again_after_a_hang_up():
    telnet = Telnet()
    await telnet.start()
    async with contextlib.aclosing(meter_at("smartpower2-telnet", f"127.0.0.1:{telnet.port}")) as meter:
        await meter.open()
        await telnet.say(LINE[:5])
        await telnet.say(LINE[5:] + b"0.000,0.000,0.000,0.000\r\n")
        found = await items(meter, 2)
        assert kinds(found) == [
            EventKind.METER_DESCRIBED,
            EventKind.METER_OK,
            "3.416 W",
            EventKind.METER_OFF,
            "0.0 W",
        ]
        assert meter.state == "off"
        await telnet.stop()
        lost = await items(meter, EventKind.METER_LOST)
        assert lost[-1].detail == "closed by the meter"
        await telnet.start()
        await telnet.say(LINE)
        assert kinds(await items(meter, 1)) == [EventKind.METER_DESCRIBED, EventKind.METER_OK, "3.416 W"]
    await telnet.stop()


@pytest.mark.asyncio
async def test_a_meter_that_serves_another_client_says_why_it_hung_up():
    telnet = Telnet()
    await telnet.start()
    port = f"127.0.0.1:{telnet.port}"
    first, second = meter_at("smartpower2-telnet", port), meter_at("smartpower2-telnet", port)
    async with contextlib.aclosing(first), contextlib.aclosing(second):
        await first.open()
        await telnet.say(LINE)
        await items(first, 1)
        lost = (await items(second, EventKind.METER_LOST))[-1]
        assert lost.detail == "closed by the meter before a word; it may be serving another client"
        assert telnet.refused == 1
    await telnet.stop()


@pytest.mark.asyncio
async def test_a_silent_connection_is_stale_and_then_given_up_and_dialled_anew():
    telnet = Telnet()
    await telnet.start()
    meter = meter_at("smartpower2-ytrikoz-telnet", f"127.0.0.1:{telnet.port}", time_scale=8.0)
    async with contextlib.aclosing(meter):
        await meter.open()
        await telnet.say(JSON)
        await items(meter, 1)
        found = await items(meter, EventKind.METER_LOST)  # 3 s, then 10 s of device time: 1.3 s here
        assert kinds(found)[-2:] == [EventKind.METER_STALE, EventKind.METER_LOST]
        silent = re.match(r"no line for ([\d.]+) s", found[-1].detail)
        assert silent is not None
        assert float(silent[1]) >= 10
        await items(meter, EventKind.METER_DESCRIBED)
    await telnet.stop()


@pytest.mark.asyncio
async def test_nobody_there_and_no_such_host_are_errors_that_name_the_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    for driver in ("smartpower2-telnet", "smartpower2-websocket", "smartpower3-tcp"):
        with pytest.raises(MeterError, match=f"meter 127.0.0.1:{free}: cannot be opened .*refused"):
            await meter_at(driver, f"127.0.0.1:{free}").open()
    with pytest.raises(MeterError, match=r"meter no-such-host\.invalid: cannot be opened"):
        await meter_at("smartpower2-telnet", "no-such-host.invalid").open()


@pytest.mark.asyncio
async def test_datagrams_of_one_sender_are_lines_and_strangers_are_not_heard():
    rows = (Path(__file__).parents[3] / "firmware_notes/transcripts/smartpower3-2.2-udp.txt").read_text()
    lines = [row.split("\t")[1][:79].encode() for row in rows.splitlines() if "\t" in row]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    meter = meter_at("smartpower3-udp", f"127.0.0.1:{port}?from=127.0.0.2")
    async with contextlib.aclosing(meter):
        await meter.open()
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        ):
            ours.bind(("127.0.0.2", 0))
            stranger.sendto(lines[0], ("127.0.0.1", port))
            ours.sendto(lines[1], ("127.0.0.1", port))  # 79 bytes: even the \r is missing
            ours.sendto(lines[2] + b"\r", ("127.0.0.1", port))
            ours.sendto(lines[2] + b"\r\n", ("127.0.0.1", port))  # told twice by the network
            ours.sendto(lines[3][:40], ("127.0.0.1", port))
            ours.sendto(lines[4] + b"\r\n", ("127.0.0.1", port))
            found = [item for item in await items(meter, 3) if isinstance(item, Reading)]
        counts = meter.counts
        assert (counts.accepted, counts.repeated, counts.partial) == (3, 1, 1)
        assert [r.meter_ms - found[0].meter_ms for r in found] == [0, 9, 30]
        assert meter._source.strangers == 1
        with pytest.raises(MeterError, match=r"cannot be opened .*in use"):
            await meter_at("smartpower3-udp", f"127.0.0.1:{port}").open()


@pytest.mark.parametrize(("forget_s", "expected"), [(30.0, [b"1", b"3"]), (0.0, [b"1", b"2", b"3"])])
@pytest.mark.asyncio
async def test_the_first_sender_is_heard_until_it_has_been_silent_for_long(forget_s, expected):
    listener = UdpListener("127.0.0.1", 0, forget_s=forget_s)
    heard: list[bytes] = []
    await listener.open(heard.append, print)
    assert listener._transport is not None
    where = listener._transport.get_extra_info("sockname")
    with contextlib.ExitStack() as open_:
        senders = [open_.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(3)]
        for sender, address in zip(senders, ("127.0.0.2", "127.0.0.3", "127.0.0.2"), strict=True):
            sender.bind((address, 0))
        for i, sender in enumerate(senders, 1):
            sender.sendto(b"%d" % i, where)
        async with asyncio.timeout(20):
            while len(heard) + listener.strangers < 3:
                await asyncio.sleep(0.01)
    await listener.close()
    assert heard == expected
    assert listener.strangers == 3 - len(expected)


@pytest.mark.asyncio
async def test_a_websocket_meter_is_greeted_heard_off_on_and_dialled_again():
    heard: list[str] = []
    clients: list[websockets.asyncio.server.ServerConnection] = []

    async def serve(line: websockets.asyncio.server.ServerConnection) -> None:
        clients.append(line)
        with contextlib.suppress(ConnectionClosed):
            async for message in line:
                heard.append(str(message))
                for text in ("o0", "w5.10", "m0", "f1.60", "d3.416,5.161,0.662,0.000"):
                    await line.send(text)

    async with websockets.asyncio.server.serve(serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        meter = meter_at("smartpower2-websocket", f"127.0.0.1:{port}", time_scale=8.0)
        async with contextlib.aclosing(meter):
            assert kinds(await items(meter, 1)) == [EventKind.METER_DESCRIBED, EventKind.METER_OK, "3.416 W"]
            await clients[0].send("o1")
            assert kinds(await items(meter, EventKind.METER_OFF)) == [EventKind.METER_OFF]
            await asyncio.sleep(2.0)  # 16 s of device time: off is not stale, and no reason to dial again
            assert meter.state == "off"
            await clients[0].send("o0")
            await clients[0].send(b"\xff\xfe\x00")
            await clients[0].send("d1.900,5.098,0.373,0.000")
            assert kinds(await items(meter, 1))[-2:] == [EventKind.METER_OK, "1.9 W"]
            assert meter.counts.garbage == 1
            await clients[0].close()
            await items(meter, EventKind.METER_LOST)
            assert kinds(await items(meter, 1)) == [EventKind.METER_DESCRIBED, EventKind.METER_OK, "3.416 W"]
    assert heard == ["p0", "p0"]
    assert ReadingFlag.NONE == 0
