"""Identify through real SSH servers: boards are loaded, meters are read by whoever reads them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import hand_ctl
from benches import bench_of
from roambench.cli.main import main
from roambench.contract.errors import FleetError
from roambench.provision.bench import Bench
from roambench.provision.identify import identify
from roambench.provision.meter_map import Proof, doubts, read_map
from ssh_server import SshServer, ssh_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SshServer]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(ssh_server(tmp_path_factory.mktemp(f"sshd{number}"))) for number in range(3)
        ]


@pytest.fixture
def bench(servers: list[SshServer], tmp_path: Path) -> Bench:
    hosts = "".join(
        f"""
[[hosts]]
name = "pi-0{number}"
slot = {number}
address = "127.0.0.1"
ssh_user = "root"
ssh_port = {server.port}
ssh_key = "{server.client_key}"
meter = {{ driver = "smartpower2", serial = "SN{number}" }}
"""
        for number, server in enumerate(servers, start=1)
    )
    shutil.copy(hand_ctl.__file__, tmp_path / "hand_ctl.py")
    ctl = f"{sys.executable} {tmp_path}/hand_ctl.py {tmp_path}"
    for server in servers:
        server.install_agent(f'OMP_NUM_THREADS=1 exec {ctl} "$@"')
    return bench_of(tmp_path, hosts)


def wire(bench: Bench, powers: dict[str, str | None], runs: dict[str, str] | None = None) -> None:
    """`powers`: host that reads the meter -> board that hangs on it."""
    folder = bench.file.parent
    (folder / "burns.txt").write_text("")
    hosts = {str(host.ssh_port): host.name for host in bench.hosts}
    values = {"hosts": hosts, "powers": powers, "runs": runs or {}, "began_s": time.monotonic()}
    (folder / "wiring.json").write_text(json.dumps(values))


def test_swapped_cables_and_a_dead_meter_are_found_over_ssh(bench: Bench) -> None:
    wire(bench, {"pi-01": "pi-02", "pi-02": "pi-01", "pi-03": None})
    told: list[str] = []
    made = identify(bench, bench.hosts, burn_s=4.0, rest_s=5.0, report=told.append)
    assert told == [f"pi-0{n}: loaded for 4 s" for n in (1, 2, 3)]
    assert [(entry.verdict, entry.found) for entry in made.entries] == [
        (Proof.SWAPPED, "smartpower2:SN2"),
        (Proof.SWAPPED, "smartpower2:SN1"),
        (Proof.DEAD, ""),
    ]
    assert made.entries[0].machine_id == Path("/etc/machine-id").read_text().strip()
    assert made.entries[0].build == "abc"


def test_the_command_proves_the_map_and_keeps_it(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    wire(bench, {"pi-01": "pi-01", "pi-02": "pi-02", "pi-03": "pi-03"}, runs={"pi-03": "demo"})
    command = ["fleet", "identify", str(bench.file), "--burn", "5", "--rest", "7"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 1  # one of them is in a run
    shown = capsys.readouterr()
    assert "2 of 3 boards are proven" in shown.out
    assert "pi-03: not loaded: takes part in run demo" in shown.out
    assert doubts(read_map(bench), bench.hosts, time.time()).keys() == {"pi-03"}


def test_a_meter_that_hangs_on_this_machine_is_proven_too(bench: Bench, tmp_path: Path) -> None:
    """A pseudo-terminal of this machine shows what `pi-01` draws."""
    here, burning = tmp_path / "here", tmp_path / "burning.txt"
    hung = replace(bench.hosts[0].meter, port=str(here), serial="", emulated=True, host="controller")
    hosts = (replace(bench.hosts[0], meter=hung), *bench.hosts[1:])
    bench = replace(bench, hosts=hosts)
    wire(bench, {"pi-01": None, "pi-02": "pi-02", "pi-03": "pi-03"})
    control, terminal = os.openpty()
    tty.setraw(terminal)
    here.symlink_to(os.ttyname(terminal))
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(0.5):
            watts = 5.0 if burning.exists() and burning.read_text() == "pi-01" else 2.0
            os.write(control, f"5.000,{watts / 5:.3f},{watts:.3f},0.000\n".encode())

    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        made = identify(bench, bench.hosts[:2], burn_s=4.0, rest_s=5.0, report=lambda line: None)
    finally:
        ended.set()
        speaker.join()
    assert [(entry.verdict, entry.found) for entry in made.entries] == [
        (Proof.PROVEN, f"controller:{here}"),
        (Proof.PROVEN, "smartpower2:SN2"),
    ]


def test_a_meter_that_hangs_on_a_neighbour_is_proven_by_the_neighbours_agent(bench: Bench) -> None:
    hung = replace(bench.hosts[0].meter, host="pi-02")
    bench = replace(bench, hosts=(replace(bench.hosts[0], meter=hung), *bench.hosts[1:]))
    wire(bench, {"pi-02": "pi-02", "pi-02 for pi-01": "pi-01", "pi-03": "pi-03"})
    made = identify(bench, bench.hosts[:2], burn_s=4.0, rest_s=5.0, report=lambda line: None)
    assert [(entry.verdict, entry.found) for entry in made.entries] == [
        (Proof.PROVEN, "smartpower2:SN1"),
        (Proof.PROVEN, "smartpower2:SN2"),
    ]


def test_a_bench_without_meters_cannot_be_identified(tmp_path: Path) -> None:
    bare = bench_of(tmp_path, '[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nmeter.driver = "none"\n')
    with pytest.raises(FleetError, match="none of these hosts has a meter"):
        identify(bare, bare.hosts, report=print)
