"""Waste on the synthetic city, from experiment file to run folder: rehearsed, because whole days matter."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from roambench.experiment.load import load_experiment
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder
from tally import Tally, tally

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("workers_of_one_server")]

EXPERIMENT = """
name = "city"
systems = ["mohawk", "hierfavg"]
trace.generator = "city"
trace.window = "first"
trace.steps = 48
trace.parameters = { devices = 300, steps = 48, places = 1000 }
fleet = { agents = 60, aps = 20 }
rounds = { cloud_every_steps = 5 }
"""


@pytest.fixture
def rehearse(tmp_path: Path):
    """The tallies of MOHAWK and HierFAVG over one seed's city."""
    file = tmp_path / "city.toml"
    file.write_text(EXPERIMENT)

    def run(seed: int, *overrides: str) -> tuple[Tally, Tally]:
        experiment = load_experiment(file, [f"seed={seed}", *overrides])
        paths = run_experiment(
            experiment,
            fleet="rehearsal",
            runs_dir=tmp_path / f"runs-{seed}",
            console=Console(file=io.StringIO()),
        )
        tallies = []
        for path in paths:
            with RunFolder.open(path) as folder:
                tallies.append(tally(folder.read_log()))
        mohawk, hierfavg = tallies
        return mohawk, hierfavg

    return run


def test_mohawk_wastes_less_with_95_percent_confidence_over_6_cities(rehearse):
    differences = []
    for seed in range(6):
        mohawk, hierfavg = rehearse(seed)
        assert mohawk.trainings == hierfavg.trainings > 200
        assert hierfavg.wasted > mohawk.wasted > 0
        differences.append(hierfavg.wasted_share - mohawk.wasted_share)
    low, high = stats.t.interval(0.95, 5, np.mean(differences), stats.sem(differences))
    assert 0.0 < low < high < 1.0


@pytest.mark.parametrize("seed", [0, 1])
def test_where_everybody_stays_present_both_waste_the_same(rehearse, seed):
    mohawk, hierfavg = rehearse(seed, 'trace.parameters.presence="always"', "fleet.agents=12")
    assert mohawk.trainings == hierfavg.trainings == 12 * 47
    assert mohawk.wasted == hierfavg.wasted == 0
    assert mohawk.aggregated_by_step == hierfavg.aggregated_by_step == (0, *[12] * 47)
