"""A decentralised experiment from the command line to its report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from page_data import page_data
from peers_file import peers_file
from roambench.cli.main import app
from roambench.report.report import report


@pytest.mark.usefixtures("workers_of_one_server")
def test_a_decentralised_experiment_runs_from_the_command_line_to_its_report(tmp_path: Path) -> None:
    path = peers_file(tmp_path)
    html = tmp_path / "report.html"
    told = CliRunner().invoke(
        app,
        [
            "run",
            str(path),
            "--fleet",
            "simulated",
            "--runs-dir",
            str(tmp_path / "runs"),
            "-o",
            str(html),
            "--full",
        ],
    )
    assert told.exit_code == 0, told.output
    assert "Joules per point of accuracy" in told.output
    page = html.read_text()
    page += json.dumps(page_data(page))
    for told_there in ("peer-accuracy", "peer-gap", "peer-neighbours", "peer-mixing", "Joules per point"):
        assert told_there in page
    assert "accuracy of the models, %" in page
    assert "the mean over the devices&#39; own models" in page
    for of_a_server in ("access points aggregated", "aggregated per step</span>", "the cloud aggregated"):
        assert of_a_server not in page
    left_out = re.search(r'models left out</span><span class="value">(\d+) of (\d+)<', page)
    assert left_out is not None
    folders = sorted((tmp_path / "runs" / "peers" / "latest").iterdir())
    assert [folder.name for folder in folders if folder.is_dir()] == [
        "d_psgd",
        "metropolis_hastings",
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
