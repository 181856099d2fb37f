"""SCAFFOLD and FedDyn against plain NumPy, written from the papers alone: linear regression, whole
batches, two devices behind two access points and one behind none in the second round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.extra_vectors import Merge
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning import local_algorithms
from roambench.learning.local_algorithms import (
    LocalAlgorithm,
    LocalAlgorithmRow,
    LocalRun,
    local_algorithm,
)
from roambench.learning.shards import Shard
from roambench.learning.training import TrainingResult, train
from roambench.rounds.extra_vectors import ExtraVectors

POINTS = (np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[-1.0, 0.25]]), np.array([[0.125, 0.75]]))
LABELS = (np.array([3, 1]), np.array([2]), np.array([0]))
RATE, STEPS = 0.05, 3
#: Who trains in each of three rounds.
ROUNDS = ((0, 1), (0,), (0, 1, 2))
START = np.array([0.5, -0.25, 0.1])


def gradient(w: np.ndarray, device: int) -> np.ndarray:
    """Of the mean squared error."""
    x = np.column_stack([POINTS[device], np.ones(len(POINTS[device]))])
    return 2.0 * x.T @ (x @ w - LABELS[device]) / len(x)


@pytest.fixture(autouse=True)
def _squared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a regression in place of cross-entropy."""
    monkeypatch.setattr(
        "roambench.learning.corrections.cross_entropy",
        lambda logits, labels: (logits[:, 0] - labels).square(),
    )


def trained(
    text: str,
    device: int,
    start: np.ndarray,
    received: np.ndarray | None = None,
    kept: np.ndarray | None = None,
    **changes: float,
) -> TrainingResult:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 1)).double()
    images = POINTS[device].astype(np.float64).reshape(-1, 1, 1, 2)
    spec = LearningSpec("", 1, 10, RATE, changes.get("momentum", 0.0), 0.0, 8, "")
    training = LocalTraining(steps=STEPS, objective=text, seed=int(changes.get("seed", 0)))
    return train(module, Shard(images, LABELS[device]), start, training, spec, received=received, kept=kept)


def test_scaffold_is_algorithm_1_of_the_paper_with_option_ii() -> None:
    # Karimireddy et al. 2020, Algorithm 1, lines 2 to 17; global learning rate 1.
    x, c = START.copy(), np.zeros(3)
    c_i = [np.zeros(3) for _ in POINTS]
    extra = ExtraVectors(3, 3, {"c": Merge.SUM}, devices=3)
    travelled = extra.first(START)
    kept: list[np.ndarray | None] = [None] * 3
    for chosen in ROUNDS:
        dy, dc = [], []
        for i in chosen:
            y = x.copy()
            for _ in range(STEPS):
                y = y - RATE * (gradient(y, i) - c_i[i] + c)
            c_plus = c_i[i] - c + (x - y) / (STEPS * RATE)
            dy.append(y - x)
            dc.append(c_plus - c_i[i])
            c_i[i] = c_plus
        x = x + sum(dy) / len(chosen)
        c = c + len(chosen) / 3 * sum(dc) / len(chosen)

        sent = []
        for i in chosen:
            result = trained("scaffold", i, extra.model(travelled), travelled[3:], kept[i])
            assert result.kept is not None
            kept[i] = result.kept
            sent.append(result.vector)
        # The first device at one access point, the others at another; a third got nothing.
        aps, shares = [travelled], [0.0]
        for came in (sent[:1], sent[1:]):
            if came:
                weights = np.full(len(came), 1.0 / len(came))
                mean = np.mean([extra.model(one) for one in came], axis=0)
                aps.append(extra.at_edge(mean, travelled, came, weights))
                shares.append(len(came) / len(sent))
        model = sum(share * extra.model(ap) for share, ap in zip(shares, aps, strict=True))
        travelled = extra.in_cloud(model, travelled, aps, np.array(shares))
        assert extra.model(travelled) == pytest.approx(x, abs=1e-12)
        assert travelled[3:] == pytest.approx(c, abs=1e-12)
        for mine, theirs in zip(kept, c_i, strict=True):
            assert (np.zeros(3) if mine is None else mine) == pytest.approx(theirs, abs=1e-12)


def test_feddyns_device_is_algorithm_1_of_the_paper() -> None:
    # Acar et al. 2021, Algorithm 1: the gradient of L_k(w) - <g_k, w> + alpha/2 |w - w_server|^2.
    alpha, g, kept, server = 0.3, np.zeros(3), None, START.copy()
    for _ in range(3):
        w = server.copy()
        for _ in range(STEPS):
            w = w - RATE * (gradient(w, 0) - g + alpha * (w - server))
        g = g - alpha * (w - server)
        result = trained("feddyn:alpha=0.3", 0, server, kept=kept)
        kept = result.kept
        assert result.vector == pytest.approx(w, abs=1e-12)
        assert kept == pytest.approx(g, abs=1e-12)
        server = w


