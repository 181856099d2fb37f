"""State of models beside their parameters: tied weights, buffers of every kind, what a state dict has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from roambench.contract.errors import ConfigError, ModelError
from roambench.learning.evaluation import outputs
from roambench.learning.layout import companions_of, flatten, layout_of, load
from roambench.learning.models.build import draw_weights, refuse_misfits
from roambench.learning.shards import Images
from roambench.runs.models import load_model, load_tensors, save_model
from trained_with import trained_with

LABELS = np.arange(12) % 10


class Tied(nn.Module):
    """Two layers with one weight, and a buffer of every kind that travels or stays."""

    def __init__(self, device: str = "meta") -> None:
        super().__init__()
        self.first = nn.Linear(16, 16, device=device)
        self.norm = nn.BatchNorm1d(16, momentum=None, device=device)
        self.second = nn.Linear(16, 16, device=device)
        self.second.weight = self.first.weight
        self.last = weight_norm(nn.Linear(16, 10))
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("seen", torch.tensor(False))
        self.register_buffer("places", torch.arange(16))
        self.register_buffer("turns", torch.ones(16, dtype=torch.complex64), persistent=False)
        self.register_buffer("fine", torch.ones(16, dtype=torch.float64), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        self.seen.logical_not_()
        self.turns *= 1j
        self.fine = self.fine * 0.9
        values = images.flatten(1)[:, self.places] * (self.turns.abs() * self.fine).to(images.dtype)
        out: Tensor = self.last(self.second(self.norm(self.first(values))) * self.scale)
        return out


def images() -> Images:
    return np.random.default_rng(0).standard_normal((12, 1, 4, 4)).astype(np.float32)


def drawn(seed: int = 3) -> nn.Module:
    module = Tied()
    draw_weights(module, seed, only_meta=True)
    return module


def test_weights_tied_on_the_meta_device_are_drawn_once_and_stay_tied():
    module = drawn()
    assert not any(tensor.is_meta for tensor in module.state_dict().values())
    assert module.first.weight is module.second.weight
    assert layout_of(module).names.count("first.weight") == 1
    assert "second.weight" not in layout_of(module).names


def test_drawing_every_parameter_leaves_ties_and_buffers_as_they_were():
    module = Tied(device="cpu")
    draw_weights(module, 3)
    assert module.first.weight is module.second.weight
    assert module.places.tolist() == list(range(16))
    assert module.scale.item() == 0.5
    assert {"turns", "fine"}.isdisjoint(module.state_dict())


class Shared(nn.Module):
    """A block with two names, that runs twice: normalised, with a vector of power iterations that goes on."""

    def __init__(self, device: str = "meta") -> None:
        super().__init__()
        self.block = nn.Sequential(
            spectral_norm(nn.Linear(16, 16, device=device)),
            nn.BatchNorm1d(16, momentum=None, device=device),
        )
        self.again = self.block
        self.last = weight_norm(nn.Linear(16, 10, device=device))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.again(self.block(images.flatten(1))))
        return out


def saved_and_loaded(folder: Path, module: nn.Module, vector: np.ndarray, other: nn.Module) -> Path:
    """Save `vector` as the model `module`; it comes whole into `other`. Returns the file."""
    layout = layout_of(module)
    path = save_model(
        folder / "m.safetensors",
        vector,
        names=layout.names,
        shapes=layout.shapes,
        companions=companions_of(module),
    )
    other.load_state_dict({name: torch.from_numpy(t) for name, t in load_tensors(path).items()}, strict=True)
    assert flatten(other).tobytes() == vector.tobytes()
    return path


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_block_with_two_names_and_parametrizations_trains_alike_and_loads_back(device: str, tmp_path: Path):
    module, layout = Shared(device), layout_of(Shared(device))
    draw_weights(module, 3, only_meta=device == "meta")
    start = flatten(module)
    settings = {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "seed": 1}
    once, again = (trained_with(module, images(), LABELS, start, **settings).vector for _ in range(2))
    assert np.isfinite(once).all()
    assert again.tobytes() == once.tobytes()
    assert not any(name.startswith("again") for name in layout.names)
    saved_and_loaded(tmp_path, module, once, Shared("cpu"))


def test_one_training_leaves_nothing_for_the_next_in_the_same_worker():
    """The running mean is that of all batches since the counter began: the first training counts too, if the
    counter is not set back."""
    module = drawn()
    start = flatten(module)
    settings = {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "seed": 1}
    once, again = (trained_with(module, images(), LABELS, start, **settings).vector for _ in range(2))
    assert again.tobytes() == once.tobytes()
    fresh = trained_with(drawn(), images(), LABELS, start, **settings).vector
    assert fresh.tobytes() == once.tobytes()


def test_a_training_that_fails_leaves_nothing_either():
    module = drawn()
    before = {name: value.clone() for name, value in module.state_dict().items() if "tracked" in name}
    with pytest.raises(ModelError, match="out of bounds"):
        trained_with(module, images(), LABELS[::-1] + 90, flatten(module), batch_size=4, learning_rate=0.1)
    assert {name: module.state_dict()[name] for name in before} == before


def test_scoring_leaves_nothing_for_the_next_score():
    module = drawn()
    vector = flatten(module)
    assert torch.equal(outputs(module, vector, images()), outputs(module, vector, images()))


def test_dropout_draws_by_the_trainings_seed_and_leaves_torchs_generator_alone():
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 10))
    start, state = flatten(module), torch.get_rng_state()

    def trained(seed: int) -> bytes:
        settings = {"epochs": 1, "batch_size": 12, "learning_rate": 0.05, "seed": seed}
        return trained_with(module, images(), LABELS, start, **settings).vector.tobytes()

    assert trained(2**64 - 1) == trained(2**64 - 1) != trained(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_saved_of_a_model_is_its_whole_state_dict(tmp_path):
    module = drawn()
    vector = np.arange(layout_of(module).size, dtype=np.float32)
    other = Tied(device="cpu")
    path = saved_and_loaded(tmp_path, module, vector, other)
    assert other.scale.shape == ()
    assert other.places.dtype == torch.int64
    assert load_model(path).tobytes() == vector.tobytes()


def test_a_module_in_the_test_mode_of_float64_can_be_saved_whole_too(tmp_path):
    module = drawn().double()
    saved_and_loaded(tmp_path, module, flatten(module), Tied(device="cpu").double())


class Buffered(nn.Module):
    def __init__(self, **buffers: Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)


def test_models_that_no_flat_model_could_hold_are_refused_with_all_that_is_wrong():
    module = Buffered(exact=torch.zeros(2, dtype=torch.float64), turns=torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ConfigError) as refused:
        refuse_misfits("task 'a:B': build", module)
    assert list(refused.value.problems) == [
        "task 'a:B': build: exact: expected float32, in which models travel, or a buffer with "
        "persistent=False, got torch.float64",
        "task 'a:B': build: turns: expected float32, in which models travel, or a buffer with "
        "persistent=False, got torch.complex64",
    ]


class Filling(nn.Module):
    """Forward fills what was registered empty, and registers another buffer."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.last = nn.Linear(16, 10)
        self.register_buffer("mean", None, persistent=persistent)
        self.register_buffer("turns", None, persistent=persistent)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(images.flatten(1))
        mean, self.turns = out.detach().mean(), torch.tensor(0) if self.turns is None else self.turns + 1
        self.mean = mean if self.mean is None else 0.5 * (self.mean + mean)
        self.last.register_buffer("seen", mean)
        return out * (1.0 + self.mean + self.turns)


