"""Calibration finds radios that it was not told: the acceptance figures, through the benchmark's own door."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samples import sampled

pytestmark = pytest.mark.lengthy

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "calibration.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    # Small matrices: on a busy machine a BLAS with several threads took ten times as long as with one.
    return subprocess.run(
        [sys.executable, str(BENCHMARK), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize(("boards", "least"), sampled([(6, 5)], [(20, 17)]))
def test_drawn_boards_lie_in_their_intervals_which_are_within_10_percent(boards: int, least: int):
    done = run("--seeds", str(boards), "--meter", "off the shelf")
    assert done.returncode == 0, done.stdout + done.stderr
    for parameter in ("alpha_up", "alpha_down", "beta"):
        (row,) = [
            line for line in done.stdout.splitlines() if line.startswith(f"off the shelf   {parameter}")
        ]
        held, of = row.split()[4].split("/")
        assert int(held) >= least
        assert int(of) == boards
        assert float(row.split()[6]) <= 10.0, row  # the worst half-width in percent
        assert 0.6 <= float(row.split()[9]) <= 1.5, row  # sd of z: intervals are as wide as errors are
    (told,) = [line for line in done.stdout.splitlines() if "mean chi2/dof" in line]
    assert 0.6 <= float(told.split("chi2/dof ")[1].split(",")[0]) <= 1.7, told  # nothing is counted twice


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_own_sweep_does_as_well():
    done = run("--seeds", "20", "--full")
    assert done.returncode == 0, done.stdout + done.stderr
