"""A bench on batteries: each board is switched at its own Smart Power 2, over the meter's WebSocket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from living_agents import LivingBench
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.rounds.records import BatteriesSeen, BoardSwitched, FleetEvent, OrderAnswered
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run
from soaking.influxd import free_port

# Slow: boards live in real time.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

NAMES = ("board-a", "board-b", "board-c")
#: 108 J; a board that is on loses some 9 J in a step, one that is off gains 8 J.
EXPERIMENT = """
name = "cells"
seed = 11
systems = ["mohawk"]
trace = { generator = "city", steps = 10, parameters = { presence = "always", devices = 3 } }
fleet = { agents = 3, aps = 2 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 50 }
rounds = { cloud_every_steps = 5, step_close = "clock:8", rest_s = 0.0 }
energy = { idle_baseline_s = 3.0, quiet = false }

[battery]
capacity_wh = 0.03
start = 0.5
start_spread = 0.4
cut_off = 0.3
back_at = 0.4
charging = "always"
charge_w = 1.0
"""


def last_watts(truth: Path) -> float:
    watts = [line.split(",")[1] for line in truth.read_text().splitlines()[1:] if line.count(",") == 2]
    return float([each for each in watts if each][-1])


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingBench]:
    """Agents live while their boards have power, as the meters' outputs say."""
    ports = {name: free_port() for name in NAMES}
    living = LivingBench(
        tmp_path_factory.mktemp("b"), NAMES, odd={name: {"websocket_port": ports[name]} for name in NAMES}
    )
    text = living.file.read_text()
    for name, port in ports.items():
        meter = f'meter.port = "{living.folder}/{name}/meter"\n'
        text = text.replace(meter, f'{meter}meter.wifi_hop = "127.0.0.1:{port}"\n')
    living.file.write_text(text)
    living.start()
    over = threading.Event()

    def follow() -> None:
        lives = dict.fromkeys(NAMES, True)
        while not over.wait(0.1):
            for name in NAMES:
                has_power = last_watts(living.folder / f"{name}.csv") > 0.0
                if lives[name] and not has_power:
                    living.kill(name)
                elif has_power and not lives[name]:
                    living.start_agent(name)
                lives[name] = has_power

    power = threading.Thread(target=follow)
    power.start()
    yield living
    over.set()
    power.join()
    living.stop()


def test_boards_are_switched_at_their_meters(launch, bench: LivingBench) -> None:
    file = bench.folder / "experiment.toml"
    file.write_text(EXPERIMENT)
    words = ("--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven")
    done = launch(file=file, name="cells", words=words).finish(400)
    with RunFolder.open(done.folder()) as run:
        log, doubts = run.read_log(), run.info.doubts
        energy = account_run(run, log)
    seen = list(log.only(BatteriesSeen))
    assert [device for a, b in pairwise(seen) for device in set(a.off) - set(b.off)], [
        one.off for one in seen
    ]
    assert not [doubt for doubt in doubts if " has its power" in doubt or " has no power" in doubt]
    assert all(answer.status == "done" for answer in log.only(OrderAnswered)), list(log.only(OrderAnswered))
    assert not [event for event in log.only(FleetEvent) if event.kind == EventKind.SESSION_LOST]
    switches = list(log.only(BoardSwitched))
    for device in range(3):  # as it was found
        assert [one.on for one in switches if one.device == device] in ([], [False, True], [False, True] * 2)
    assert energy is not None
    for index, device in enumerate(energy.devices):
        cut_s = sum((1 if one.on else -1) * one.at_ns for one in switches if one.device == index) * 1e-9
        off_s = sum(row.duration_s for row in device.rows if row.phase is Phase.OFF)
        assert off_s == pytest.approx(cut_s, abs=0.2)
        assert sum(row.gross_j for row in device.rows if row.phase is Phase.OFF) == 0.0
    assert all(last_watts(bench.folder / f"{name}.csv") > 0.0 for name in NAMES)
