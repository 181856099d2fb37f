"""Rests of whole runs: around every phase that is measured, on all fleets, and never a part of the result."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.experiment.load import load_experiment
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder

from .conftest import SMALL

pytestmark = pytest.mark.timeout(600)

REST_S = 2.0
TOLERANCE_S = 0.02
PEERS = """
name = "small"
seed = 11
systems = ["d_psgd"]
fleet.agents = 2
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 50 }
mobility = { model = "random", grid = 2, mobile = 2 }
contacts.radius = 5.0
decentralised = { iterations = 3, evaluate_every = 3 }
rounds.rest_s = 2.0
local = { time_scale = 4.0, sgd_step_s = 0.3 }
energy.idle_baseline_s = 2.0
"""


def spans_of(path: Path) -> dict[str, list[tuple[Phase, float]]]:
    """By device, in order: what it did, and for how long."""
    found: dict[str, list[tuple[Phase, float]]] = {}
    for row in pq.read_table(path / "phases.parquet").sort_by("start_ns").to_pylist():
        duration_s = (row["end_ns"] - row["start_ns"]) * 1e-9
        found.setdefault(row["device"], []).append((Phase(row["phase"]), duration_s))
    return found


def assert_rested(spans: list[tuple[Phase, float]]) -> int:
    """Every measured phase stands between rests; returns how many there are."""
    stretches: list[tuple[Phase, float]] = []  # idling and resting that follow each other are one
    for phase, duration_s in spans:
        kind = Phase.REST if phase is Phase.IDLE else phase
        if stretches and kind is Phase.REST and stretches[-1][0] is Phase.REST:
            stretches[-1] = (Phase.REST, stretches[-1][1] + duration_s)
        else:
            stretches.append((kind, duration_s))
    measured = [at for at, (phase, _) in enumerate(stretches) if phase in ACTIVE_PHASES]
    for at in measured:
        (before, before_s), (after, after_s) = stretches[at - 1], stretches[at + 1]
        assert (before, after) == (Phase.REST, Phase.REST)
        assert before_s >= 0.5 * REST_S - TOLERANCE_S
        assert after_s >= REST_S - TOLERANCE_S
    return len(measured)


def test_boards_rest_around_downloads_trainings_and_uploads_and_no_deadline_pays_for_it(launch):
    """An order has 4 s; a training with its rests takes 5 s at least."""
    settings = ("trace.steps=3", "fleet.agents=2", f"rounds.rest_s={REST_S}", "fleet.deadline_s=4")
    run = launch(*settings, "local.sgd_step_s=0.1", "local.time_scale=2").finish()
    assert {answer.status for answer in run.of(OrderAnswered)} == {"done"}
    spans = spans_of(run.folder())
    assert [assert_rested(own) for own in spans.values()] == [
        8 - 2,
        8 - 2,
    ]  # 2 x 3; the last step only collects
    with RunFolder.open(run.folder()) as folder:
        assert folder.info.rest_s == REST_S


def test_boards_rest_around_exchanges(launch, tmp_path):
    file = tmp_path / "peers.toml"
    file.write_text(PEERS)
    run = launch(file=file).finish()
    spans = spans_of(run.folder("d_psgd"))
    assert all(assert_rested(own) >= 2 * 3 for own in spans.values())
    assert all(sum(phase is Phase.EXCHANGE for phase, _ in own) >= 3 for own in spans.values())


def digests(path: Path) -> list[str]:
    with RunFolder.open(path) as folder:
        return [r.digest for r in folder.read_log() if isinstance(r, EdgeAggregated | CloudAggregated)]


@pytest.mark.usefixtures("workers_of_one_server")
def test_models_are_the_same_whether_devices_rest_or_not_on_agents_and_on_virtual_devices(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    found = {}
    # That agents without rests learn the same too is said by test_fleets_agree.
    for fleet, rest_s in (("local", REST_S), ("simulated", 0.0), ("simulated", REST_S)):
        settings = [f"rounds.rest_s={rest_s}", "trace.steps=4", "fleet.agents=2", "local.time_scale=12"]
        experiment = load_experiment(tmp_path / "small.toml", settings)
        runs_dir = tmp_path / f"{fleet}-{rest_s:g}"
        quiet = Console(quiet=True)
        run_experiment(experiment, fleet=fleet, runs_dir=runs_dir, console=quiet)
        path = (runs_dir / "small/latest").resolve() / "mohawk"
        found[fleet, rest_s] = digests(path)
        if fleet == "simulated":
            ledger = pq.read_table(path / "ledger_modelled.parquet").to_pylist()
            assert any(row["phase"] == "rest" for row in ledger) == (rest_s > 0.0)
    first = found["local", REST_S]
    assert len(first) > 3
    assert all(other == first for other in found.values())