@pytest.mark.parametrize("persistent", [True, False])
def test_buffers_that_a_forward_pass_fills_or_registers_are_no_state(persistent: bool, tmp_path: Path):
    module = Filling(persistent)
    start, settings = flatten(module), {"epochs": 2, "batch_size": 4, "learning_rate": 0.05, "seed": 1}
    once, again = (trained_with(module, images(), LABELS, start, **settings).vector for _ in range(2))
    assert again.tobytes() == once.tobytes()
    assert torch.equal(outputs(module, once, images()), outputs(module, once, images()))
    saved_and_loaded(tmp_path, module, once, Filling(persistent))


def test_layers_that_share_memory_but_no_parameter_are_refused():
    """Each of the two would be an entry of the flat model, and train by itself."""
    first, same, turned = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
    same.weight = nn.Parameter(first.weight.data)
    turned.weight = nn.Parameter(first.weight.data.t())
    with pytest.raises(ConfigError) as refused:
        refuse_misfits("model 'x'", nn.Sequential(first, same, turned))
    assert list(refused.value.problems) == [
        f"model 'x': {place}.weight: expected a parameter that shares no memory, got a view of 0.weight: "
        "give both layers one Parameter, or clone() it"
        for place in (1, 2)
    ]
    refuse_misfits("model 'x'", nn.LSTM(3, 3, num_layers=2))


