"""Options of systems are keys of the experiment's tables, each of one table only."""

from dataclasses import fields
from pathlib import Path

from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.runner.ready import DEMO
from roambench.runner.world import system_options
from roambench.systems.options import SystemOptions

RENAMED = {"k1": ("learning", "local_epochs"), "k2": ("rounds", "cloud_every_steps")}
COMPOSED = {"local", "shapes"}
TABLES = ("learning", "rounds", "algorithm", "battery")


def test_every_option_is_a_key_of_one_table() -> None:
    sections = [Experiment.model_fields[name].annotation for name in TABLES]
    for option in {field.name for field in fields(SystemOptions)} - RENAMED.keys() - COMPOSED:
        assert sum(option in section.model_fields for section in sections if section is not None) == 1, option


def test_an_option_has_the_value_of_its_key(tmp_path: Path) -> None:
    changes = ["learning.local_epochs=3", "rounds.cloud_every_steps=7", "algorithm.lambda1=0.5"]
    options = system_options(load_experiment(DEMO, overrides=changes), ((2, 3),))
    assert (options.k1, options.k2, options.lambda1, options.shapes) == (3, 7, 0.5, ((2, 3),))
