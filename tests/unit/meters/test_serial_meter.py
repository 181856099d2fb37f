"""The driver on real pseudo-terminals that pyserial opens, fed by a real emulator process at 12 x."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import tty
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.emulation import control
from roambench.emulation.electric.power import Activity
from roambench.emulation.feed import WorkFeed
from roambench.emulation.spec import Fault, FaultKind
from roambench.emulation.truth import energy_j
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter
from roambench.meters.sources.serial_port import SerialPort
from roambench.meters.stream_meter import StreamMeter

SECOND = 1_000_000_000


def serial_meter(emulator) -> StreamMeter:
    """A reader of the first port, free to reopen it."""
    meter = open_meter("smartpower2", emulator.port(0), emulator.clock, reopen_allowed=True)
    assert isinstance(meter, StreamMeter)
    return meter


async def take(meter: Meter, count: int) -> list[Reading]:
    """The next `count` readings."""
    readings: list[Reading] = []
    async with asyncio.timeout(20):
        while len(readings) < count:
            item = await anext(meter)
            if isinstance(item, Reading):
                readings.append(item)
    return readings


async def until(meter: Meter, kind: str) -> tuple[AgentEvent, list[Reading]]:
    """Items up to the next event of that kind: the event, and the readings before it."""
    readings: list[Reading] = []
    async with asyncio.timeout(20):
        while True:
            item = await anext(meter)
            if isinstance(item, Reading):
                readings.append(item)
            elif item.kind == kind:
                return item, readings


@pytest.mark.asyncio
async def test_readings_arrive_once_a_second_of_device_time_and_an_injected_gain_shows(start_emulator):
    emulator = start_emulator({}, {"gain": 1.03}, tolerance=0.0)
    meters = [
        open_meter("smartpower2", emulator.port(i), emulator.clock, reopen_allowed=True) for i in (0, 1)
    ]
    async with contextlib.aclosing(meters[0]), contextlib.aclosing(meters[1]):
        plain, high = await asyncio.gather(*(take(meter, 20) for meter in meters))
    # The median: a busy host is late with one line, and then in time with the next.
    steps_s = np.diff([r.monotonic_ns for r in plain]) / SECOND
    assert np.median(steps_s) == pytest.approx(1.0, abs=0.1)
    assert np.mean([r.watts for r in plain]) == pytest.approx(1.9, abs=0.005)
    assert np.mean([r.watts for r in high]) / np.mean([r.watts for r in plain]) == pytest.approx(
        1.03, abs=0.002
    )
    assert not any(r.flags & ReadingFlag.INCONSISTENT for r in plain + high)
    assert meters[0].state == "closed"


@pytest.mark.asyncio
async def test_power_follows_the_work_an_agent_tells_and_the_truth_is_its_exact_integral(start_emulator):
    emulator = start_emulator({}, tolerance=0.0)
    feed = WorkFeed(emulator.socket, "pi-00")
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        await take(meter, 1)
        start_ns = emulator.clock.now_ns()
        assert feed.send(Activity(busy_cores=4.0), start_ns)
        while (await take(meter, 1))[0].watts < 5.05:  # what was printed before, or in part
            pass
        busy = await take(meter, 5)
        end_ns = emulator.clock.now_ns()
        assert feed.send(Activity(), end_ns)
        while (await take(meter, 1))[0].watts > 1.95:
            pass
        idle = await take(meter, 2)
        until_ns = emulator.clock.now_ns()
    assert [r.watts for r in busy] == pytest.approx([5.1] * 5, abs=0.01)
    assert [r.watts for r in idle] == pytest.approx([1.9] * 2, abs=0.01)
    assert emulator.end() == 0
    expected_j = (end_ns - start_ns) * 1e-9 * 5.1 + (until_ns - end_ns) * 1e-9 * 1.9
    assert energy_j(emulator.truth(0), start_ns, until_ns) == pytest.approx(expected_j, rel=1e-12)
    feed.close()


@pytest.mark.asyncio
async def test_an_agent_that_is_killed_leaves_an_idle_board_and_a_running_meter(start_emulator):
    emulator = start_emulator({}, tolerance=0.0)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from roambench.emulation.feed import WorkFeed\n"
        "from roambench.emulation.electric.power import Activity\n"
        "feed = WorkFeed(Path(sys.argv[1]), 'pi-00'); feed.send(Activity(busy_cores=1.0), int(sys.argv[2]))\n"
        "print('sent', flush=True); time.sleep(60)\n"
    )
    now_ns = emulator.clock.now_ns()
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(emulator.socket), str(now_ns), stdout=asyncio.subprocess.PIPE
    )
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        assert agent.stdout is not None
        await agent.stdout.readline()
        await take(meter, 2)
        assert (await take(meter, 1))[0].watts == pytest.approx(2.7, abs=0.01)
        agent.send_signal(signal.SIGKILL)
        await agent.wait()
        await take(meter, 2)
        assert (await take(meter, 1))[0].watts == pytest.approx(1.9, abs=0.01)


@pytest.mark.asyncio
async def test_a_stalled_meter_is_called_stale_and_leaves_a_gap_that_nobody_fills(start_emulator):
    emulator = start_emulator({})
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        before = (await take(meter, 3))[-1]
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.SILENCE, duration_s=12.0))
        stale, missed = await until(meter, EventKind.METER_STALE)
        assert len(missed) <= 1
        assert stale.detail.startswith("no line for ")
        assert meter.state == "stale"
        after = (await take(meter, 1))[0]
        assert meter.state == "ok"
    last = missed[-1] if missed else before
    assert after.monotonic_ns - last.monotonic_ns > 10 * SECOND


@pytest.mark.asyncio
async def test_a_reset_meter_says_so_and_boot_noise_becomes_no_reading(start_emulator):
    emulator = start_emulator({})
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        await take(meter, 2)
        control.inject(emulator.socket, "pi-00", Fault(FaultKind.RESET))
        event, _ = await until(meter, EventKind.METER_RESTARTED)
        assert event.detail == "firmware 1.60"
        assert (await take(meter, 2))[-1].watts == pytest.approx(1.9, rel=0.035)


@pytest.mark.asyncio
async def test_a_port_that_vanishes_is_lost_and_opened_again_when_it_is_back(start_emulator):
    emulator = start_emulator({})
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        await take(meter, 2)
        emulator.process.kill()
        emulator.process.wait()
        emulator.socket.unlink()
        await until(meter, EventKind.METER_LOST)
        assert meter.state == "lost"
        again = start_emulator({})
        await until(meter, EventKind.METER_OK)
        assert len(await take(meter, 2)) == 2
    # What the killed emulator knew and what the new one knows are both there; between them nothing is.
    assert again.end() == 0
    assert again.truth(0).read_text().count(",nan") == 2


@pytest.mark.asyncio
async def test_a_latched_meter_that_was_lost_is_opened_again(start_emulator, tmp_path):
    emulator = start_emulator({})
    latch = tmp_path / "latch.json"
    meter = open_meter("smartpower2", emulator.port(0), emulator.clock, latch=latch)
    async with contextlib.aclosing(meter):
        await take(meter, 1)
        emulator.process.kill()
        emulator.process.wait()
        emulator.socket.unlink()
        await until(meter, EventKind.METER_LOST)
        start_emulator({})
        await until(meter, EventKind.METER_OK)
    assert '"survived": true' in latch.read_text()


@pytest.mark.asyncio
async def test_a_latch_notes_an_orderly_close(start_emulator, tmp_path):
    emulator = start_emulator({})
    latch = tmp_path / "latch.json"
    latched = open_meter("smartpower2", emulator.port(0), emulator.clock, latch=latch)
    async with contextlib.aclosing(latched) as meter:
        await take(meter, 1)
        assert '"survived": false' in (tmp_path / "latch.json").read_text()
    assert '"survived": true' in (tmp_path / "latch.json").read_text()


@pytest.mark.asyncio
async def test_a_port_that_is_not_there_or_no_terminal_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for port, cause in (("/dev/no-such-meter", "No such file"), (str(tmp_path / "file"), "configure")):
        with pytest.raises(MeterError, match=f"meter {port}: cannot be opened .*{cause}"):
            await anext(open_meter("smartpower2", port, DeviceClock(), reopen_allowed=True))


@pytest.mark.asyncio
async def test_two_readers_of_one_port_are_refused(start_emulator):
    emulator = start_emulator({})
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        await meter.open()
        with pytest.raises(MeterError, match="cannot be opened"):
            await serial_meter(emulator).open()


@pytest.mark.asyncio
async def test_a_reader_that_was_away_gets_no_old_lines(start_emulator):
    emulator = start_emulator({}, time_scale=600.0)
    await asyncio.sleep(1.0)  # 600 lines of 27 bytes into a buffer of 4095
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        printed = int(control.stats(emulator.socket)["chunks"])
        await take(meter, 50)
        printed = int(control.stats(emulator.socket)["chunks"]) - printed
    assert control.stats(emulator.socket)["lost_bytes"] > 10_000
    # Were old lines left in a buffer, 50 of them would come at once, while hardly one is printed.
    assert printed > 25


@pytest.mark.asyncio
async def test_hostile_lines_are_refused_and_counted_and_the_emulator_stays_up(start_emulator):
    emulator = start_emulator({})
    now = emulator.clock.now_ns()
    hostile = [
        b"nonsense\n",
        b"[]\n",
        b"\xff\xfe\n",
        b"[" * 5000 + b"\n",
        b'{"device": "pi-99", "ns": 1}\n',
        b'{"device": ["pi-00"], "ns": 1}\n',
        b'{"device": "pi-00", "ns": "soon"}\n',
        b'{"device": "pi-00", "ns": true}\n',
        b'{"device": "pi-00", "ns": %d}\n' % (now + 10**15),
        b'{"device": "pi-00", "ns": %d, "busy_cores": NaN}\n' % now,
        b'{"device": "pi-00", "ns": %d, "busy_cores": -1}\n' % now,
        b'{"device": "pi-00", "ns": %d, "tx_mbit_s": "1"}\n' % now,
    ]
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(emulator.socket))
        line.sendall(b"".join(hostile))
        await asyncio.sleep(0.3)
    stats = control.stats(emulator.socket)
    assert stats["refused"] == len(hostile)
    assert stats["records"] == 0
    with pytest.raises(MeterError, match="unknown device 'pi-99'"):
        control.inject(emulator.socket, "pi-99", Fault(FaultKind.DROP))
    async with contextlib.aclosing(serial_meter(emulator)) as meter:
        assert (await take(meter, 1))[0].watts == pytest.approx(1.9, rel=0.035)


@pytest.mark.asyncio
async def test_lines_that_waited_in_the_port_while_no_one_read_are_no_readings():
    """Their stamps would be the next reader's beginning: seconds late."""
    ours, theirs = os.openpty()
    taken = bytearray()
    port = SerialPort(os.ttyname(theirs))
    try:
        tty.setraw(theirs)
        os.write(ours, b"old\n" * 10)
        assert select.select([theirs], [], [], 20.0)[0]
        await port.open(taken.extend, print)
        os.write(ours, b"new\n")
        async with asyncio.timeout(20):
            while not taken.endswith(b"new\n"):
                await asyncio.sleep(0.01)
    finally:
        await port.close()
        os.close(ours)
        os.close(theirs)
    assert taken == b"new\n"


