"""Runs of a sweep that stack their trainings share one process: figures and deaths are their own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from .test_sweep_runs import CLI, TINY, outcomes, sweep, wait_for

pytestmark = [pytest.mark.timeout(300), pytest.mark.lengthy]

STACKED = TINY.replace("steps = 6", "steps = 24").replace("agents = 4", "agents = 12") + (
    '[simulated]\nbackend = "stacked"\ndevice = "cpu"\nprecision = "float64"\n'
)
TIMES = ("wall_s", "began", "ended")


def models_in(out: Path) -> dict[str, dict[str, np.ndarray]]:
    found = out.glob("points/*/runs/*/models/global.safetensors")
    return {path.parents[3].name: load_file(path) for path in found}


def stackers_of(pid: int) -> list[psutil.Process]:
    return [
        one
        for one in psutil.Process(pid).children(recursive=True)
        if "roambench.fleet.simulated.stacked_worker" in one.cmdline()
    ]


def test_runs_that_share_stacks_have_the_figures_of_runs_alone_whichever_of_them_is_killed(
    tmp_path: Path,
) -> None:
    """Killed is the run that started the process. The same command goes on with it."""
    (tmp_path / "tiny.toml").write_text(STACKED)
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 3\n')
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    with subprocess.Popen(
        [*CLI, "sweep", "s.toml", "--jobs", "3", "-o", "shared"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        wait_for(shared, "points/*/runs/*/events.sqlite", 3)
        deadline_s = time.monotonic() + 60.0
        while not (processes := stackers_of(running.pid)):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        (process,) = processes
        starter = process.parent()
        assert starter is not None
        starter.kill()
        _, errors = running.communicate(timeout=200)
    assert errors.splitlines()[-1] == "roambench: 1 of 3 runs failed"
    reasons = sorted(str(outcome["reason"]) for outcome in outcomes(shared).values())
    assert reasons[:2] == ["", ""]
    assert reasons[2].startswith("its process was killed by SIGKILL; see ")
    psutil.wait_procs([process], timeout=60)
    assert not process.is_running()

    again = sweep("s.toml", "--jobs", "3", "-o", "shared", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    sweep("s.toml", "--jobs", "1", "-o", "alone", cwd=tmp_path).check_returncode()
    assert (shared / "runs.csv").read_text() == (alone / "runs.csv").read_text()
    ours, theirs = models_in(shared), models_in(alone)
    assert ours.keys() == theirs.keys()
    for name, model in theirs.items():
        for entry, values in model.items():
            np.testing.assert_allclose(ours[name][entry], values, rtol=1e-9, atol=1e-12)
