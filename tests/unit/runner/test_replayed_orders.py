"""`rounds.orders = "replay:RUN"`: an earlier run's trainings, and nobody else's; and what a report says of
runs whose orders differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.report.summaries.evidence import first_difference, read_runs, trainings
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

EXPERIMENT = """
name = "few"
seed = 5
systems = ["fedavg"]
trace.generator = "city"
trace.window = "first"
trace.steps = 5
trace.parameters = { presence = "always", devices = 12, steps = 6, places = 100, aps = 20 }
fleet = { agents = 12, aps = 2 }
learning = { dataset = "synthetic", images_per_device = 8 }
algorithm = { per_ap = 2 }
rounds = { cloud_every_steps = 2 }
"""


@pytest.fixture
def run(tmp_path: Path):
    file = tmp_path / "e.toml"
    file.write_text(EXPERIMENT)

    def start(*overrides: str) -> Path:
        experiment = load_experiment(file, list(overrides))
        quiet = Console(quiet=True)
        return run_experiment(experiment, fleet="rehearsal", runs_dir=tmp_path / "runs", console=quiet)[0]

    return start


def ordered(path: Path) -> set[tuple[int, int]]:
    (found,) = read_runs([path])
    return {(int(step), int(device)) for step, device in trainings(found)}


def test_who_trains_is_who_trained_then_whatever_the_selection_would_say_now(run):
    """Two devices per AP were drawn; replayed, they train although every device could be chosen."""
    before = run()
    everybody = run("algorithm.per_ap=100")
    replayed = run("algorithm.per_ap=100", f'rounds.orders="replay:{before}"')
    assert ordered(replayed) == ordered(before)
    assert ordered(replayed) < ordered(everybody)


def test_system_in_the_path_stands_for_the_systems_name(run):
    before = run()
    pattern = str(before).replace("fedavg", "{system}")
    assert ordered(run("algorithm.per_ap=100", f'rounds.orders="replay:{pattern}"')) == ordered(before)


def test_a_run_of_another_experiment_cannot_be_replayed_and_all_reasons_are_told(run):
    before = run()
    with pytest.raises(ConfigError) as refused:
        run("seed=6", 'systems=["mohawk"]', f'rounds.orders="replay:{before}"')
    said = "\n".join(refused.value.problems)
    assert "expected a run with system mohawk, got fedavg" in said
    assert "expected a run with seed 6, got seed 5" in said


def test_a_run_that_ended_early_cannot_be_replayed(run):
    before = run()
    with RunFolder.open(before, write=True) as folder:
        folder.update(state=RunState.FAILED)
    with pytest.raises(ConfigError, match="expected a run with state finished, got state failed"):
        run(f'rounds.orders="replay:{before}"')


def test_a_report_names_the_step_from_which_orders_of_one_experiment_differ(run):
    """The same experiment by its words; one of them was forced to train others (per_ap 1: a subset)."""
    fewer = run("algorithm.per_ap=1")
    first = run()
    forced = run(f'rounds.orders="replay:{fewer}"')
    runs = read_runs([first, forced])
    assert runs[0].notes == ()
    assert f"given other orders than {runs[0].label} from step 0 on" in runs[1].notes[0]
    assert f'rounds.orders = "replay:{first}"' in runs[1].notes[0]
    equal = run(f'rounds.orders="replay:{first}"')
    assert [found.notes for found in read_runs([first, equal])] == [(), ()]


def test_runs_of_different_experiments_are_not_held_against_each_other(run):
    assert [found.notes for found in read_runs([run(), run("algorithm.per_ap=1")])] == [(), ()]


def test_the_first_difference_is_a_step_and_none_between_equals():
    left = np.array([[0, 1], [0, 2], [1, 7]])
    assert first_difference(left, left[::-1]) is None
    assert first_difference(left, np.array([[0, 1], [0, 2], [1, 8]])) == 1
    assert first_difference(left, np.zeros((0, 2), np.int64)) == 0
    assert first_difference(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)) is None
