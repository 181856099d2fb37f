"""A selection that sees joules: of virtual devices over kills of the controller, of agents over a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreign_packages import install
from roambench.contract.phases import Phase
from roambench.report.summaries.evidence import read_runs
from roambench.rounds.records import EnergySeen, OrderGiven
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model

from .resumed import story, whole_and_killed

pytestmark = pytest.mark.timeout(600)

#: One device, then two, then one, ...: those with the fewest joules.
THRIFTY = """
from dataclasses import replace

import numpy as np

from roambench.systems.mohawk import mohawk
from roambench.systems.system import Selected, Selection


def choose(offered):
    turn = offered.memory.get("turn", np.zeros(1))
    ranked = sorted(offered.devices, key=lambda device: (offered.energy[device].total.joules, device))
    return Selected(ranked[: 1 + int(turn[0]) % 2], {"turn": turn + 1.0})


def thrifty(options):
    \"\"\"MOHAWK whose thriftiest devices train.\"\"\"
    return replace(mohawk(options), name="thrifty", selection=Selection(choose, sees_energy=True))
"""
ROUNDS = """
name = "cut"
seed = 5
systems = ["thrifty"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 9, parameters = { presence = "always", devices = 6 } }
fleet = { agents = 6, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 100, test_images = 50, local_epochs = 5 }
simulated = { workers = 2 }
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"roambench.systems": {"thrifty": "pocket_bench.thrifty:thrifty"}}
    site = install(tmp_path, {"pocket_bench/thrifty.py": THRIFTY}, points)
    monkeypatch.setenv("PYTHONPATH", str(site))


def seen_and_trained(path: Path) -> list[tuple[dict[int, float], set[int]]]:
    """Of each step what the selection saw, J by device, and who trained."""
    with RunFolder.open(path) as folder:
        log = folder.read_log()
    seen = {
        record.step: {
            device: joules
            for device, phase, joules in zip(record.devices, record.phases, record.joules, strict=True)
            if not phase
        }
        for record in log.only(EnergySeen)
    }
    trained = {step: set[int]() for step in seen}
    for order in log.only(OrderGiven):
        if order.kind == "train":
            trained[order.step].add(order.device)
    return [(seen[step], trained[step]) for step in sorted(seen)]


def were_thrifty(steps: list[tuple[dict[int, float], set[int]]]) -> bool:
    return all(
        trained == set(sorted(seen, key=lambda device: (seen[device], device))[: 1 + turn % 2])
        for turn, (seen, trained) in enumerate(steps)
    )


def test_virtual_devices_are_chosen_by_joules_as_ever_after_a_kill(tmp_path: Path) -> None:
    whole, run = whole_and_killed(tmp_path, ROUNDS, "thrifty")
    assert story(run) == story(whole)
    steps = seen_and_trained(whole)
    assert were_thrifty(steps)
    assert any(len(set(seen.values())) > 2 for seen, _ in steps)
    # What was seen last is what the ledger of the finished run says of the work before.
    (found,) = read_runs([whole])
    assert found.modelled is not None
    ledger, last = found.modelled.ledger, len(steps) - 1
    uploads = ledger.of_phase(Phase.UPLOAD) & (ledger.work.at_step == last)
    before = (ledger.work.at_step < last) | uploads
    for device, joules in steps[last][0].items():
        of_device = ledger.total("gross", before & (ledger.device == device)).joules
        assert joules == pytest.approx(of_device, rel=1e-12)


def test_agents_are_chosen_by_measured_joules_and_a_replay_ends_as_the_run(launch) -> None:
    run = (
        launch('systems=["thrifty"]', "fleet.agents=3", "rounds.cloud_every_steps=2")
        .finish()
        .folder("thrifty")
    )
    steps = seen_and_trained(run)
    assert were_thrifty(steps)
    assert any(max(seen.values()) > 1.0 for seen, _ in steps)
    again = launch(
        'systems=["thrifty"]',
        "fleet.agents=3",
        "rounds.cloud_every_steps=2",
        f'rounds.orders="replay:{run}"',
    )
    replayed = again.finish().folder("thrifty")
    trained = [
        {(o.step, o.device) for o in RunFolder.open(path).read_log().only(OrderGiven) if o.kind == "train"}
        for path in (run, replayed)
    ]
    assert trained[0] == trained[1]
    assert (load_model(run / GLOBAL_MODEL) == load_model(replayed / GLOBAL_MODEL)).all()
