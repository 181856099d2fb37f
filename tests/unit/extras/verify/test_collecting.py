"""A real agent with an emulated meter behind a real sshd: what is seen of it, and what is made of that."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benches import bench_of
from living_agents import LivingBench
from roambench.extras.verify.collecting import Pace, collect
from roambench.extras.verify.finding import Held
from roambench.extras.verify.judging import judged
from roambench.extras.verify.kit import Kit, read_kit, write_kit
from ssh_server import SshServer, ssh_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        yield running


#: Meters that are not as usual.
ODD: dict[str, dict[str, Any]] = {
    "late": {"held_ms": 400.0},
    "wide": {"window_ms": 1055.0},
    "slow": {"ppm": 40_000.0},
}


@contextmanager
def living(name: str) -> Iterator[LivingBench]:
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        boards = LivingBench(Path(folder), names=(name,), odd=ODD)
        try:
            boards.start()
            while not (boards.socket(name).exists() and boards.status(name).get("meter", {}).get("last")):
                time.sleep(0.5)
            yield boards
        finally:
            boards.stop()


def kit_of(name: str, server: SshServer, folder: Path) -> Kit:
    with living(name) as boards:
        return _collected(name, server, boards, folder)


def _collected(name: str, server: SshServer, boards: LivingBench, folder: Path) -> Kit:
    ctl = f"{sys.executable} -m roambench.agent.cli ctl --socket {boards.socket(name)}"
    server.install_agent(f'shift; OMP_NUM_THREADS=1 exec {ctl} "$@"')
    bench = bench_of(
        folder,
        f'[[hosts]]\nname = "{name}"\naddress = "127.0.0.1"\nssh_user = "root"\nssh_port = {server.port}\n'
        f'ssh_key = "{server.client_key}"\ninterface = "lo"\n'
        'meter = { driver = "smartpower2", serial = "SN-OF-THE-LAB" }\n',
    )
    pace = Pace(wave_s=360.0, rest_s=60.0, transfer_s=3.0, transfers=1)
    return collect(bench, bench.hosts[0], pace, lambda text: None)


def test_an_emulated_board_holds_what_its_emulation_assumes(server: SshServer, tmp_path: Path) -> None:
    kit = kit_of("pi-01", server, tmp_path)
    held = {one.assumption: (one.held, one.found) for one in judged(kit)}
    for assumption in (
        "a line every 1 s",
        "watts are volts times amps",
        "a value is the mean of 264 ms",
        "a value is at most 264 ms old",
        "conversions keep time",
        "an idle board draws the same all the time",
    ):
        assert held[assumption][0] is Held.HOLDS, held[assumption]
    write_kit(tmp_path / "kit.zip", kit, [])
    text = str(dataclasses.asdict(read_kit(tmp_path / "kit.zip")))
    for name in ("pi-01", "SN-OF-THE-LAB", "127.0.0.1", str(server.client_key)):
        assert name not in text


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("late", "a value is at most 264 ms old"),
        ("wide", "a value is the mean of 264 ms"),
        ("slow", "a line every 1 s"),
    ],
)
def test_a_meter_that_is_otherwise_is_found(name: str, found: str, server: SshServer, tmp_path: Path) -> None:
    findings = judged(kit_of(name, server, tmp_path))
    assert found in [one.assumption for one in findings if one.held is Held.FAILS], findings
