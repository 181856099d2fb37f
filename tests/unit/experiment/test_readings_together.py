"""Keys that choose a reading of a paper go together, or are one mistake each."""

from __future__ import annotations

from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'algorithm.association = "trace"\nfleet.aps = 20',
            'algorithm.association: expected fleet.aps = 0 beside "trace": drawn APs are not those that '
            "the trace recorded",
        ),
        (
            'learning.optimiser = "adam"\nsimulated.backend = "stacked"',
            'learning.optimiser: expected "sgd" beside simulated.backend = "stacked"',
        ),
        ("synthetic.classes = 1", "synthetic.classes: expected an integer ≥ 2, got 1"),
        ("learning.local_steps = -1", "learning.local_steps: expected an integer ≥ 0, got -1"),
        ('algorithm.ties = "first"', 'algorithm.ties: expected one of "lowest", "random", got "first"'),
    ],
)
def test_readings_that_do_not_go_together_are_one_line_each(tmp_path: Path, text: str, problem: str):
    path = tmp_path / "demo.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, ())
    assert without_lines(caught.value.problems) == (f"demo.toml: {problem}",)


def test_recorded_edges_are_accepted_with_the_traces_own_aps(tmp_path: Path):
    path = tmp_path / "demo.toml"
    path.write_text('algorithm.association = "trace"\nfleet.aps = 0\n')
    assert load_experiment(path, ()).algorithm.association == "trace"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('systems = ["mohawk", "mohawk"]', "systems: expected each system once, got mohawk twice"),
        (
            "rounds.metric_threshold = 0.5",
            "rounds.metric_threshold: expected learning.task beside it, with metrics",
        ),
        (
            'trace.file = "nothere.parquet"',
            "trace.file: expected a trace file, nothere.parquet does not exist",
        ),
        ('learning.data_path = "nothere"', "learning.data_path: expected a folder, nothere does not exist"),
        ("local.meter_stall_at_s = 3.0", "local.meter_stall_at_s: expected meter_stall_s > 0 beside it"),
        (
            'simulated.ray_address = "head:6379"',
            'simulated.ray_address: expects backend = "ray": no other uses it',
        ),
        (
            'simulated.backend = "ray"\nsimulated.ray_address = "head"',
            'simulated.ray_address: expected "auto" or "host:port", got "head"',
        ),
        (
            'simulated.precision = "tf32"\nsimulated.backend = "stacked"\nsimulated.device = "cpu"',
            'simulated.precision: expected a GPU for "tf32", device is "cpu"',
        ),
        (
            'simulated.precision = "bfloat16"',
            'simulated.precision: "bfloat16" expects backend = "stacked", got "workers"',
        ),
        (
            'influxdb = {store = "influxdb"}',
            "influxdb.url: expected an address: the records would be nowhere",
        ),
        (
            'local.time_scale = 5.0\nlocal.meters.pi-01 = {driver = "smartpower2", port = "/dev/ttyUSB0"}',
            "local.time_scale: expected 1 beside meters: a real one runs no faster, got 5.0",
        ),
        (
            'systems = ["mohawk", "fully_connected"]',
            "systems: expected decentralised systems only beside fully_connected, or none, got mohawk",
        ),
    ],
)
def test_what_a_file_says_must_fit_together(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, ())
    assert f"demo.toml: {problem}" in [
        line.replace(f"{tmp_path}/", "") for line in without_lines(caught.value.problems)
    ]
