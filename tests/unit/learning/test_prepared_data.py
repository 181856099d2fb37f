"""What trainings on one device's data begin with can be done once: the models have the same bits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.learning.batches import Batches
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner, fixed_front, module_of
from roambench.learning.perceptron import Perceptron, perceptron_of
from roambench.learning.shards import Shard


def spec_of(model: str, channels_last: bool, augmentation: str = "none", channels: int = 1) -> LearningSpec:
    return LearningSpec(
        model, channels, 10, 0.05, 0.9, 0.0, 8, "", augmentation=augmentation, channels_last=channels_last
    )


def shard_of(channels: int) -> Shard:
    draws = np.random.default_rng(7)
    images = draws.standard_normal((50, channels, 32, 32)).astype(np.float32)
    return Shard(images, draws.integers(0, 10, 50))


@pytest.mark.parametrize(
    ("objective", "batch_size", "precision"),
    [("ce", 1, "float32"), ("ce", 8, "float64"), ("fedprox", 7, "float32"), ("middle_plus", 64, "float32")],
)
def test_a_perceptron_is_trained_to_the_bits_that_autograd_gives(
    objective: str, batch_size: int, precision: str
) -> None:
    spec, shard = replace(spec_of("mlp", True), batch_size=batch_size, precision=precision), shard_of(1)
    learner = Learner(spec)
    start = flatten(module_of(spec))
    prepared = learner.prepared(shard)
    assert prepared is not None

    for epochs, seed in ((1, 3), (2, 4)):
        training = LocalTraining(epochs=epochs, seed=seed, objective=objective)
        before = learner.train(shard, training, start, global_model=start * 1.5)
        now = learner.train(prepared, training, start, global_model=start * 1.5)
        assert now.vector.tobytes() == before.vector.tobytes()
        assert now.velocity is not None
        assert before.velocity is not None
        assert now.velocity.tobytes() == before.velocity.tobytes()
        assert (now.mean_loss, now.mean_squared_loss) == (before.mean_loss, before.mean_squared_loss)


def test_other_models_and_layers_that_are_watched_are_left_to_autograd() -> None:
    def two() -> nn.Sequential:
        return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

    watched, frozen, biasless = two(), two(), nn.Sequential(nn.Linear(6, 3, bias=False))
    watched[1].register_forward_hook(lambda *_: None)
    frozen[0].weight.requires_grad_(False)

    assert isinstance(perceptron_of(two()), Perceptron)
    assert isinstance(perceptron_of(nn.Sequential(nn.Linear(6, 3))), Perceptron)
    others = [watched, frozen, biasless, nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(6, 5), None]
    assert [perceptron_of(other) for other in others] == [None] * len(others)


@pytest.mark.parametrize("hidden", [16, 5])  # in one tensor, and each in its own
def test_losses_and_gradients_of_a_perceptron_have_the_bits_of_autograd(hidden: int) -> None:
    module = nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, 3))
    module.load_state_dict({name: torch.randn_like(value) for name, value in module.state_dict().items()})
    inputs, targets = torch.randn(9, 16), torch.randint(0, 3, (9,))
    losses = nn.functional.cross_entropy(module(inputs), targets, reduction="none")
    expected = torch.autograd.grad(losses.mean(), list(module.parameters()))

    perceptron = perceptron_of(module)
    assert perceptron is not None
    assert len(perceptron.trained) == (1 if hidden == 16 else 4)
    assert perceptron.losses(inputs, targets).numpy().tobytes() == losses.detach().numpy().tobytes()
    for ours, wanted in zip(perceptron.gradients, expected, strict=True):
        assert ours.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("channels_last", [True, False])
def test_models_trained_on_prepared_data_have_the_bits_of_those_trained_on_the_data(
    channels: int, channels_last: bool
) -> None:
    spec, shard = spec_of("mlp", channels_last, channels=channels), shard_of(channels)
    learner, start = Learner(spec), flatten(module_of(spec))
    prepared = learner.prepared(shard)

    assert isinstance(prepared, Batches)
    for epochs, seed in ((1, 3), (2, 4)):
        training = LocalTraining(epochs=epochs, seed=seed)
        before, now = learner.train(shard, training, start), learner.train(prepared, training, start)
        assert now.vector.tobytes() == before.vector.tobytes()
        assert (now.mean_loss, now.samples, now.sgd_steps) == (
            before.mean_loss,
            before.samples,
            before.sgd_steps,
        )


def test_layers_that_hold_draw_or_are_watched_are_no_part_of_what_is_done_once() -> None:
    pool, watched = nn.AvgPool2d(2), nn.AvgPool2d(2)
    watched.register_forward_hook(lambda *_: None)

    assert fixed_front(nn.Sequential(pool, nn.Flatten(), nn.Linear(4, 2))) == 2
    assert fixed_front(nn.Sequential(pool, watched, nn.Linear(4, 2))) == 1
    assert fixed_front(nn.Sequential(pool, nn.Dropout(), nn.Linear(4, 2))) == 1
    assert fixed_front(nn.Sequential(nn.Linear(4, 2))) == 0
    assert fixed_front(nn.ReLU()) == 0
    whole = nn.Sequential(pool, nn.Flatten(), nn.Linear(4, 2))
    for watch in (
        whole.register_forward_hook,
        whole.register_forward_pre_hook,
        whole.register_full_backward_hook,
        whole.register_full_backward_pre_hook,
    ):
        handle = watch(lambda *_: None)
        assert fixed_front(whole) == 0
        handle.remove()
    assert fixed_front(whole) == 2


def test_nothing_is_prepared_where_each_training_sees_other_images() -> None:
    assert Learner(spec_of("mlp", True, augmentation="crop_flip")).prepared(shard_of(1)) is None
    assert Learner(spec_of("mohawk_cnn", True)).prepared(shard_of(1)) is None
