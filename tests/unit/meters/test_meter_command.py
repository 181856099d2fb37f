"""`roambench meter` as people call it: real processes on real ports."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_commands import roambench
from roambench.cli.main import main
from roambench.emulation import control
from roambench.meters.transcript import read_transcript, recorded_meter

CLI = [sys.executable, "-m", "roambench.cli.main", "meter"]
TRANSCRIPTS = Path(__file__).parents[3] / "firmware_notes" / "transcripts"
LINE = b"5.161,0.662,3.416,0.000\r\n"


def meter(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    return roambench("meter", *arguments, cwd=Path.cwd(), env=environment)


@pytest.fixture
def pty() -> Iterator[tuple[str, int]]:
    """A serial port's name and the meter's end of it."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    settings = termios.tcgetattr(theirs)
    settings[2] |= termios.HUPCL
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    yield os.ttyname(theirs), ours
    for fd in (ours, theirs):
        with contextlib.suppress(OSError):
            os.close(fd)


def test_list_tells_every_driver_its_port_and_its_power(capsys):
    with contextlib.suppress(SystemExit):
        main(["meter", "list"])
    told = capsys.readouterr().out
    assert "smartpower2-websocket\n" in told
    assert "    port   /dev/ttyUSB0; options channel, interval_ms, baud, serial, reader, site\n" in told
    assert "    power  on, off, volts\n" in told
    # the Smart Power 3's three ways, a kernel's sensor, joulescope, ppk2, mqtt
    assert told.count("power  unavailable") == 7


def test_read_prints_readings_as_json_and_what_became_of_the_lines():
    transcript = TRANSCRIPTS / "smartpower3-1.7-udp.txt"
    result = meter("read", str(transcript), "--driver", "replay", "--seconds", "30", "--json")
    assert result.returncode == 0, result.stderr
    told = [json.loads(line) for line in result.stdout.splitlines()]
    readings = [line["reading"] for line in told if "reading" in line]
    assert len(readings) == 70
    assert readings[0]["meter_ms"] < readings[-1]["meter_ms"]
    assert "watt_hours" not in readings[0]  # not reported is not a number, and JSON has none
    assert sum("event" in line for line in told) >= 4
    assert told[-1]["counts"]["accepted"] == 70
    assert result.stderr == ""


