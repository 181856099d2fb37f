"""FedAvgM, FedAdam, FedYogi and FedNova against what other programs made of the same rounds; FedDyn's server
against plain Python, written from the paper alone.

The programs: the aggregators of appfl 1.12.0 (PyPI) with `client_weights_mode = "sample_size"`, and the
optimiser of github.com/JYWa/FedNova (47b4e09), the authors', one process per device; both in float64. They
know no access points: all devices of a round send to one server.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.rounds.rule_answers import checked_aggregate
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import ApWork, CloudInput, EdgeInput, Training

#: Of every round's devices: access point, samples, steps.
ROUNDS = (
    ((0, 30, 3), (0, 10, 1), (1, 20, 4)),
    ((1, 20, 2),),
    ((0, 10, 1), (2, 10, 5)),
    ((0, 50, 5), (1, 25, 2), (2, 5, 3)),
)
START = np.array([0.0, 0.5])
RATE = 0.1
DEVICES = 8
ADAPTIVE = {"rate": 0.2, "beta1": 0.9, "beta2": 0.95, "tau": 0.01}

#: Global models behind each round.
FEDAVGM = (
    (-0.04013645858208267, 0.25933637215276506),
    (-0.06728294066400314, 0.054389922942877394),
    (-0.04903880819377555, 0.034821951670307744),
    (-0.012741986328920776, 0.10115456417341347),
)
FEDADAM = (
    (-0.0345268676453191, 0.4255943030349287),
    (-0.061668046800110385, 0.353324347158268),
    (-0.052311698530376025, 0.33599381814139245),
    (-0.027216958839728595, 0.34329363726451906),
)
FEDYOGI = (
    (-0.03425084602182252, 0.4256468223890268),
    (-0.06089383127883782, 0.35481608746762494),
    (-0.05176133922483246, 0.3380180192044289),
    (-0.027574664872305633, 0.3449676528129422),
)
FEDNOVA = (
    (-0.0446650328415415, 0.2649276628079509),
    (-0.03970234805779582, 0.25251211587585115),
    (-0.0326599581435215, 0.3890832491187125),
    (-0.02368416500618977, 0.5659837170589459),
)
FEDNOVA_WITH_MOMENTUM = (
    (-0.06044879616427971, 0.05127586498300529),
    (-0.1373228797948454, -0.00976688947722703),
    (-0.12497999567996843, 0.2912457188406572),
    (-0.05031788404279201, 0.7978562068352799),
)


def trained(model: np.ndarray, number: int, device: int, steps: int, momentum: float) -> np.ndarray:
    """SGD down the round's made-up gradients."""
    w, velocity = model.copy(), np.zeros(2)
    for step in range(steps):
        gradient = (
            math.sin(1 + number + 2 * device + 3 * step),
            (device + 1) * math.cos(number - device + step),
        )
        velocity = momentum * velocity + np.array(gradient)
        w = w - RATE * velocity
    return w


def played(
    name: str,
    parameters: dict[str, Any] | None = None,
    options: SystemOptions | None = None,
    buffer: float | None = None,
) -> list[list[float]]:
    """The global model behind every round, through access points and the cloud. With a `buffer`, models have
    a third entry that no training moves: device d sends `buffer` + d."""
    options = options or SystemOptions()
    system = make_system(name, options, parameters or {})
    model, memory, found = START.copy(), {}, []
    tail = [] if buffer is None else [buffer]
    for number, devices in enumerate(ROUNDS):
        held, work = {}, {}
        reference = np.array([*model, *tail])
        for ap in sorted({ap for ap, _, _ in devices}):
            here = [(device, row) for device, row in enumerate(devices) if row[0] == ap]
            trainings = [
                Training(device, number, ap, f"{number}/{device}", samples, sgd_steps=steps)
                for device, (_, samples, steps) in here
            ]
            models = [
                np.array(
                    [*trained(model, number, device, steps, options.momentum), *(b + device for b in tail)]
                )
                for device, (_, _, steps) in here
            ]
            samples = [training.samples for training in trainings]
            edge = EdgeInput(reference, models, samples, number, ap, trainings, trained=2)
            members = tuple(device for device, _ in here)
            held[ap] = checked_aggregate(members, system.edge_weights(edge), reference, name).model
            work[ap] = ApWork().plus(number, trainings)
        cloud = CloudInput(
            reference,
            tuple(held),
            list(held.values()),
            [one.samples for one in work.values()],
            [10] * DEVICES,
            ap_count=3,
            step=number,
            work=list(work.values()),
            memory=memory,
            trained=2,
        )
        aggregate = checked_aggregate(tuple(held), system.cloud_weights(cloud), reference, name)
        model, memory = aggregate.model[:2], aggregate.memory or memory
        found.append(aggregate.model.tolist())
    return found


