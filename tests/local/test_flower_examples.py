"""Flower's own examples, unchanged, on agents and on virtual devices: what they leave is the same.

ROAMBENCH_FLOWER_EXAMPLES names a folder of them, as `examples` in a clone of Flower's repository is one, and
ROAMBENCH_FLOWER_PYTHON an interpreter with flwr and what they import: torch, scikit-learn, xgboost. What they
download is drawn (`flower_standins`). Nothing of Flower's is kept here.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from flower_apps import PYTHON, played, values_of
from flower_standins import write_standins
from roambench.contract.phases import Phase
from roambench.report.report import report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "ROAMBENCH_FLOWER_EXAMPLES" not in os.environ, reason="ROAMBENCH_FLOWER_EXAMPLES: no examples named"
    ),
]


@pytest.mark.parametrize(
    ("example", "settings", "left"),
    [
        ("quickstart-pytorch", {}, "final_model.pt"),
        ("quickstart-numpy", {}, "final_model.npz"),
        ("quickstart-sklearn", {}, "logreg_model.pkl"),
        ("quickstart-xgboost", {}, "final_model.json"),
        ("flower-simulation-step-by-step-pytorch/my-awesome-app", {"fraction-fit": 1.0}, ""),
    ],
)
def test_an_example_of_flower_runs_as_it_is(
    example: str, settings: dict[str, Any], left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # where our tests hide pandas
    app = tmp_path / "app"
    shutil.copytree(Path(os.environ["ROAMBENCH_FLOWER_EXAMPLES"]) / example, app)
    write_standins(app)
    values = values_of(
        app,
        3,
        {"num-server-rounds": 2, **settings},
        fleet={"deadline_s": 480},
        program={"python": os.environ.get("ROAMBENCH_FLOWER_PYTHON", str(PYTHON))},
        energy={"idle_baseline_s": 5},
        rounds={"rest_s": 0},
    )
    folders = {fleet: played(values, tmp_path / fleet, fleet) for fleet in ("simulated", "local")}
    places = {fleet: folder.path / "server-app" for fleet, folder in folders.items()}
    if left:
        models = {fleet: (place / left).read_bytes() for fleet, place in places.items()}
        assert models["local"] == models["simulated"]
    else:  # of the older interface, whose threads end in no order: equal to rounding
        local, virtual = (json.loads((place / "results.json").read_text()) for place in places.values())
        assert local.keys() == virtual.keys() == {"0", "1", "2"}
        for turn, scores in local.items():
            assert scores == pytest.approx(virtual[turn], abs=0.05)
    (summary,) = report([folders["local"].path]).summaries
    assert summary.orders.answers[("train", "done")] >= 4
    assert summary.energy is not None
    joules = {item.phase: item.gross.joules for item in summary.energy.phases}
    assert all(joules[phase] > 0.0 for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.EVALUATE, Phase.UPLOAD))
