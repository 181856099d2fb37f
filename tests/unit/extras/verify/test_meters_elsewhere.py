"""`fleet verify` of boards whose meters other machines read: one a neighbour, one this machine, whose clock
is then another than the board's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from living_agents import LivingBench
from roambench.extras.verify.collecting import Pace, collect
from roambench.extras.verify.kit import Kit, read_kit
from roambench.provision.bench import CONTROLLER_READER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PACE = Pace(wave_s=30.0, rest_s=14.0, transfer_s=2.0, transfers=1)
#: The kit of argv[2] in the bench file argv[1], into the file argv[3].
COLLECT = f"""
import sys
from pathlib import Path
from roambench.extras.verify.collecting import Pace, collect
from roambench.extras.verify.kit import write_kit
from roambench.provision.inventory.load import load_bench
bench = load_bench(Path(sys.argv[1]))
write_kit(Path(sys.argv[3]), collect(bench, bench.host(sys.argv[2]), {PACE!r}, print), [])
"""


@pytest.fixture
def living() -> Iterator[LivingBench]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rb-")))
        readers = {"board-a": "board-b", "board-c": CONTROLLER_READER}
        living = LivingBench(folder, readers=readers)
        living.over_ssh(stack)
        stack.callback(living.stop)
        living.start()
        while not living.status("board-b").get("neighbours", {}).get("board-a", {}).get("last"):
            time.sleep(0.5)
        yield living


def lag_s(kit: Kit) -> float:
    """By how much the readings come after the edges of the load."""
    at_s, watts = np.array(kit.series.at_s), np.array(kit.series.watts, dtype=np.float64)
    edges_s = np.array(kit.edges_s)
    lags_s = np.arange(-2.6, 2.6, 0.05)
    level = watts - np.median(watts)

    def fit(lag_s: float) -> float:
        turn = np.searchsorted(edges_s, at_s - lag_s, side="right") - 1
        inside = (turn >= 0) & (turn < len(edges_s) - 1)
        return float(np.sum(np.where(turn % 2 == 0, level, -level)[inside]))

    fits = np.array([fit(lag_s) for lag_s in lags_s])
    return float(np.mean(lags_s[fits > 0.999 * fits.max()]))


def test_readings_of_a_neighbours_and_of_a_controllers_meter_follow_the_boards_load(
    living: LivingBench, tmp_path: Path
) -> None:
    """The controller's clock is an hour behind."""
    file = tmp_path / "kit.zip"
    words = [sys.executable, "-c", COLLECT, str(living.file), "board-c", str(file)]
    clock = ["unshare", "--time", f"--monotonic={-3600}", f"--boottime={-3600}"]
    up_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    if up_s < 3700.0:
        clock = ["unshare", "--time", "--monotonic=3600", "--boottime=3600"]
    with subprocess.Popen([*clock, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        bench = living.bench
        kits = {"board-a": collect(bench, bench.host("board-a"), PACE, print)}
        said, _ = other.communicate(timeout=300)
    assert other.returncode == 0, said.decode()
    kits["board-c"] = read_kit(file)
    for name, kit in kits.items():
        assert kit.driver == "smartpower2"
        assert len(kit.series.at_s) > 60, name
        assert -0.2 < lag_s(kit) < 0.8, name
    text = str(kits["board-a"])
    assert "board-b" not in text
    assert "board-a" not in text
