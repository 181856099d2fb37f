"""Classes of virtual devices: who is of which, their seconds and joules, and mistakes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from roambench.contract.errors import ConfigError
from roambench.contract.phases import Phase
from roambench.energy.modelled.device_power import DevicePower
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.plan.plan import plan_experiment
from roambench.plan.tables import print_plans
from roambench.rounds.records import OrderAnswered, OrderGiven
from roambench.runner.composition import run_experiment
from roambench.runner.places.table import place_of
from roambench.runner.step_time import board_step_s
from roambench.runner.world import learning_task_of
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import modelled_account

CLASSES = {
    "pi4": {"share": 0.25, "sgd_step_s": 0.2, "idle_w": 2.5, "train_w": 1.6},
    "pi5": {"devices": [1, 6], "sgd_step_s": 0.05, "train_w": 3.0},
}


def experiment_of(**simulated: Any) -> Experiment:
    usual: dict[str, Any] = {"sgd_step_s": 0.4, "speed_spread": 0.0, "power_spread": 0.0, "workers": 1}
    return Experiment.model_validate(
        {
            "systems": ["mohawk"],
            "trace": {"generator": "city", "parameters": {"devices": 40, "steps": 30}, "steps": 8},
            "fleet": {"agents": 10},
            "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 16, "batch_size": 8},
            "simulated": usual | simulated,
        }
    )


def test_shares_are_whole_devices_of_those_in_no_list_and_the_seed_fixes_them() -> None:
    section = experiment_of(classes=CLASSES).simulated
    names = section.classes_of(7, 10)
    assert names == section.classes_of(7, 10) != section.classes_of(8, 10)
    assert [device for device, name in enumerate(names) if name == "pi5"] == [1, 6]
    assert Counter(names) == {"": 6, "pi4": 2, "pi5": 2}
    thirds = experiment_of(classes={name: {"share": 1 / 3} for name in "abc"}).simulated
    assert sorted(Counter(thirds.classes_of(7, 10)).values()) == [3, 3, 4]
    assert "" not in thirds.classes_of(7, 10)
    assert experiment_of().simulated.classes_of(7, 3) == ("", "", "")


def test_power_is_the_classs_and_what_it_does_not_name_is_that_of_all() -> None:
    section = experiment_of(classes=CLASSES).simulated
    power, names = section.power(42, 10), section.classes_of(42, 10)
    watts = {"": (1.9, 0.8), "pi4": (2.5, 1.6), "pi5": (1.9, 3.0)}
    assert [power.of(device) for device in range(10)] == [DevicePower(*watts[name]) for name in names]


def test_seconds_and_joules_of_a_run_are_those_of_each_devices_class(tmp_path: Path) -> None:
    experiment = experiment_of(classes=CLASSES)
    (run,) = run_experiment(experiment, fleet="simulated", runs_dir=tmp_path, console=Console(quiet=True))
    step_s = {"": 0.4, "pi4": 0.2, "pi5": 0.05}
    watts = {"": 2.7, "pi4": 4.1, "pi5": 4.9}
    names = experiment.simulated.classes_of(experiment.seed, 10)
    with RunFolder.open(run) as folder:
        log = folder.read_log()
        kinds = {order.order_id: order.kind for order in log.only(OrderGiven)}
        trained = [one for one in log.only(OrderAnswered) if kinds[one.order_id] == "train"]
        account = modelled_account(folder, log)
    assert {names[one.device] for one in trained} == {"", "pi4", "pi5"}
    for one in trained:
        assert one.train_s == pytest.approx(2 * step_s[names[one.device]], rel=1e-12)  # 16 images by 8
    assert account is not None
    ledger = account.ledger
    for device, name in enumerate(names):
        rows = ledger.of_phase(Phase.TRAIN) & (ledger.device == device)
        expected = watts[name] * 2 * step_s[name] * int(rows.sum())
        assert float(ledger.gross_j[rows].sum()) == pytest.approx(expected, rel=1e-12)


def test_a_class_by_its_speed_scales_the_models_step() -> None:
    section = experiment_of(classes={"fast": {"devices": [0], "gflop_s": 4.8}}, sgd_step_s=0.0).simulated
    assert section.slowness(42, 3, 0.4) == (0.5, 1.0, 1.0)
    assert section.slowness(42, 3, 0.0) == (0.5, 1.0, 1.0)  # programs make no steps
    given = experiment_of(classes=CLASSES).simulated
    assert given.slowness(42, 10, 0.4)[1] == given.slowness(42, 10, 0.4)[6] == 0.125
    assert experiment_of().simulated.slowness(42, 10, 0.4) == ()


def test_models_differ_in_each_class(tmp_path: Path) -> None:
    """Seconds of a training are its SGD steps x seconds of one, of this model and this class."""
    classes = {"pi4": {"devices": [0, 1, 2, 3, 4], "gflop_s": 6.0}}
    for model in ("mlp", "dfl_cnn"):
        learning = {"dataset": "synthetic", "model": model, "images_per_device": 16, "batch_size": 8}
        experiment = experiment_of(classes=classes, sgd_step_s=0.0)
        experiment = Experiment.model_validate(experiment.model_dump() | {"learning": learning})
        usual_s = board_step_s(experiment, learning_task_of(experiment, 10))
        (run,) = run_experiment(experiment, fleet="simulated", runs_dir=tmp_path, console=Console(quiet=True))
        with RunFolder.open(run) as folder:
            trained = [one for one in folder.read_log().only(OrderAnswered) if one.train_s]
        assert {one.device < 5 for one in trained} == {True, False}
        for one in trained:
            expected_s = 2 * usual_s * (0.4 if one.device < 5 else 1.0)
            assert one.train_s == pytest.approx(expected_s, rel=1e-12)


def test_a_plan_tells_the_classes_and_takes_their_joules(tmp_path: Path) -> None:
    experiment = experiment_of(classes=CLASSES)
    (plan,) = plan_experiment(experiment, "simulated")
    assert plan.classes == (
        "2 pi4 (0.2 s per SGD step, 2.5 W idle, 1.6 W more in training), "
        "2 pi5 (0.05 s per SGD step, 1.9 W idle, 3 W more in training), "
        "6 of no class (0.4 s per SGD step, 1.9 W idle, 0.8 W more in training)"
    )
    console = Console(record=True, width=300)
    print_plans([plan], console)
    assert f"devices: {plan.classes}" in console.export_text()
    (run,) = run_experiment(experiment, fleet="simulated", runs_dir=tmp_path, console=Console(quiet=True))
    with RunFolder.open(run) as folder:
        account = modelled_account(folder, folder.read_log())
    assert account is not None
    trained = float(account.ledger.gross_j[account.ledger.of_phase(Phase.TRAIN)].sum())
    planned = next(item for item in plan.joules if item.phase == "train")
    assert planned.gross_j == pytest.approx(trained, rel=1e-9)
    (plain,) = plan_experiment(experiment_of(), "simulated")
    assert plain.classes == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[simulated.classes.a]\n", "classes.a: expected either a share above 0 or devices"),
        ("[simulated.classes.a]\nshare = 0.5\ndevices = [1]\n", "classes.a: expected either"),
        (
            "[simulated.classes.a]\ndevices = [1]\n[simulated.classes.b]\ndevices = [1]\n",
            "classes.b: device 1 is of a, too",
        ),
        (
            "[simulated.classes.a]\nshare = 0.5\n[simulated.classes.b]\nshare = 0.6\n",
            "classes: expected shares of at most 1 together, got 1.1",
        ),
        ("[simulated.classes.a]\nshare = 0.5\nidle = 1.0\n", "simulated.classes.a.idle: unknown key"),
        (
            "[simulated.classes.a]\ndevices = [-1]\n",
            "classes.a.devices: expected a list of integers",
        ),
    ],
)
def test_mistakes_name_key_and_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "classes.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    assert any(said in problem and file.name in problem for problem in caught.value.problems), caught.value


def test_a_device_that_is_not_there_is_refused_by_run_and_plan(tmp_path: Path) -> None:
    experiment = experiment_of(classes={"a": {"devices": [10]}})
    said = r"simulated\.classes\.a\.devices: expected devices of 0 to 9, got 10"
    with pytest.raises(ConfigError, match=said):
        plan_experiment(experiment, "simulated")
    with pytest.raises(ConfigError, match=said):
        run_experiment(experiment, fleet="simulated", runs_dir=tmp_path, console=Console(quiet=True))


def test_local_agents_which_are_of_one_class_refuse_them() -> None:
    with pytest.raises(ConfigError) as caught:
        place_of(experiment_of(classes=CLASSES), "local")
    assert list(caught.value.problems) == [
        "simulated.classes: emulated boards are of one class, not of pi4, pi5: expected none on --fleet "
        "local, or --fleet simulated"
    ]
    place_of(experiment_of(), "local")