def test_scaffold_refuses_momentum_for_which_its_equations_do_not_hold() -> None:
    with pytest.raises(ConfigError, match=r"learning.momentum = 0, for which its equations hold, .* and 0.9"):
        trained("scaffold", 0, START, momentum=0.9)


def _own(**hooks: object) -> LocalAlgorithmRow:
    loss = local_algorithm("ce").loss
    return LocalAlgorithmRow(lambda: LocalAlgorithm(loss, **hooks))  # type: ignore[arg-type]


class Backwards:
    """An optimiser of one's own: plain SGD up the hill."""

    def __init__(self, parameters: list[torch.Tensor], learning_rate: float) -> None:
        self.parameters, self.learning_rate = parameters, learning_rate

    def step(self, gradients: list[torch.Tensor]) -> None:
        for parameter, found in zip(self.parameters, gradients, strict=True):
            parameter.add_(found, alpha=self.learning_rate)


class Forgetful(Backwards):
    """An optimiser that fails as it steps."""

    def step(self, gradients: list[torch.Tensor]) -> None:
        raise KeyError("velocity")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (_own(correct=lambda *given: given[9]), r"'own': <lambda> fails with IndexError: tuple index out of"),
        (
            _own(after=lambda *given: {"d": []}, vectors={"c": Merge.MEAN}),
            r"after: expected \['c'\], got \['d'\]",
        ),
        (_own(after=lambda *given: {"c": []}, vectors={"c": Merge.MEAN}), "c: expected tensors like the 2"),
        (
            _own(after=lambda w, run: {"c": [part * np.inf for part in w]}, vectors={"c": Merge.MEAN}),
            "after: c holds NaN or infinity",
        ),
        (_own(before=lambda w, run: run.kept.clear(), keeps=("h",)), r"kept: expected \['h'\], got \[\]"),
        (
            _own(schedule=lambda number, steps: number / 0),
            r"'own': <lambda> fails with ZeroDivisionError: division by zero \(.*test_corrections.py:\d+\)",
        ),
        (_own(schedule=lambda number, steps: -1), "'own': schedule at step 0: expected a finite factor of 0"),
        (_own(schedule=lambda number, steps: np.nan), "schedule at step 0: expected .* or more, got nan"),
        (_own(schedule=lambda number, steps: None), "schedule at step 0: expected .* or more, got None"),
        (
            _own(optimiser=lambda parameters, rate: torch.optim.SGD(parameters, rate)),
            r"'own': optimiser: expected an object with a learning_rate and step\(gradients\), got SGD",
        ),
        (
            _own(optimiser=Forgetful),
            r"'own': step fails with KeyError: 'velocity' \(.*test_corrections.py:\d+",
        ),
    ],
)
def test_a_hook_that_fails_or_returns_what_cannot_travel_is_one_sentence(
    row: LocalAlgorithmRow, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(local_algorithms.LOCAL_ALGORITHMS.own, "own", row)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=sentence):
        trained("own", 2, START)


def test_an_optimiser_of_ones_own_moves_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    squared = LocalAlgorithm(lambda logits, labels: (logits[:, 0] - labels).square(), optimiser=Backwards)
    row = LocalAlgorithmRow(lambda: squared)
    monkeypatch.setitem(local_algorithms.LOCAL_ALGORITHMS.own, "own", row)  # type: ignore[arg-type]
    w = START
    for _ in range(STEPS):
        w = w + RATE * gradient(w, 0)
    assert trained("own", 0, START).vector == pytest.approx(w, abs=1e-12)


def test_a_hook_draws_by_the_seed_of_its_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients rounded to eighths by a draw: the same for the same seed, keyed by run, device and step."""

    def rounded(
        gradients: list[torch.Tensor], parameters: list[torch.Tensor], run: LocalRun, number: int
    ) -> None:
        draw = torch.Generator().manual_seed(run.seed + number)
        for part in gradients:
            part.copy_((part * 8 + torch.rand(part.shape, generator=draw, dtype=part.dtype)).floor() / 8)

    squared = LocalAlgorithm(lambda logits, labels: (logits[:, 0] - labels).square(), correct=rounded)
    row = LocalAlgorithmRow(lambda: squared)
    monkeypatch.setitem(local_algorithms.LOCAL_ALGORITHMS.own, "own", row)  # type: ignore[arg-type]
    first, again, other = (trained("own", 0, START, seed=seed).vector for seed in (1, 1, 7))
    eighths = (first - START) / RATE * 8
    assert eighths == pytest.approx(np.round(eighths), abs=1e-9)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
