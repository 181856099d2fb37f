"""Whole rehearsals: offset, repeat, the hash of the assignment, and a run that is paused and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from roambench.cli.pause import pause
from roambench.contract.errors import ConfigError, RunError
from roambench.experiment.load import load_experiment
from roambench.mobility.association import hash_of_steps
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.report.documents.report import json_text
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import comparison_flags, summarise
from roambench.rounds.records import ReplayPaused, ReplayResumed, StepOpened
from roambench.runner.composition import run_experiment
from roambench.runner.world import movement_of
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from small_runs import a_run

CLI = [sys.executable, "-m", "roambench.cli.main"]
# Device 0 moves from AP0 to AP1 and back, device 1 stays at AP1, nobody is there at step 3.
FIXES = [
    (0, 0, 0.0),
    (0, 1, 1000.0),
    (1, 0, 1000.0),
    (2, 0, 0.0),
    (2, 1, 1000.0),
    (4, 1, 1000.0),
    (5, 0, 0.0),
]
STEPS = [((0, 1), (0, 1)), ((0,), (1,)), ((0, 1), (0, 1)), ((), ()), ((1,), (1,)), ((0,), (0,))]


@pytest.fixture
def experiment(tmp_path: Path):
    trace = Trace(
        steps=6,
        step_s=3600.0,
        device_names=("ann", "bob"),
        step=np.array([step for step, _, _ in FIXES], np.int32),
        device=np.array([device for _, device, _ in FIXES], np.int32),
        x_m=np.array([x_m for _, _, x_m in FIXES]),
        y_m=np.zeros(len(FIXES)),
        ap_names=("AP0", "AP1"),
        ap_x_m=np.array([0.0, 1000.0]),
        ap_y_m=np.zeros(2),
    )
    write_trace(trace, tmp_path / "t.parquet")
    (tmp_path / "e.toml").write_text(
        'name = "e"\nsystems = ["mohawk"]\n[trace]\nfile = "t.parquet"\nwindow = "first"\nsteps = 6\n'
        "[fleet]\nagents = 2\naps = 0\n"
    )

    def load(*changes: str):
        return load_experiment(tmp_path / "e.toml", list(changes))

    return load


def rehearse(experiment, runs_dir: Path, *changes: str) -> Path:
    console = Console(file=(runs_dir.parent / "said.txt").open("a"))
    with console.file:
        return run_experiment(experiment(*changes), fleet="rehearsal", runs_dir=runs_dir, console=console)[0]


def opened(run: Path):
    folder = RunFolder.open(run)
    return [(record.devices, record.aps) for record in folder.read_log() if isinstance(record, StepOpened)]


def test_a_run_plays_the_window_from_the_offset_on_as_often_as_asked(experiment, tmp_path):
    run = rehearse(experiment, tmp_path / "runs", "trace.offset=2", "trace.steps=3", "trace.repeat=2")
    # device 0 is present once in steps 2..4, device 1 twice: it is the busier one, and device 0 of the run
    window = [((0, 1), (1, 0)), ((), ()), ((0,), (1,))]
    assert opened(run) == window * 2
    info = RunFolder.open(run).info
    assert info.state is RunState.FINISHED
    assert info.assignment_hash == hash_of_steps(window * 2)
    assert info.association == "NearestAp"


def test_the_hash_of_a_run_is_that_of_the_steps_in_its_journal(experiment, tmp_path):
    run = rehearse(experiment, tmp_path / "runs")
    assert opened(run) == STEPS
    stored = json.loads((run / "run.json").read_text())
    assert stored["assignment_hash"] == hash_of_steps(STEPS) == hash_of_steps(opened(run))


def test_reports_tell_whether_runs_saw_the_same_world(experiment, tmp_path):
    runs_dir = tmp_path / "runs"
    runs = [rehearse(experiment, runs_dir), rehearse(experiment, runs_dir)]
    summaries = [summarise(run) for run in read_runs(runs)]
    assert comparison_flags(summaries) == ()
    assert [run["assignment_hash"] for run in json.loads(json_text(summaries))["runs"]] == [
        hash_of_steps(STEPS)
    ] * 2
    # The same movement a metre to the north: another trace, the same assignment.
    trace = movement_of(experiment()).trace
    object.__setattr__(trace, "y_m", trace.y_m + 1.0)
    write_trace(trace, tmp_path / "t.parquet")
    runs.append(rehearse(experiment, runs_dir))
    flags = comparison_flags([summarise(run) for run in read_runs(runs)])
    assert any("different traces: their differences" in flag for flag in flags)
    labels = ", ".join(f"e/{run.parent.name}/mohawk" for run in runs)
    assert any(flag.startswith(f"{labels}: different traces, but the same devices") for flag in flags)


def test_one_trace_under_a_walk_of_two_seeds_is_two_worlds_and_the_report_says_so(experiment, tmp_path):
    runs = [rehearse(experiment, tmp_path / "runs", 'systems=["macfl"]', f"seed={seed}") for seed in (1, 2)]
    flags = comparison_flags([summarise(run) for run in read_runs(runs)])
    assert [flag for flag in flags if "the same trace and rule (RingWalkAp), but" in flag]


def test_all_that_does_not_fit_the_trace_is_refused_at_once(experiment):
    with pytest.raises(ConfigError) as refused:
        movement_of(experiment("trace.offset=6", "fleet.agents=9", "fleet.aps=99"))
    assert [problem.split(", got")[0] for problem in refused.value.problems] == [
        "fleet.aps: expected 0 (its own 2 access points)",
        "trace.offset: expected 0 to 5, as the trace has 6 steps",
        "fleet.agents: expected at most 2, the devices of the trace (0 for all of them)",
    ]
    assert movement_of(experiment("trace.offset=5")).trace.steps == 1


def test_boards_play_devices_in_waves_where_asked(experiment):
    waves = movement_of(experiment("fleet.agents=1", 'fleet.mapping="waves"', "trace.offset=4")).trace
    assert waves.device_names == ("bob+1",)
    assert waves.step.tolist() == [0, 1]
    top = movement_of(experiment("fleet.agents=1", "trace.offset=4")).trace
    assert top.step.tolist() == [0]


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    done = [*CLI, *(str(argument) for argument in arguments)]
    return subprocess.run(done, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.timeout(600)
def test_a_running_run_is_paused_and_goes_on_to_the_same_end(experiment, tmp_path):
    runs_dir = tmp_path / "runs"
    with (tmp_path / "out.txt").open("w") as out:
        process = subprocess.Popen(
            [
                *CLI,
                "run",
                str(tmp_path / "e.toml"),
                "--fleet",
                "rehearsal",
                "--runs-dir",
                str(runs_dir),
                "--name",
                "held",
                "--set",
                "trace.repeat=200",
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
        try:
            run = runs_dir / "held" / "latest" / "mohawk"
            wait_until(lambda: (run / "run.json").is_file())
            pause(run)
            wait_until(lambda: has_events(run) and kinds(run) == [ReplayPaused])
            steps = len(opened(run))
            assert 0 < steps < len(STEPS) * 200
            time.sleep(0.5)
            assert len(opened(run)) == steps
            assert process.poll() is None
            assert command("resume-replay", run).stdout == f"{run} goes on\n"
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()
    assert kinds(run) == [ReplayPaused, ReplayResumed]
    assert opened(run) == STEPS * 200
    assert RunFolder.open(run).info.assignment_hash == hash_of_steps(STEPS * 200)
    late = command("pause", run)
    assert late.returncode == 1
    assert late.stderr == f"roambench: {run}: the run is finished: nothing to pause or to resume\n"


def test_a_run_that_is_not_paused_cannot_be_resumed(tmp_path):
    folder = a_run(tmp_path / "r", "local", ["a"])
    with folder:
        done = command("resume-replay", tmp_path / "r")
        folder.close(RunState.FINISHED)
    assert (done.returncode, done.stderr) == (1, f"roambench: {tmp_path / 'r'}: is not paused\n")


def kinds(run: Path) -> list[type]:
    holds = (ReplayPaused, ReplayResumed)
    return [type(record) for record in RunFolder.open(run).read_log() if isinstance(record, holds)]


def has_events(run: Path) -> bool:
    """Whether the event log, which is made after run.json, can be read."""
    try:
        kinds(run)
    except RunError:
        return False
    return True


def wait_until(true, patience_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)