@pytest.mark.parametrize(
    ("name", "parameters", "theirs"),
    [
        ("fedavgm", {"beta": 0.8}, FEDAVGM),
        ("fedadam", ADAPTIVE, FEDADAM),
        ("fedyogi", ADAPTIVE, FEDYOGI),
        ("fednova", {}, FEDNOVA),
    ],
)
def test_the_global_models_are_those_of_another_program(
    name: str, parameters: dict[str, Any], theirs: tuple[tuple[float, ...], ...]
) -> None:
    assert np.array(played(name, parameters)) == pytest.approx(np.array(theirs), abs=1e-12)


def test_fednova_knows_the_momentum_of_local_training() -> None:
    found = played("fednova", options=SystemOptions(momentum=0.9))
    assert np.array(found) == pytest.approx(np.array(FEDNOVA_WITH_MOMENTUM), abs=1e-12)


def test_feddyns_server_is_algorithm_1_of_acar_et_al() -> None:
    alpha, x, h, expected = 0.25, START, np.zeros(2), []
    for number, devices in enumerate(ROUNDS):
        sent = [trained(x, number, device, steps, 0.0) for device, (_, _, steps) in enumerate(devices)]
        h = h - alpha / DEVICES * sum(w - x for w in sent)
        x = sum(sent) / len(sent) - h / alpha
        expected.append(x)
    assert np.array(played("feddyn", {"alpha": alpha})) == pytest.approx(np.array(expected), abs=1e-12)
    assert make_system("feddyn", SystemOptions()).training.objective == "feddyn:alpha=0.1"


@pytest.mark.parametrize(
    ("name", "parameters", "theirs"),
    [("fedavgm", {"beta": 0.8}, FEDAVGM), ("fedyogi", ADAPTIVE, FEDYOGI), ("fednova", {}, FEDNOVA)],
)
def test_buffers_are_averaged_and_no_optimiser_moves_them(
    name: str, parameters: dict[str, Any], theirs: tuple[tuple[float, ...], ...]
) -> None:
    found = np.array(played(name, parameters, buffer=2.0))
    means = [
        sum(samples * (2.0 + device) for device, (_, samples, _) in enumerate(devices))
        / sum(samples for _, samples, _ in devices)
        for devices in ROUNDS
    ]
    assert found[:, :2] == pytest.approx(np.array(theirs), abs=1e-12)
    assert found[:, 2] == pytest.approx(means, abs=1e-12)


def test_what_lies_outside_the_equations_is_refused_with_all_mistakes() -> None:
    with pytest.raises(ConfigError) as caught:
        make_system("fedyogi", SystemOptions(), {"beta2": 1.0, "tau": 0.0})
    assert list(caught.value.problems) == [
        "tau = 0: expected a number above 0",
        "beta2 = 1: expected a number from 0 to below 1",
    ]
    with pytest.raises(ConfigError) as caught:
        make_system("fednova", SystemOptions(optimiser="adam", proximal=0.1))
    assert list(caught.value.problems) == [
        'learning.optimiser: system "fednova" expects "sgd", got "adam"',
        'system "fednova": expected devices that train on plain cross-entropy, got "fedprox:mu=0.1"',
    ]
