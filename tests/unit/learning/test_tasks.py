from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from roambench.agent.orders.trainer_process import TrainerProcess
from roambench.contract.errors import ConfigError, DataError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.partitions import PartitionRequest
from roambench.learning.shards import Shard, write_shard
from roambench.learning.task_parts import build_model, load_data, require_classes, score, share_out
from roambench.learning.tasks import load_task
from roambench.learning.training import TrainingResult

TASKS = """
import numpy as np
import torch
from torch import nn
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation

IMAGES = np.arange(6 * 2 * 3 * 5, dtype=np.float32).reshape(6, 2, 3, 5)
LABELS = np.array([0, 1, 2, 0, 1, 2])

class Whole:
    def load(self, folder, download):
        return Dataset(IMAGES, LABELS, IMAGES[:2], LABELS[:2], 3)
    def build(self, in_channels, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 15, classes, device="meta"))

class Drawn(Whole):
    def build(self, in_channels, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 15, classes))

class Dealing(Whole):
    def partition(self, request):
        return [[d, d + request.devices] for d in range(request.devices)]
    def evaluate(self, module, vector, images, labels):
        return Evaluation(0.25, float(len(images)))

class Percent(Whole):
    def evaluate(self, module, vector, images, labels):
        return Evaluation(25.0, float("nan"))

class Tensors(Whole):
    def evaluate(self, module, vector, images, labels):
        return Evaluation(torch.tensor(0.5), np.float32(2.0))

class Words(Whole):
    def evaluate(self, module, vector, images, labels):
        return Evaluation("good", 1.0)

class Left(Whole):
    def evaluate(self, module, vector, images, labels):
        raise SystemExit(0)

class Forgot(Whole):
    def partition(self, request):
        pass

class Ragged(Whole):
    def partition(self, request):
        return [[[0], [1, 2]]] * request.devices

class Counted(Whole):
    def load(self, folder, download):
        return Dataset(IMAGES, LABELS, IMAGES[:2], LABELS[:2], LABELS.max() + 1)

class Halves(Whole):
    def load(self, folder, download):
        return Dataset(IMAGES, LABELS, IMAGES[:2], LABELS[:2], 3.0)

class Greedy(Whole):
    def partition(self, request):
        return [[0, 6]] * request.devices

class Wide(Whole):
    def load(self, folder, download):
        return Dataset(IMAGES, LABELS, IMAGES[:2], LABELS[:2], 2)

class Grey(Whole):
    def load(self, folder, download):
        return Dataset(IMAGES[:, 0], LABELS, IMAGES[:2], LABELS[:2], 3)

class Broken(Whole):
    def load(self, folder, download):
        raise OSError("disk on fire")
    def build(self, in_channels, classes):
        return 5

class Half:
    load = 3

class Twice(Whole):
    def loss(self, logits, labels):
        return 2.0 * nn.functional.cross_entropy(logits, labels, reduction="none")

class Mean(Whole):
    def loss(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels)

class Lost(Whole):
    def loss(self, logits, labels):
        return logits[:, 99]

class Few(Whole):
    def build(self, in_channels, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 15, classes - 1))

class Maps(Whole):
    def build(self, in_channels, classes):
        return nn.Conv2d(in_channels, classes, 1)

class Pair(Whole):
    def build(self, in_channels, classes):
        return Doubled(in_channels * 15, classes)

class Doubled(nn.Linear):
    def forward(self, images):
        scores = super().forward(images.flatten(1))
        return scores, scores

class Unflat(Whole):
    def build(self, in_channels, classes):
        return Unflattened(in_channels * 15, classes)

class Unflattened(nn.Linear):
    def forward(self, images):
        return super().forward(images)

class Many(Whole):
    def build(self, in_channels, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 15, 1000))

class Judged(Few):
    def evaluate(self, module, vector, images, labels):
        return Evaluation(0.5, 1.0)

class Counts(Whole):
    def loss(self, logits, labels):
        return (logits.argmax(dim=1) != labels).long()

class Detached(Whole):
    def loss(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="none").detach()

class NoBatches(Whole):
    def batches(self, images, labels, batch_size, draws):
        return None

class Blank(Whole):
    def batches(self, images, labels, batch_size, draws):
        return [(images * np.float32("nan"), labels)]

class Leaving(Whole):
    def batches(self, images, labels, batch_size, draws):
        yield images, labels
        raise SystemExit(0)

class Narrower(Whole):
    def build(self, in_channels, classes):
        return Beheaded(in_channels * 15, classes)

class Beheaded(nn.Linear):
    def forward(self, images):
        scores = super().forward(images.flatten(1))
        return scores[:, :2] if self.training else scores

class Vector(Whole):
    def evaluate(self, module, vector, images, labels):
        return Evaluation(torch.tensor([0.5, 0.5]), 1.0)

class Losses(Whole):
    def evaluate(self, module, vector, images, labels):
        return Evaluation(0.5, np.ones(2))

class Lossy(Whole):
    classes = 3
    network = nn.Linear
    def metrics(self, logits, labels):
        return 0.0
    def _draw(self):
        return 1
    @staticmethod
    def evalute(module, vector, images, labels):
        return None

class Shy(Whole):
    def __init__(self):
        raise RuntimeError("not today")
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_tasks.py").write_text(TASKS)
    (tmp_path / "needy_tasks.py").write_text("import no_such_package\n")
    (tmp_path / "broken_tasks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def named(name: str) -> str:
    return f"own_tasks:{name}"


def model(name: str, seed: int = 0) -> np.ndarray:
    return flatten(build_model(named(name), "", 2, 3, seed))


@pytest.mark.parametrize(
    ("task", "missing"),
    [
        ("own_tasks", "expected package.module:Name"),
        ("own_tasks:Whole()", "expected package.module:Name"),
        ("absent.part:Whole", "there is no module absent here; install it wherever the run trains"),
        ("own_tasks.part:Whole", "there is no module own_tasks.part here"),
        ("needy_tasks:Whole", "needy_tasks needs the module no_such_package, which is not installed here"),
        ("broken_tasks:Whole", "importing broken_tasks fails: ZeroDivisionError: division by zero"),
        (
            "own_tasks:Hole",
            "the module own_tasks has no class or function Hole; it has Blank, Broken, Counted",
        ),
        ("own_tasks:Half", "Half has no build"),
        ("own_tasks:Half", "Half has load, which cannot be called"),
        (
            "own_tasks:Lossy",
            'Lossy has metrics: expected {name: "higher" or "lower", what is better}, got a function',
        ),
        ("own_tasks:Lossy", "Lossy has evalute, which would never be called"),
        ("own_tasks:Shy", "Shy() fails: RuntimeError: not today"),
    ],
)
def test_a_task_that_cannot_be_used_is_named_with_what_is_missing(task: str, missing: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_task(task)
    assert any(problem.startswith(f"task {task!r}: {missing}") for problem in caught.value.problems)


def test_layers_on_meta_get_the_weights_our_own_models_would() -> None:
    vector = model("Whole", seed=5)
    assert vector.shape == (2 * 15 * 3 + 3,)
    np.testing.assert_array_equal(vector, model("Whole", seed=5))
    assert (vector != model("Whole", seed=6)).any()
    np.testing.assert_array_equal(vector[-3:], 0.0)  # biases
    assert vector[:-3].std() == pytest.approx((2 / 30) ** 0.5, rel=0.25)  # N(0, 2 / fan-in)


def test_layers_that_draw_their_own_weights_are_the_same_in_every_process_and_leave_torch_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = model("Drawn", seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    np.testing.assert_array_equal(first, model("Drawn", seed=5))
    assert (first != model("Drawn", seed=6)).any()


def test_without_a_task_the_tables_are_asked() -> None:
    np.testing.assert_array_equal(
        flatten(build_model("", "mlp", 1, 10, seed=3)), flatten(build("mlp", 1, 10, seed=3))
    )


def test_the_tasks_own_hooks_go_before_ours() -> None:
    request = PartitionRequest(np.array([0, 1, 2, 0, 1, 2]), 3, 2, 1.0, seed=1)
    parts = share_out(named("Dealing"), "iid", request)
    assert [part.tolist() for part in parts] == [[0, 3], [1, 4], [2, 5]]
    data = load_data(named("Dealing"), "digits", None, download=False)
    assert data.train_images.shape == (6, 2, 3, 5)
    module = build_model(named("Dealing"), "", 2, 3)
    images, labels = data.test_images, data.test_labels
    found = score(named("Dealing"), module, flatten(module), images, labels)
    assert (found.accuracy, found.loss) == (0.25, 2.0)
    usual = share_out(named("Whole"), "iid", request)
    assert [len(part) for part in usual] == [2, 2, 2]
    zeros = score(named("Whole"), module, np.zeros(93, np.float32), images, labels)
    assert (zeros.accuracy, round(zeros.loss, 6)) == (0.5, round(float(np.log(3)), 6))  # ties go to class 0


def test_what_a_hook_returns_is_checked_and_the_hook_named() -> None:
    request = PartitionRequest(np.zeros(6, np.int64), 2, 2, 1.0, seed=1)
    with pytest.raises(DataError, match=r"Greedy': partition: device 0: expected .* indices in 0\.\.5"):
        share_out(named("Greedy"), "", request)
    for lacking in ("Forgot", "Ragged"):
        with pytest.raises(DataError, match=f"{lacking}': partition: expected a sequence with the indices"):
            share_out(named(lacking), "", request)
    with pytest.raises(DataError, match=r"Halves': load: classes: expected a whole number above 0, got 3\.0"):
        load_data(named("Halves"), "", None, download=False)
    assert type(load_data(named("Counted"), "", None, download=False).classes) is int
    with pytest.raises(DataError, match=r"Wide': load: train_labels: expected 0\.\.1, got 0\.\.2"):
        load_data(named("Wide"), "", None, download=False)
    with pytest.raises(DataError, match=r"Grey': load: train_images: expected float32 .* \(6, 3, 5\)"):
        load_data(named("Grey"), "", None, download=False)
    with pytest.raises(ConfigError, match="Broken': load fails: OSError: disk on fire"):
        load_data(named("Broken"), "", None, download=False)
    with pytest.raises(ConfigError, match=r"Broken': build: expected a torch\.nn\.Module, got int"):
        build_model(named("Broken"), "", 2, 3)


def test_a_device_trains_the_tasks_model_on_images_of_its_size_or_says_what_it_lacks(tmp_path: Path) -> None:
    shard = tmp_path / "shard.safetensors"
    write_shard(shard, Shard(np.ones((6, 2, 3, 5), np.float32), np.array([0, 1, 2, 0, 1, 2])))
    spec = LearningSpec(
        "", 2, 3, 0.1, 0.0, 0.0, batch_size=2, shard=str(shard), task=named("Whole"), height=3, width=5
    )
    assert LearningSpec.from_json(spec.to_json()) == spec
    trainer = TrainerProcess()
    ready = trainer.answer({"op": "prepare", "spec": spec.to_json().decode()})
    assert ready["samples"] == 6
    lacking = replace(spec, task="absent.part:Whole")
    refused = trainer.answer({"op": "prepare", "spec": lacking.to_json().decode()})
    assert "there is no module absent here" in json.dumps(refused)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Few", r"expected outputs of shape \(2, 3\), one per class, for 2 images, got shape \(2, 2\)"),
        ("Maps", r"expected outputs of shape \(2, 3\), .*, got torch.float32 of shape \(2, 3, 3, 5\)"),
        ("Pair", r"expected outputs of shape \(2, 3\), one per class, for 2 images, got tuple"),
        ("Unflat", r"its forward fails: RuntimeError: mat1 and mat2 .* multiplied .*own_tasks.py:\d+\)"),
    ],
)
def test_a_model_whose_outputs_are_no_scores_of_the_classes_is_refused(name: str, sentence: str) -> None:
    data = load_data(named(name), "", None, download=False)
    with pytest.raises(ConfigError, match=f"^task 'own_tasks:{name}': build: {sentence}"):
        require_classes(named(name), "", build_model(named(name), "", 2, 3), data)


@pytest.mark.parametrize("name", ["Whole", "Many", "Judged"])
def test_outputs_that_no_label_names_and_those_of_a_task_that_scores_itself_are_allowed(name: str) -> None:
    data = load_data(named(name), "", None, download=False)
    require_classes(named(name), "", build_model(named(name), "", 2, 3), data)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NoBatches", "task 'own_tasks:NoBatches': batches: expected pairs of images .*, got NoneType"),
        ("Blank", "task 'own_tasks:Blank': batches: expected images of finite values, got some that are not"),
        ("Leaving", r"task 'own_tasks:Leaving': batches fails: SystemExit: 0 \(.*own_tasks.py:\d+\)"),
        ("Counts", r"loss: expected a tensor of shape \(2,\), .* of float32 or float64, got torch.int64"),
        ("Detached", "1.weight, 1.bias: expected a loss that depends on every parameter in every step"),
        ("Narrower", r"task 'own_tasks:Narrower': build: expected outputs of shape \(2, 3\), .* \(2, 2\)"),
    ],
)
def test_what_is_nearly_right_in_training_is_the_trainers_answer(
    name: str, sentence: str, tmp_path: Path
) -> None:
    shard = tmp_path / "shard.safetensors"
    write_shard(shard, Shard(np.ones((2, 2, 3, 5), np.float32), np.array([0, 2])))
    spec = LearningSpec("", 2, 3, 0.1, 0.0, 0.0, 2, str(shard), task=named(name), height=3, width=5)
    answer = TrainerProcess().answer({"op": "prepare", "spec": spec.to_json().decode()})
    assert re.search(sentence, answer["refused"])


def test_only_methods_that_nobody_would_call_are_refused() -> None:
    """Helpers begin with an underscore; data and classes may have any name."""
    with pytest.raises(ConfigError) as caught:
        load_task(named("Lossy"))
    told = [problem.split(" has ")[1].split(" ")[0].strip(",:") for problem in caught.value.problems]
    assert told == ["evalute", "metrics"]


def test_an_accuracy_that_is_none_is_refused_and_a_missing_loss_is_not() -> None:
    module = build_model(named("Whole"), "", 2, 3)
    images, labels = np.zeros((2, 2, 3, 5), np.float32), np.zeros(2, np.int64)
    with pytest.raises(ConfigError, match=r"Percent': evaluate: expected an accuracy in 0\.\.1, got 25\.0"):
        score(named("Percent"), module, flatten(module), images, labels)
    with pytest.raises(ConfigError, match=r"Words': evaluate: expected an accuracy in 0\.\.1, got 'good'"):
        score(named("Words"), module, flatten(module), images, labels)
    with pytest.raises(ConfigError, match=r"Vector': evaluate: expected an accuracy in 0\.\.1, got tensor"):
        score(named("Vector"), module, flatten(module), images, labels)
    with pytest.raises(ConfigError, match=r"Losses': evaluate: expected a number as loss, got array"):
        score(named("Losses"), module, flatten(module), images, labels)
    with pytest.raises(ConfigError, match=r"Left': evaluate fails: SystemExit: 0"):
        score(named("Left"), module, flatten(module), images, labels)
    found = score(named("Tensors"), module, flatten(module), images, labels)
    assert [type(found.accuracy), type(found.loss)] == [float, float]
    assert (found.accuracy, found.loss) == (0.5, 2.0)


def test_the_tasks_own_loss_is_descended_and_scored() -> None:
    """Twice the loss at half the learning rate makes the very same models: nothing is rounded on the way."""
    images = np.random.default_rng(3).standard_normal((6, 2, 3, 5)).astype(np.float32)
    labels = np.array([0, 1, 2, 0, 1, 2])
    start = model("Whole", seed=5)

    def trained(name: str, rate: float, objective: str = "ce") -> TrainingResult:
        spec = LearningSpec("", 2, 3, rate, 0.9, 0.0, 2, "", task=named(name), height=3, width=5)
        own = Learner(spec).train(Shard(images, labels), LocalTraining(2, 7, objective=objective), start)
        task = StackedTask(Shard(images, labels), start, None, objective, 6, 7)
        (stacked,) = StackedLearner(spec, stack=4).train([task])
        assert isinstance(stacked, TrainingResult)
        assert stacked.vector == pytest.approx(own.vector, abs=1e-6)
        assert stacked.mean_loss == pytest.approx(own.mean_loss, rel=1e-6)
        return own

    whole, twice = trained("Whole", 0.25), trained("Twice", 0.125)
    assert twice.vector.tobytes() == whole.vector.tobytes()
    assert twice.mean_loss == 2.0 * whole.mean_loss
    pulled, pulled_twice = trained("Whole", 0.25, "fedprox:mu=0.5"), trained("Twice", 0.125, "fedprox:mu=1")
    assert pulled_twice.vector.tobytes() == pulled.vector.tobytes() != whole.vector.tobytes()
    module = build_model(named("Whole"), "", 2, 3)
    ours, theirs = (score(named(name), module, whole.vector, images, labels) for name in ("Whole", "Twice"))
    assert (theirs.accuracy, theirs.loss) == (ours.accuracy, 2.0 * ours.loss)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Mean", r"task 'own_tasks:Mean': loss: expected a tensor of shape \(2,\), one per sample, got \(\)"),
        ("Lost", r"task 'own_tasks:Lost': loss fails: IndexError: index 99 is out of bounds .*own_tasks.py"),
    ],
)
def test_a_loss_that_fails_is_one_sentence_with_the_task(name: str, sentence: str) -> None:
    shard = Shard(np.ones((2, 2, 3, 5), np.float32), np.array([0, 1]))
    spec = LearningSpec("", 2, 3, 0.1, 0.0, 0.0, 2, "", task=named(name), height=3, width=5)
    with pytest.raises(ConfigError, match=sentence):
        Learner(spec).train(shard, LocalTraining(), model(name))
    (refused,) = StackedLearner(spec, stack=4).train([StackedTask(shard, model(name), None, "ce", 1, 7)])
    assert isinstance(refused, str)
    assert re.search(sentence, refused)
    with pytest.raises(ConfigError, match=sentence):
        score(named(name), build_model(named(name), "", 2, 3), model(name), shard.images, shard.labels)
