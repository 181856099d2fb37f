"""Scores in bfloat16 are told from others wherever a run is read or checked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

import roambench as rb
from roambench.cli.main import app
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.world import learning_task_of
from roambench.study.sweep.points import point_key

EXPERIMENT = """
name = "small"
systems = ["mohawk"]
[trace]
steps = 3
[fleet]
agents = 3
[learning]
images_per_device = 20
score_precision = "bfloat16"
"""
TASK = """
from roambench.learning.evaluation import evaluate
class Task:
    def load(self, folder, download): ...
    def build(self, in_channels, classes): ...
    def evaluate(self, module, vector, images, labels):
        return evaluate(module, vector, images, labels)
"""


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.lengthy
def test_a_report_says_in_what_a_run_was_scored_and_check_scores_likewise(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    (run,) = rb.run(tmp_path / "small.toml", fleet="simulated", runs_dir=tmp_path / "runs")
    assert "scored in" in shown("report", str(run.path), "-o", str(tmp_path / "report.html"), "--full")
    assert "scored in bfloat16" in (tmp_path / "report.html").read_text()
    shown("check", str(run.path))


def test_scores_differ_and_the_model_is_scored_as_the_experiment_says() -> None:
    scores = []
    for precision in ("float32", "bfloat16"):
        told = Experiment.model_validate(
            {"learning": {"dataset": "digits", "model": "mlp", "score_precision": precision}}
        )
        task = learning_task_of(told, 2)
        scores.append(asyncio.run(TestSetEvaluator(told, task).score(task.initial_model)))
    assert scores[0].loss != scores[1].loss == pytest.approx(scores[0].loss, rel=0.02)


def test_runs_that_are_scored_otherwise_are_other_points_of_a_sweep() -> None:
    plain, coarse = (
        Experiment.model_validate({"learning": {"score_precision": precision}})
        for precision in ("float32", "bfloat16")
    )
    assert point_key(plain, "simulated", "") != point_key(coarse, "simulated", "")


def test_a_task_that_scores_by_itself_has_no_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_scores.py").write_text(TASK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(
        EXPERIMENT.replace("[learning]\n", '[learning]\ntask = "own_scores:Task"\n')
    )
    with pytest.raises(ConfigError, match="score_precision: expected none beside a task that scores by"):
        load_experiment(tmp_path / "small.toml")
