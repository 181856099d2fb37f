"""`rounds.lookahead`, the setting behind MOHAWK's Tables 6 and 10, trained on virtual devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.runner.composition import run_experiment

FILE = """\
seed = 5
systems = ["mohawk", "hierfavg"]
[trace]
generator = "city"
window = "first"
steps = 16
parameters = { devices = 150, aps = 6, steps = 40 }
offset = 20
[fleet]
agents = 0
aps = 6
[learning]
model = "mlp"
images_per_device = 16
[rounds]
cloud_every_steps = 3
[simulated]
workers = 1
"""


def runs_of(folder: Path, lookahead: bool) -> dict[str, RunSummary]:
    folder.mkdir()
    path = folder / "world.toml"
    path.write_text(
        f"name = 'w'\n{FILE}".replace("[rounds]", f"[rounds]\nlookahead = {str(lookahead).lower()}")
    )
    found = run_experiment(
        load_experiment(path), fleet="simulated", runs_dir=folder, console=Console(quiet=True)
    )
    return {run.info.system: run for run in report(found).summaries}


@pytest.mark.usefixtures("workers_of_one_server")
def test_an_oracle_wastes_little_ends_with_the_same_models_and_is_flagged(tmp_path: Path) -> None:
    plain, oracle = runs_of(tmp_path / "plain", False), runs_of(tmp_path / "oracle", True)
    for system in ("mohawk", "hierfavg"):
        blind, knowing = plain[system], oracle[system]
        assert blind.trainings.wasted_share is not None
        assert knowing.trainings.wasted_share is not None
        assert knowing.trainings.wasted_share < 0.5 * blind.trainings.wasted_share
        assert knowing.trainings.ordered < blind.trainings.ordered
        # What is not aggregated changes no model.
        assert knowing.learning.final_accuracy == blind.learning.final_accuracy
        assert [p.accuracy for p in knowing.learning.points] == [p.accuracy for p in blind.learning.points]
        assert any("oracle" in flag for flag in knowing.flags)
        assert not any("oracle" in flag for flag in blind.flags)


def test_agents_refuse_an_oracle(tmp_path: Path) -> None:
    path = tmp_path / "world.toml"
    path.write_text(f"name = 'w'\n{FILE}".replace("[rounds]", "[rounds]\nlookahead = true"))
    with pytest.raises(ConfigError, match="an oracle that no bench has; expected false except on virtual"):
        run_experiment(load_experiment(path), fleet="local", runs_dir=tmp_path, console=Console(quiet=True))