class Counting(nn.Linear):
    """A layer with state that is no tensor."""

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 3}

    def set_extra_state(self, state: dict[str, int]) -> None: ...


def test_state_that_is_no_tensor_is_refused_by_the_name_of_its_module() -> None:
    for name, module in (("1", nn.Sequential(nn.Flatten(), Counting(2, 2))), ("the model", Counting(2, 2))):
        with pytest.raises(ConfigError) as refused:
            refuse_misfits("model 'x'", module)
        assert list(refused.value.problems) == [
            f"model 'x': {name}: expected parameters and buffers alone as state, got get_extra_state"
        ]


def test_buffers_that_are_views_are_refused_with_what_they_view() -> None:
    module = Buffered(mask=torch.ones(1).expand(3), places=torch.arange(2)[:1].expand(2))
    module.register_buffer("corner", module.fc.weight.detach()[:1])
    module.register_buffer("whole", module.fc.weight.detach())
    with pytest.raises(ConfigError) as refused:
        refuse_misfits("model 'x'", module)
    expanded = "expected a buffer with a place for each value, got an expanded one: clone() it"
    assert list(refused.value.problems) == [
        f"model 'x': mask: {expanded}",
        f"model 'x': places: {expanded}",
        "model 'x': corner: expected a buffer that shares no memory, got a view of fc.weight: clone() it",
        "model 'x': whole: expected a buffer that shares no memory, got a view of fc.weight: clone() it",
    ]
    halves = torch.arange(6.0)
    refuse_misfits(
        "model 'x'", Buffered(first=halves[:3], last=halves[3:], none=halves[:0], one=torch.ones(1, 1))
    )


def test_what_would_be_zeros_or_could_not_be_trained_is_refused() -> None:
    """The values of a user's buffers are not drawn, and a frozen parameter has no gradient."""
    module = Buffered(places=torch.arange(3, device="meta"), graph=torch.eye(2).to_sparse())
    module.norm = nn.BatchNorm1d(2, device="meta")
    module.fc.bias.requires_grad_(False)
    with pytest.raises(ConfigError) as refused:
        refuse_misfits("model 'x'", module)
    assert list(refused.value.problems) == [
        "model 'x': fc.bias: expected a trained parameter or a buffer, got a frozen parameter",
        "model 'x': places: expected a buffer with values, got one on the meta device",
        "model 'x': graph: expected a dense tensor, got torch.sparse_coo",
    ]


@pytest.mark.parametrize("lazy", [nn.LazyLinear(3), nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d())])
def test_lazy_modules_are_refused_by_the_name_of_what_has_no_shape(lazy: nn.Module):
    with pytest.raises(ConfigError, match=r"model 'x': (1\.)?weight has no shape: expected the sizes"):
        refuse_misfits("model 'x'", lazy)


def test_other_kinds_of_floats_and_integers_are_no_misfits():
    module = Buffered(brief=torch.zeros(2, dtype=torch.bfloat16), flags=torch.zeros(2, dtype=torch.bool))
    refuse_misfits("model 'x'", module)
    load(module, np.arange(8, dtype=np.float32))
    assert module.brief.tolist() == [6.0, 7.0]