def test_read_without_a_terminal_prints_lines_until_it_is_interrupted(pty):
    port, ours = pty
    process = subprocess.Popen(
        [*CLI, "read", port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline().startswith("meter described: ")
    os.write(ours, LINE[7:] + LINE)
    assert process.stdout.readline().split()[1:] == ["5.161", "0.662", "3.416"]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == "lines: accepted 1, partial 1\n"
    assert "Traceback" not in err


def test_read_fails_when_not_one_reading_came(pty):
    result = meter("read", pty[0], "--seconds", "0.3")
    assert result.returncode == 1
    assert (
        f"roambench: meter {pty[0]}: not one reading came; is it a smartpower2? is its output on"
        in result.stderr
    )
    assert "is its firmware 1.4 or newer?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["read", "/dev/no-such-meter"], 1, "meter /dev/no-such-meter: cannot be opened (No such file or"),
        (["read", "/dev/null", "--driver", "smartpower9"], 2, "unknown meter 'smartpower9': expected one of"),
        (["read", "x?as=nonsense", "--driver", "replay"], 1, "transcript x: cannot be read"),
        (["record", "x", "-o", "y", "--driver", "replay"], 2, "meter 'replay' has no wire"),
        (["power", "on", "/dev/ttyUSB0"], 1, "power: unavailable (the serial port only talks"),
        (["power", "status", "/dev/ttyUSB0", "--driver", "smartpower3"], 1, "power: unavailable (a Smart Po"),
        (["power", "autorun", "x", "--driver", "smartpower2-ytrikoz"], 1, "power: unavailable (the serial"),
        (["power", "autorun", "x", "--driver", "smartpower2-ytrikoz", "--wifi", "y"], 1, "settings page"),
        (["power", "volts", "127.0.0.1:1", "9", "--driver", "smartpower2-websocket"], 2, "4 to 5.3, got 9"),
        (["power", "off", "127.0.0.1:1", "--driver", "smartpower2-websocket"], 1, "cannot be reached"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(arguments, status, complaint, capsys, tmp_path):
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as ended:
        main(["meter", *arguments])
    assert ended.value.code == status
    told = capsys.readouterr().err
    assert complaint in told
    assert told.startswith("roambench: ")
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_recording_replays_as_what_was_read(pty, tmp_path):
    port, ours = pty
    file = tmp_path / "mine.txt"
    process = subprocess.Popen(
        [*CLI, "record", f"{port}?serial=SP2-3", "-o", str(file)], stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 20
    while not file.exists() or "recorded" not in file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    while termios.tcgetattr(ours)[2] & termios.HUPCL:  # the port is opened, and flushed, after the file
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for piece, pause_s in ((LINE[:9], 0.05), (LINE[9:], 0.05), (b"\xff\\\n", 0.5), (LINE, 0.0)):
        os.write(ours, piece)
        time.sleep(pause_s)
    while not b"".join(data for _, data in read_transcript(file)).endswith(b"\n" + LINE):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=20)[0].decode()
    assert process.returncode == 0
    assert "lines: accepted 2, garbage 1" in told
    assert recorded_meter(file) == "smartpower2?serial=SP2-3"
    chunks = read_transcript(file)
    assert b"".join(data for _, data in chunks) == LINE + b"\xff\\\n" + LINE
    assert chunks[-1][0] - chunks[0][0] > 0.1
    replayed = meter("read", str(file), "--driver", "replay", "--json")  # ends with the file
    values = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert [v["reading"]["watts"] for v in values if "reading" in v] == [3.416, 3.416]
    assert json.loads(values[0]["detail"])["serial"] == "SP2-3"
    again = meter("record", port, "-o", str(file))
    assert again.returncode == 1
    assert "cannot be written (File exists)" in again.stderr


def test_a_recording_whose_port_vanishes_keeps_what_it_heard(pty, tmp_path):
    port, ours = pty
    file = tmp_path / "mine.txt"
    process = subprocess.Popen([*CLI, "record", port, "-o", str(file)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not file.exists() or not read_transcript(file):
        assert time.monotonic() < deadline
        os.write(ours, LINE)
        time.sleep(0.05)
    os.close(ours)
    err = process.communicate(timeout=20)[1]
    assert process.returncode == 1
    assert f"meter {port}: lost (" in err
    assert read_transcript(file)[0][1].startswith(LINE)


def test_the_power_of_an_emulated_meter_is_switched_from_the_command_line(start_emulator, capsys):
    emulator = start_emulator({"websocket_port": 0}, tolerance=0.0)
    address = control.addresses(emulator.socket)["pi-00"]["websocket"].removeprefix("ws://")

    def power(*arguments: str) -> str:
        main(["meter", "power", *arguments])
        return capsys.readouterr().out

    for port, options in (
        (address, ["--driver", "smartpower2-websocket"]),
        (emulator.port(0), ["--wifi", address]),  # serial, and a gateway to its Wi-Fi
    ):
        for arguments, told in (
            (("status", port), "on, set to 5.10 V"),
            (("off", port), "off, set to 5.10 V"),
            (("volts", port, "5.2"), "off, set to 5.20 V"),
            (("on", port), "on, set to 5.20 V"),
            (("volts", port, "5.1"), "on, set to 5.10 V"),
        ):
            with pytest.raises(SystemExit) as ended:
                power(*arguments, *options)
            assert ended.value.code in (0, None)
            assert capsys.readouterr().out == f"{port}: {told}\n"


def test_a_meters_autorun_is_asked_for_and_set_from_the_command_line(start_emulator, capsys):
    emulator = start_emulator({"websocket_port": 0, "autorun": False}, tolerance=0.0)
    hop = control.addresses(emulator.socket)["pi-00"]["websocket"].removeprefix("ws://")
    port = emulator.port(0)
    for change, told in (([], "off"), (["--on"], "on"), ([], "on"), (["--off"], "off")):
        with pytest.raises(SystemExit) as ended:
            main(["meter", "power", "autorun", port, *change, "--wifi", hop])
        assert ended.value.code in (0, None)
        assert capsys.readouterr().out == f"{port}: autorun {told}\n"


def test_a_meter_that_does_not_obey_is_an_error_with_what_it_says():
    from websockets.asyncio.server import ServerConnection, serve

    from roambench.contract.errors import MeterError
    from roambench.meters.websocket_switch import Smartpower2Switch

    async def stubborn(line: ServerConnection) -> None:
        async for message in line:
            if message == "p0":
                for text in ("o0", "w5.00", "m0", "f1.60"):
                    await line.send(text)

    async def scenario() -> None:
        async with serve(stubborn, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            await Smartpower2Switch("127.0.0.1", port).off()

    with pytest.raises(MeterError, match=r"o1 was sent, but it says that it is on, set to 5\.00 V"):
        asyncio.run(scenario())
