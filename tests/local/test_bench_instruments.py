"""A bench's own radios and the instrument's own cost, measured on agents that outlive the measurement."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_commands import roambench
from living_agents import LivingBench
from roambench.contract.records import RecordKind
from roambench.instrument.calibration_run import CalibrationPlan
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

NAMES = ("board-a", "board-b", "board-c")
#: What emulated boards draw while their radio works, as their documentation has it.
RADIO = {"up": (0.250, 0.010), "down": (0.150, 0.005)}
EXPERIMENT = """
name = "own"
fleet = { agents = 1 }
learning = { dataset = "digits", model = "mlp", images_per_device = 20, test_images = 20 }
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingBench]:
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES)
    (living.folder / "own.toml").write_text(EXPERIMENT)
    living.start()
    yield living
    living.stop()


def measured(bench: LivingBench, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    return roambench(
        command, str(bench.folder / "own.toml"), *words, "--json", "--no-preflight", "--unproven",
        "--fleet", f"bench:{bench.file}", "--runs-dir", str(bench.folder / "runs"), cwd=bench.folder,
    )  # fmt: skip


def agents_are_idle(bench: LivingBench) -> bool:
    return all(bench.processes[name].poll() is None for name in NAMES)


@pytest.mark.timeout(600)
def test_calibrate_sweeps_the_named_hosts_of_a_bench_and_says_what_was_not_proven(bench: LivingBench):
    """Two of three hosts, though the experiment has one device; 2 rates in 2 directions, 1 window each."""
    out, page = bench.folder / "links" / "own.toml", bench.folder / "own.html"
    out.parent.mkdir()
    done = measured(
        bench, "calibrate", "-o", str(out), "--page", str(page), "--devices", "board-c,board-a",
        "--sizes", "0.5", "--rates", "4,40", "--windows", "1", "--min-s", "10", "--repeats", "100",
        "--idle-s", "4", "--at-once", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(row["device"], row["windows"]) for row in result["devices"]] == [("board-a", 4), ("board-c", 4)]
    waived = "the run began without a preflight of the bench (--no-preflight)"
    assert result["doubts"][0] == waived
    assert [doubt.split("'s meter")[0] for doubt in result["doubts"][1:]] == [
        "--unproven: whose joules board-a",
        "--unproven: whose joules board-c",
    ]
    assert waived in page.read_text()
    points = [point for row in result["devices"] for point in row["points"]]
    assert len(points) == 2 * 4
    for point in points:
        fixed_w, w_per_mbit_s = RADIO[point["direction"]]
        expected_w = fixed_w + w_per_mbit_s * point["mbit_s"]
        assert abs(point["net_w"] - expected_w) < 0.1 + 3 * point["u_net_w"], point
    with RunFolder.open(bench.folder / "runs/own-calibration") as folder:
        assert (folder.info.fleet, folder.info.state) == ("bench", RunState.FINISHED)
        assert folder.info.device_names == ("board-a", "board-c")
        assert len(CalibrationPlan.read(folder).windows(0)) == 4
        assert folder.records.devices() == ["board-a", "board-c"]
    assert json.loads((folder.path / "bench.json").read_text())["hosts"][1]["host"] == "board-c"
    assert agents_are_idle(bench)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_overhead_takes_a_bench_s_agents_through_their_levels_and_gets_them_back(bench: LivingBench):
    done = measured(
        bench, "overhead", "--minutes", "1", "--agents", "2", "--only", "board-b", "--only", "board-a"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["device"] for row in result["boards"]] == ["board-a", "board-b"]
    assert [row["true_instrument_w"] for row in result["boards"]] == [None, None]
    assert len(result["doubts"]) == 3
    for row in result["boards"]:
        assert set(row["idle_w"]) == {"reader", "agent", "streaming"}
        assert all(1.0 < watts < 3.0 for watts in row["idle_w"].values())
    with RunFolder.open(bench.folder / "runs/own-overhead") as folder:
        assert (
            folder.records.counts("board-a")[RecordKind.READING] > 55
        )  # at 1 Hz, those without a session too
    assert agents_are_idle(bench)


@pytest.mark.parametrize("command", [["overhead"], ["calibrate", "-o", "m.toml"]])
def test_a_fleet_that_cannot_be_measured_is_named(tmp_path: Path, command: list[str]):
    (tmp_path / "own.toml").write_text(EXPERIMENT)
    done = roambench(command[0], "own.toml", *command[1:], "--fleet", "simulated", cwd=tmp_path)
    assert done.returncode == 2
    assert "--fleet: expected one of local, bench:FILE, got 'simulated'" in done.stderr
    assert not (tmp_path / "runs").exists()
