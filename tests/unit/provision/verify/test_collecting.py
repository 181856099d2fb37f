"""A real agent with an emulated meter behind a real sshd: what is seen of it, and what is made of that."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches import bench_of
from living_agents import LivingBench
from roambench.provision.verify.collecting import Pace, collect
from roambench.provision.verify.judging import Held, judged
from roambench.provision.verify.kit import read_kit, write_kit
from ssh_server import SshServer, ssh_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        yield running


@pytest.fixture
def boards() -> Iterator[LivingBench]:
    with tempfile.TemporaryDirectory(prefix="rb") as folder:
        living = LivingBench(Path(folder), names=("pi-01",))
        try:
            living.start()
            yield living
        finally:
            living.stop()


def test_an_emulated_board_holds_what_its_emulation_assumes(
    server: SshServer, boards: LivingBench, tmp_path: Path
) -> None:
    socket = boards.socket("pi-01")
    ctl = f"{sys.executable} -m roambench.agent.cli ctl --socket {socket}"
    server.install_agent(f'shift; OMP_NUM_THREADS=1 exec {ctl} "$@"')
    bench = bench_of(
        tmp_path,
        f'[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_user = "root"\nssh_port = {server.port}\n'
        f'ssh_key = "{server.client_key}"\ninterface = "lo"\n'
        'meter = { driver = "smartpower2", serial = "SN-OF-THE-LAB" }\n',
    )
    pace = Pace(wave_s=360.0, rest_s=60.0, transfer_s=3.0, transfers=1)
    kit = collect(bench, bench.hosts[0], pace, lambda text: None)
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
