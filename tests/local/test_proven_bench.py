"""Preflight and identify against living agents with real control sockets and emulated meters, over SSH."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from living_agents import LivingBench
from roambench.provision.bench import Bench
from roambench.provision.checks import Check, CheckVerdict
from roambench.provision.identify import identify
from roambench.provision.inventory.load import load_bench
from roambench.provision.meter_map import Proof
from roambench.provision.preflight.preflight import check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Wired:
    """A living bench whose hosts are one sshd each; board-a and board-b have each other's meter."""

    living: LivingBench
    bench: Bench


@pytest.fixture(scope="module")
def wired() -> Iterator[Wired]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rb-")))
        living = LivingBench(folder)
        for name, other in (("board-a", "board-b"), ("board-b", "board-a")):
            settings = json.loads((folder / name / "settings.json").read_text())
            settings["meter"]["port"] = str(folder / other / "meter")
            (folder / name / "settings.json").write_text(json.dumps(settings))
        living.over_ssh(stack)
        stack.callback(living.stop)
        living.start()
        for name in living.names:
            while not (living.socket(name).exists() and living.status(name)["meter"]["readings"] > 8):
                time.sleep(0.5)
        yield Wired(living, load_bench(living.file))


def test_preflight_hears_the_agents_their_trainers_and_their_meters(wired: Wired) -> None:
    made = check(wired.bench)
    for host in made.hosts:
        found: dict[str, Check] = {one.name: one for one in host.checks}
        assert (found["torch"].verdict, found["meter"].verdict) == (CheckVerdict.PASS, CheckVerdict.PASS)
        assert (found["idle watts"].verdict, found["idle watts"].found) == (CheckVerdict.PASS, "1.90 W")


def test_crossed_meters_are_found_by_loading_living_agents(wired: Wired) -> None:
    made = identify(wired.bench, wired.bench.hosts, burn_s=8.0, rest_s=9.0, report=print)
    assert [(entry.board, entry.verdict) for entry in made.entries] == [
        ("board-a", Proof.SWAPPED), ("board-b", Proof.SWAPPED), ("board-c", Proof.PROVEN),
    ]  # fmt: skip
    assert made.entries[0].reason.startswith("the meter of board-b moved")
    for entry in made.entries:
        assert entry.step_w > 0.7  # a core takes 0.8 W; one machine plays all boards
        assert abs(entry.runner_up_w) < 0.1