@pytest.mark.asyncio
async def test_an_endless_line_ends_its_connection_only(start_emulator):
    emulator = start_emulator({})
    with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
        line.connect(str(emulator.socket))
        line.settimeout(5)
        line.sendall(b"x" * 1_000_000)
        assert line.recv(1) == b""
    assert control.stats(emulator.socket)["records"] == 0


def test_work_feed_survives_an_emulator_that_is_away_and_finds_the_new_one(start_emulator, tmp_path):
    feed = WorkFeed(tmp_path / "emulator.sock", "pi-00")
    assert not feed.send(Activity(), 1)
    emulator = start_emulator({})
    assert feed.send(Activity(), emulator.clock.now_ns())
    emulator.process.kill()
    emulator.process.wait()
    emulator.socket.unlink()
    assert not feed.send(Activity(), emulator.clock.now_ns())
    assert feed.lost == 2
    again = start_emulator({})
    assert feed.send(Activity(busy_cores=1.0), emulator.clock.now_ns())
    deadline = time.monotonic() + 60
    while control.stats(again.socket)["records"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Restarted between two records: the old line breaks on use, the record goes over a new one.
    assert again.end() == 0
    start_emulator({})
    assert feed.send(Activity(busy_cores=1.0), emulator.clock.now_ns())
    feed.close()


def test_a_deep_run_folder_is_no_obstacle_for_the_socket(start_emulator, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    emulator = start_emulator({}, socket_path=str(deep / "emulator.sock"))
    assert len(os.fsencode(emulator.socket)) > 107
    feed = WorkFeed(emulator.socket, "pi-00")
    assert feed.send(Activity(), emulator.clock.now_ns())
    feed.close()
    assert control.stats(emulator.socket)["refused"] == 0
    control.stop(emulator.socket)
    assert emulator.process.wait(60) == 0
    assert not emulator.socket.exists()
    assert not Path(emulator.port(0)).is_symlink()


def test_a_spec_with_mistakes_ends_the_process_with_status_2(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text('{"devices": [], "socket_path": 1}')
    result = subprocess.run(
        [sys.executable, "-m", "roambench.emulation", str(path)], capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "spec.json: socket_path: expected str, got 1" in result.stderr
    assert "Traceback" not in result.stderr
