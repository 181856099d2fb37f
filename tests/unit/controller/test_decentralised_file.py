"""Decentralised experiment files: all mistakes at once; from the command line to the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.contract.errors import ConfigError
from roambench.controller.cli import app
from roambench.experiment.load import load_experiment
from roambench.report.report import report

GOOD = """
name = "peers"
systems = ["d_psgd", "metropolis_hastings"]

[fleet]
agents = 5

[learning]
dataset = "digits"
model = "mlp"
images_per_device = 20

[decentralised]
iterations = 4
evaluate_every = 2
half_step = "full_batch"

[mobility]
model = "dcm"
mobile = 2
grid = 6

[simulated]
workers = 1
"""


def problems_of(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "peers.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(path)
    return caught.value.problems


def test_all_mistakes_of_a_decentralised_file_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace('"metropolis_hastings"]', '"mohawk"]')
    text = text.replace("mobile = 2", "mobile = 9").replace('"full_batch"', '"whole"')
    text += 'backend = "stacked"\n[contacts]\nradius = -1.0\n'
    problems = "\n".join(problems_of(tmp_path, text))
    assert (
        "peers.toml: systems: expected decentralised systems only beside d_psgd, or none, got mohawk"
        in problems
    )
    assert "mobility.mobile: expected at most the 5 devices, got 9" in problems
    assert 'decentralised.half_step: expected one of "mini_batch", "full_batch", "epochs"' in problems
    assert "contacts.radius" in problems
    assert 'learning.momentum: expected 0 beside simulated.backend = "stacked"' in problems


def test_movers_that_go_by_the_data_of_others_need_somebody_who_stays(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, GOOD.replace("mobile = 2", "mobile = 5"))
    assert problem.endswith('expected fewer than the 5 devices: "dcm" goes where static devices are')


def test_all_devices_of_a_trace_make_sense_only_where_there_is_one(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, GOOD.replace("agents = 5", "agents = 0"))
    assert 'fleet.agents: expected a number of devices beside mobility.model = "dcm"' in problem


def test_adam_is_refused(tmp_path: Path) -> None:
    (problem,) = problems_of(
        tmp_path, GOOD.replace("images_per_device", 'optimiser = "adam"\nimages_per_device')
    )
    assert 'learning.optimiser: expected "sgd"' in problem


def test_a_decentralised_experiment_runs_from_the_command_line_to_its_report(tmp_path: Path) -> None:
    path = tmp_path / "peers.toml"
    path.write_text(GOOD)
    html = tmp_path / "report.html"
    told = CliRunner().invoke(
        app,
        ["run", str(path), "--fleet", "simulated", "--runs-dir", str(tmp_path / "runs"), "--html", str(html)],
    )
    assert told.exit_code == 0, told.output
    assert "Joules per point of accuracy" in told.output
    page = html.read_text()
    for told_there in ("peer-accuracy", "peer-gap", "peer-neighbours", "peer-mixing", "Joules per point"):
        assert told_there in page
    assert "accuracy of the models, %" in page
    assert "the mean over the devices&#x27; own models" in page
    for of_a_server in ("access points aggregated", "aggregated per step</span>", "the cloud aggregated"):
        assert of_a_server not in page
    left_out = re.search(r'models left out</span><span class="value">(\d+) of (\d+)<', page)
    assert left_out is not None
    folders = sorted((tmp_path / "runs").iterdir())
    assert [folder.name for folder in folders if folder.is_dir()] == [
        "peers-d_psgd",
        "peers-metropolis_hastings",
    ]
    assert (folders[0] / "models" / "global.safetensors").is_file()
    document = json.loads(report([folders[0]]).json())["runs"][0]
    peers = document["decentralised"]
    assert left_out.groups() == ("0", str(peers["exchanges"]))
    assert [score["step"] for score in peers["scores"]] == [1, 3]
    assert document["trainings"] == document["trainings"] | {"ordered": 20, "aggregated": 20, "wasted": 0}
    phases = document["energy_modelled"]["phases"]
    # Every model between two devices is charged to both: what one sends the other receives.
    assert peers["sent_bytes"] == peers["received_bytes"] > 0
    assert phases["exchange"]["bytes"] == peers["sent_bytes"] + peers["received_bytes"]
    assert phases["exchange"]["count"] > 0
    assert phases["train"]["count"] == 20
