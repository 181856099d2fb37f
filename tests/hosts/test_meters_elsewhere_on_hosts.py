"""Hosts whose meters other machines read: pi1's hangs on the controller, pi2's on pi3 beside its own."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from by_chance import assert_by_chance, whole_runs_off_u
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.cli import roambench
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.extras.verify.collecting import Pace, collect
from roambench.provision import layout
from roambench.provision.checks import CheckVerdict
from roambench.provision.inventory.load import load_bench
from roambench.provision.preflight.preflight import check
from roambench.runs.measured.accounts import DeviceEnergy, account_run

pytestmark = pytest.mark.timeout(1800)

PACE = Pace(wave_s=22.0, rest_s=14.0, transfer_s=2.0, transfers=1)


@contextmanager
def gateway(there: str, to: tuple[str, int]) -> Iterator[int]:
    """The port at address `there` of a gateway that forwards each connection, as to a meter's Wi-Fi."""
    with ExitStack() as opened:
        server = opened.enter_context(closing(socket.create_server((there, 0))))

        def copy(one: socket.socket, other: socket.socket) -> None:
            with suppress(OSError):
                while data := one.recv(4096):
                    other.sendall(data)
                other.shutdown(socket.SHUT_WR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client = opened.enter_context(closing(server.accept()[0]))
                    meter = opened.enter_context(closing(socket.create_connection(to)))
                    for pair in ((client, meter), (meter, client)):
                        threading.Thread(target=copy, args=pair, daemon=True).start()

        served = threading.Thread(target=serve, daemon=True)
        served.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)  # ends the wait for a client
        served.join()


def provision(hosts: BenchHosts, text: str) -> None:
    hosts.bench.write_text(text)
    said = roambench("fleet", "provision", hosts.bench, timeout_s=580)
    assert said.code == 0, said


@pytest.fixture
def elsewhere(provisioned: BenchHosts) -> Iterator[BenchHosts]:
    """The hosts with their meters on other machines; afterwards as they were."""
    text = provisioned.bench.read_text()
    hop, number = str(provisioned.state()["pi2"]["hop"]).split(":")
    with gateway(load_bench(provisioned.bench).controller.address, (hop, int(number))) as port:
        address = load_bench(provisioned.bench).controller.address
        meters = {
            "pi1": f'host = "controller", port = "{provisioned.folder / "meters" / "pi1.tty"}", ',
            "pi2": f'host = "pi3", driver = "smartpower2-websocket", port = "{address}:{port}", ',
        }
        changed = text
        for name, meter in meters.items():
            before, named, after = changed.partition(f'name = "{name}"\n')
            changed = before + named + after.replace("meter = { ", "meter = { " + meter, 1)
        provision(provisioned, changed)
        yield provisioned
    provision(provisioned, text)


def account(hosts: BenchHosts, run: BenchRun) -> dict[str, DeviceEnergy]:
    with run.finished() as folder:
        (folder.path / "truth").mkdir(exist_ok=True)
        for name in hosts.names:
            shutil.copy(hosts.folder / "meters" / f"{name}.csv", folder.path / "truth")
        energy = account_run(folder, list(folder.read_log()))
    assert energy is not None
    return {board.device: board for board in energy.devices}


def longest_gap_s(board: DeviceEnergy) -> float:
    return float(np.diff(np.sort(board.samples.ns)).max()) * 1e-9


def test_meters_of_a_neighbour_and_of_the_controller_prove_measure_and_lose_their_reader(
    elsewhere: BenchHosts, tmp_path: Path
) -> None:
    bench = elsewhere.bench
    said = roambench("fleet", "identify", bench, timeout_s=400)
    assert said.code == 0, said

    loaded = load_bench(bench)
    for host in check(loaded, smoke=False).hosts:
        (meter,) = [one for one in host.checks if one.name == "meter"]
        assert meter.verdict is CheckVerdict.PASS, (host.host, meter)

    run = BenchRun(
        bench, tmp_path / "run", 'systems=["mohawk"]', *ALWAYS_THERE, "fleet.agents=3", "trace.steps=4"
    )
    run.wait_for(EventKind.TRAIN_FINISHED, "pi3", "%/00001/%/train")
    elsewhere.inside("pi3", f"systemctl kill --signal=KILL {layout.UNIT}")
    boards = account(elsewhere, run)
    assert_by_chance(whole_runs_off_u(boards.values()))
    gaps_s = {name: longest_gap_s(board) for name, board in boards.items()}
    assert gaps_s["pi1"] < min(gaps_s["pi2"], gaps_s["pi3"]), gaps_s  # those that the dead reader read
    for name in ("pi2", "pi3"):
        assert 2.0 < gaps_s[name] < 120.0, gaps_s  # it read on
    assert [name for name in boards if any(span.phase is Phase.LOST for span in boards[name].spans)] == [
        "pi3"
    ]

    for name in ("pi1", "pi2"):
        time.sleep(1.0)
        kit = collect(loaded, loaded.host(name), PACE, print)
        watts, at_s = np.array(kit.series.watts, dtype=np.float64), np.array(kit.series.at_s)
        turn = np.searchsorted(np.array(kit.edges_s), at_s - 1.3, side="right") - 1
        inside = (turn >= 0) & (turn < len(kit.edges_s) - 1)
        busy, idle = watts[inside & (turn % 2 == 0)], watts[inside & (turn % 2 == 1)]
        assert np.median(busy) > np.median(idle) + 0.5, name
        assert "pi3" not in str(kit)
