"""The one helper that runs as root: what it accepts, what it tells the kernel, what the kernel then does.

The last part needs root and network namespaces; without them it is skipped, and nothing else depends on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator

import pytest

from roambench.agent import cli, traffic_shaper
from roambench.agent.traffic_shaper import ShapedRates, apply, clearing, shaping
from roambench.contract.errors import ConfigError


def test_sending_is_a_token_bucket_and_receiving_one_behind_a_mirror():
    assert shaping(ShapedRates("wlan0", up_mbit_s=7.0)) == [
        ("tc", "qdisc", "add", "dev", "wlan0", "root", "tbf", "rate", "7000000bit", "burst", "16384",
         "latency", "100ms")
    ]  # fmt: skip
    down = shaping(ShapedRates("wlan0", down_mbit_s=36.0))
    assert [command[:5] for command in down] == [
        ("ip", "link", "add", "rb-wlan0", "type"),
        ("ip", "link", "set", "rb-wlan0", "up"),
        ("tc", "qdisc", "add", "dev", "rb-wlan0"),
        ("tc", "qdisc", "add", "dev", "wlan0"),
        ("tc", "filter", "add", "dev", "wlan0"),
    ]
    # 5 ms of 36 Mbit/s
    assert down[2][7:] == ("rate", "36000000bit", "burst", "22500", "latency", "100ms")
    assert shaping(ShapedRates("wlan0")) == []


def test_a_shape_is_taken_away_as_a_whole():
    assert clearing("wlan0") == [
        ("tc", "qdisc", "del", "dev", "wlan0", "root"),
        ("tc", "qdisc", "del", "dev", "wlan0", "ingress"),
        ("ip", "link", "del", "rb-wlan0"),
    ]


def test_a_command_that_does_not_end_is_a_refusal_like_any_other(tmp_path, monkeypatch):
    tool = tmp_path / "tc"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setattr(traffic_shaper, "_PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(traffic_shaper, "_COMMAND_S", 0.5)
    assert traffic_shaper._run(("tc", "qdisc")) == "did not end within 0.5 s, see dmesg"


def test_names_of_mirrors_fit_the_kernels_fifteen_characters():
    assert clearing("wlx00c0caabcdef")[2][3] == "rb-wlx00c0caabc"


@pytest.mark.parametrize(
    "name", ["", "lo", "wlan0; reboot", "-all", "../../etc", "wlan0 root", "a" * 16, "wlan0\n", "$(id)"]
)
def test_what_is_no_interface_name_never_reaches_a_command(name):
    with pytest.raises(ConfigError, match="expected a network interface"):
        ShapedRates(name, up_mbit_s=7.0)


@pytest.mark.parametrize("rate", [0.0, -7.0, float("nan"), float("inf"), 20_000.0])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(ConfigError) as error:
        ShapedRates("wlan0", rate, rate)
    assert len(error.value.problems) == 2


def test_an_interface_that_is_not_there_is_told_what_is():
    with pytest.raises(ConfigError, match="no interface 'nothere0' here, there are:"):
        apply(ShapedRates("nothere0", up_mbit_s=7.0))


@pytest.mark.parametrize("words", [[], ["--off", "--up-mbit-s", "7"]])
def test_the_command_wants_a_rate_or_off(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["roambench-agent", "shape", "wlan0", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "expected --up-mbit-s or --down-mbit-s or both, or --off alone" in capsys.readouterr().err


# ---- with a kernel ------------------------------------------------------------------------------------


def inside(space: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ip", "netns", "exec", space, *words], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def spaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them: board's up0 (10.9.9.1) and AP's up0 (10.9.9.2)."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("needs root, ip and tc")
    board, ap = (f"roambench-{uuid.uuid4().hex[:6]}-{which}" for which in ("board", "ap"))
    try:
        for space in (board, ap):
            if subprocess.run(["ip", "netns", "add", space], capture_output=True, check=False).returncode:
                pytest.skip("no network namespaces here")
        cable = ["ip", "-n", board, "link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", ap]
        if subprocess.run(cable, capture_output=True, check=False).returncode:
            pytest.skip("no veth devices here")
        for space, address in ((board, "10.9.9.1/24"), (ap, "10.9.9.2/24")):
            for words in (("addr", "add", address, "dev", "up0"), ("link", "set", "up0", "up")):
                subprocess.run(["ip", "-n", space, *words], check=True)
        bucket = inside(board, "tc", "qdisc", "add", "dev", "up0", "root", "tbf", "rate", "8mbit",
                        "burst", "16384", "latency", "100ms")  # fmt: skip
        if bucket.returncode:
            pytest.skip(f"this kernel has no tbf: {bucket.stderr.strip()}")
        yield board, ap
    finally:
        for space in (board, ap):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


LISTEN = """
    import socket, time
    door = socket.create_server(("10.9.9.2", 7000))
    print("ready", flush=True)
    line, _ = door.accept()
    {act}
"""
SEND = "line.sendall(bytes({total})); line.shutdown(socket.SHUT_WR); line.recv(1)"
TAKE = """
    began = time.monotonic(); line.recv(1); count = 1
    while piece := line.recv(65536):
        count += len(piece)
    print(count * 8e-6 / (time.monotonic() - began))
"""
DIAL = 'import socket, time\nline = socket.create_connection(("10.9.9.2", 7000), 20)\n'


def mbit_s(board: str, ap: str, direction: str, total: int) -> float:
    """The rate at which `total` bytes over TCP arrive, measured by who receives them."""
    send, take = SEND.format(total=total), textwrap.dedent(TAKE)
    server = textwrap.dedent(LISTEN.format(act="ACT")).replace("ACT", take if direction == "up" else send)
    client = DIAL + (send if direction == "up" else take)
    waiting = subprocess.Popen(
        ["ip", "netns", "exec", ap, sys.executable, "-c", server], stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    with waiting:
        answer = inside(board, sys.executable, "-c", client)
        assert answer.returncode == 0, answer.stderr
        told, _ = waiting.communicate(timeout=300)
    return float(told if direction == "up" else answer.stdout)


def shape(board: str, *words: str) -> subprocess.CompletedProcess[str]:
    agent = "from roambench.agent.cli import main; main()"
    return inside(board, sys.executable, "-c", agent, "shape", "up0", *words)


def test_the_kernel_holds_both_directions_and_lets_go_again(spaces):
    board, ap = spaces
    done = shape(board, "--up-mbit-s", "8", "--down-mbit-s", "16")
    if "ifb" in done.stderr or "mirred" in done.stderr:
        pytest.skip(f"this kernel cannot mirror: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    # TCP's own headers pass the bucket too: 3 to 4 % of full frames.
    assert 5.0 < mbit_s(board, ap, "up", 2_000_000) < 8.2
    assert 10.0 < mbit_s(board, ap, "down", 4_000_000) < 16.4
    again = shape(board, "--up-mbit-s", "4")
    assert again.returncode == 0, again.stderr
    assert 2.5 < mbit_s(board, ap, "up", 1_000_000) < 4.1
    assert shape(board, "--off").returncode == 0
    assert "tbf" not in inside(board, "tc", "qdisc", "show").stdout
    assert mbit_s(board, ap, "down", 4_000_000) > 20.0


def test_what_the_kernel_refuses_leaves_the_interface_free(spaces):
    board, _ = spaces
    missing = inside(
        board, sys.executable, "-c", "from roambench.agent.cli import main; main()",
        "shape", "up9", "--up-mbit-s", "8",
    )  # fmt: skip
    assert missing.returncode == 2
    assert "no interface 'up9' here" in missing.stderr
