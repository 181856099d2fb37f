"""A plan keeps columns and sums of what it rehearsed, and tells the disk that the run then takes."""

from __future__ import annotations

import gc
from pathlib import Path

from rich.console import Console

from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.plan.costs import MachineCosts
from roambench.plan.fleet import planned_fleet
from roambench.plan.plan import plan_experiment
from roambench.plan.rounds import rehearse_rounds
from roambench.rounds.records import OrderAnswered, OrderGiven
from roambench.runner.composition import run_experiment
from roambench.runner.world import movement_of
from roambench.runs.folder import RunFolder

COSTS = MachineCosts(0.01, 0.1, 0.2, 0.3, 2.5, 2_500_000, 4, 1.0, 0.4)


def experiment(devices: int, steps: int) -> Experiment:
    values = {
        "name": "many",
        "systems": ["mohawk"],
        "trace": {
            "generator": "city",
            "window": "first",
            "steps": steps,
            "parameters": {"devices": devices, "aps": 20, "steps": steps, "presence": "always"},
        },
        "fleet": {"agents": 0, "aps": 20},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 40},
    }
    return load_experiment(WrittenExperiment(values, "here", Path()))


def test_a_rehearsal_for_a_plan_leaves_no_record_in_memory(tmp_path: Path) -> None:
    many = experiment(1_100, 3)
    fleet, movement = planned_fleet(many, "simulated"), movement_of(many)
    with RunFolder.create(
        tmp_path / "run",
        many,
        run_id="many",
        system="mohawk",
        trace_hash=movement.content_hash,
        fleet="simulated",
        device_names=movement.trace.device_names,
    ) as folder:
        rehearsed = rehearse_rounds(fleet, "mohawk", movement, (40,) * 1_100, folder, COSTS)
    assert not [one for one in gc.get_objects() if type(one) in (OrderGiven, OrderAnswered)]
    trained = rehearsed.records.array(OrderAnswered, "samples") > 0
    assert rehearsed.records.count(OrderGiven) == rehearsed.records.count(OrderAnswered) > 4_000
    # A virtual fleet computes the models that are asked for, each with the SGD steps of its training.
    computed = sum(batch.computed for batch in rehearsed.batches)
    assert computed == int(trained.sum()) == 2_200
    for batch in rehearsed.batches:
        assert batch.sgd_steps == batch.computed * batch.most_sgd_steps
        assert 0.0 < batch.longest_s < batch.device_s


def test_the_disk_of_steps_with_few_devices_is_planned_as_the_run_writes_them(tmp_path: Path) -> None:
    """Each step is written for itself, in more bytes than all of them together."""
    few = experiment(150, 12)
    (plan,) = plan_experiment(few, "rehearsal")
    (run,) = run_experiment(few, fleet="rehearsal", runs_dir=tmp_path, console=Console(quiet=True))
    real = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert real / 1.2 <= plan.disk_bytes <= real * 1.2
