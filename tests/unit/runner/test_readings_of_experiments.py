"""Keys that choose a reading of a paper arrive where they are read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roambench.cli.main import main
from roambench.experiment.sections import Experiment
from roambench.learning.datasets.synthetic import load_synthetic
from roambench.plan.costs import sgd_steps
from roambench.runner.system_runs.hierarchical import composed
from roambench.runner.world import Movement, learning_spec, learning_task_of, movement_of, system_of
from small_traces import drawn_trace


def experiment(**sections: dict[str, object]) -> Experiment:
    return Experiment.model_validate(sections)


def test_every_reading_of_the_algorithms_reaches_its_system():
    readings = experiment(
        learning={"local_epochs": 10, "local_steps": 10},
        algorithm={
            "association": "trace",
            "fresh_uses_ap": True,
            "previous_edge": "edge_pair",
            "stayed_model": "own",
            "sync_download": "free",
            "cloud_counts": "printed",
        },
    )
    middle, fedmes = system_of(readings, "middle"), system_of(readings, "fedmes")
    assert (middle.training.epochs, middle.training.steps, middle.association.__name__) == (
        10,
        10,
        "trace_ap",
    )
    assert (middle.start_model.stayed, middle.start_model.moved) == ("own", "similarity_mix|ap")
    assert (middle.sync_is_free, middle.counts_sync_step) == (True, True)
    assert (fedmes.start_model.stayed, fedmes.start_model.moved) == ("ap", "edge_pair")
    plain = system_of(experiment(), "middle")
    assert (plain.training.steps, plain.association.__name__) == (0, "nearest_ap")
    assert (plain.start_model.stayed, plain.start_model.moved) == ("ap", "similarity_mix")
    assert (plain.sync_is_free, plain.counts_sync_step) == (False, False)
    drawn = experiment(algorithm={"ties": "random"})
    for name in ("mohawk", "middle"):
        assert system_of(drawn, name).association.__name__ == "nearest_ap_drawn"


def test_mini_batches_go_before_epochs_where_steps_are_counted():
    assert sgd_steps(experiment(learning={"local_epochs": 3, "batch_size": 8}), 20) == 9
    assert sgd_steps(experiment(learning={"local_epochs": 3, "batch_size": 8, "local_steps": 4}), 20) == 4


def test_equation_2_maps_from_the_distances_that_the_experiment_names():
    movement = Movement(drawn_trace(("aa", "ab")), "hash")
    # Devices stand 100 m from the AP that serves them, and 900 m from the other one.
    for links, mean_m, sd_m in (({}, 100.0, 0.0), ({"distance_statistics": "all_pairs"}, 500.0, 400.0)):
        _, statistics = composed(experiment(links=links), "mohawk", movement, "r", (1, 1))
        assert (statistics.mean_m, statistics.sd_m) == pytest.approx((mean_m, sd_m))


def test_the_drawn_image_set_has_the_sizes_of_its_table_and_the_optimiser_its_name():
    sizes = {"classes": 4, "channels": 3, "train_images": 80, "test_images": 12, "noise": 0.5, "seed": 9}
    drawn = experiment(
        learning={"dataset": "synthetic", "model": "mlp", "images_per_device": 20, "optimiser": "adam"},
        synthetic=sizes,
    )
    learning_task = learning_task_of(drawn, 3)
    assert learning_task.dataset.train_images.shape == (80, 3, 32, 32)
    assert learning_task.dataset.test_images.shape == (12, 3, 32, 32)
    assert (learning_task.dataset.classes, sorted(set(learning_task.dataset.train_labels.tolist()))) == (
        4,
        [0, 1, 2, 3],
    )
    same = load_synthetic(80, 12, classes=4, channels=3, seed=9, noise=0.5)
    assert learning_task.dataset.train_images.tobytes() == same.train_images.tobytes()
    louder = load_synthetic(80, 12, classes=4, channels=3, seed=9)
    assert learning_task.dataset.train_images.tobytes() != louder.train_images.tobytes()
    assert learning_spec(drawn, learning_task, Path()).optimiser == "adam"
    assert learning_spec(experiment(), learning_task, Path()).optimiser == "sgd"


def test_with_replacement_an_image_may_come_to_a_device_twice():
    few = {"dataset": "synthetic", "model": "mlp", "images_per_device": 60, "alpha": 100.0}
    synthetic = {"train_images": 80, "test_images": 1}
    for partition, repeats in (("dirichlet", False), ("dirichlet_repeats", True)):
        drawn = experiment(learning={**few, "partition": partition}, synthetic=synthetic)
        parts = learning_task_of(drawn, 2).parts
        assert [len(part) for part in parts] == [60, 60]
        assert all((len(np.unique(part)) < 60) is repeats for part in parts)


@pytest.mark.parametrize(
    ("partition", "step", "unlike"),
    # Devices dealt out by turns had 0.00 at step 0: edges like all, which moving made less alike.
    [("major_class", 0, 0.29), ("major_class", 19, 0.3), ("major_class_in_order", 0, 0.75)],
)
def test_the_edges_of_middles_experiment_are_non_iid(partition: str, step: int, unlike: float):
    """100 devices at 10 edges, moving with P = 0.1: total variation between an edge's classes and all."""
    middles = experiment(
        systems=["middle"],
        trace={"generator": "edge-hopping", "steps": 20, "parameters": {"steps": 20, "p": 0.1}},
        fleet={"agents": 100, "aps": 0},
        learning={"dataset": "synthetic", "model": "mlp", "partition": partition},
        synthetic={"train_images": 4000, "test_images": 1},
    )
    trace, learning_task = movement_of(middles).trace, learning_task_of(middles, 100)
    held = np.array(
        [np.bincount(learning_task.dataset.train_labels[part], minlength=10) for part in learning_task.parts]
    )
    everybody = held.sum(axis=0) / held.sum()
    rows = trace.rows(step)
    found = []
    for edge in range(10):
        there = held[trace.device[rows][trace.ap[rows] == edge]].sum(axis=0)
        found.append(np.abs(there / there.sum() - everybody).sum() / 2)
    assert np.mean(found) == pytest.approx(unlike, abs=0.06)


def test_show_tells_who_holds_what_of_a_drawn_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "experiment.toml"
    path.write_text(
        "[trace]\nsteps = 4\n[fleet]\nagents = 2\n[learning]\ndataset = 'synthetic'\nmodel = 'mlp'\n"
        "images_per_device = 10\n[synthetic]\nclasses = 3\ntrain_images = 30\ntest_images = 5\n"
    )
    with pytest.raises(SystemExit) as raised:
        main(("data", "show", str(path), "--json"))
    assert not raised.value.code
    told = json.loads(capsys.readouterr().out)
    assert (told["dataset"], told["test_images"]) == ("synthetic", 5)
