from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from roambench.contract.errors import ModelError
from roambench.contract.model_blob import decode, encode
from roambench.learning.layout import Layout, flatten, layout_of, load
from roambench.learning.models.build import build


def test_the_vector_holds_parameters_in_order_row_by_row():
    module = nn.Linear(2, 2)
    load(module, np.array([1, 2, 3, 4, 5, 6], dtype=np.float32))
    assert module.weight.tolist() == [[1, 2], [3, 4]]
    assert module.bias.tolist() == [5, 6]
    assert flatten(module).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_what_is_loaded_comes_back_bit_for_bit_in_any_memory_format(memory_format: torch.memory_format):
    module = build("mohawk_cnn", 3, 10).to(memory_format=memory_format)
    vector = np.random.default_rng(0).standard_normal(659_818).astype(np.float32)
    load(module, vector)
    assert flatten(module).tobytes() == vector.tobytes()


def test_the_memory_format_does_not_change_the_model():
    module = build("mohawk_cnn", 3, 10)
    before = flatten(module)
    assert flatten(module.to(memory_format=torch.channels_last)).tobytes() == before.tobytes()


def test_a_flattened_model_is_a_copy():
    module = build("mlp", 1, 10)
    before = flatten(module)
    kept = before.copy()
    load(module, np.zeros_like(before))
    assert before.tobytes() == kept.tobytes()


def test_a_received_blob_can_be_loaded():
    module = build("mlp", 1, 10, seed=5)
    layout = layout_of(module).fingerprint
    vector = flatten(module)
    load(module, decode(encode(vector, layout), layout=layout))
    assert flatten(module).tobytes() == vector.tobytes()


def test_a_vector_of_another_length_is_refused_and_changes_nothing():
    module = build("mlp", 1, 10, seed=5)
    before = flatten(module)
    with pytest.raises(ModelError, match=r"2410 parameters, the vector shape \(3,\)"):
        load(module, np.ones(3, dtype=np.float32))
    assert flatten(module).tobytes() == before.tobytes()


def test_the_fingerprint_tells_shapes_and_names_apart():
    first = Layout(("a", "b"), ((2, 3), (4,)))
    assert first.fingerprint == Layout(("a", "b"), ((2, 3), (4,))).fingerprint
    others = [
        Layout(("a", "b"), ((3, 2), (4,))),
        Layout(("a", "c"), ((2, 3), (4,))),
        Layout(("b", "a"), ((4,), (2, 3))),
    ]
    assert len({layout.fingerprint for layout in (first, *others)}) == 4
    assert first.size == 10


def test_running_statistics_travel_and_step_counters_do_not():
    module = nn.BatchNorm2d(2)
    layout = layout_of(module)
    assert layout.names == ("weight", "bias", "running_mean", "running_var")
    load(module, np.arange(8, dtype=np.float32))
    assert module.running_mean is not None
    assert module.running_mean.tolist() == [4, 5]


def test_entries_are_found_in_torchs_own_order() -> None:
    tied = nn.Linear(3, 3)
    module = nn.Sequential(nn.BatchNorm1d(3), tied, nn.Sequential(tied, nn.PReLU()), nn.BatchNorm1d(3))
    floating = [name for name, buffer in module.named_buffers() if buffer.is_floating_point()]
    assert list(layout_of(module).names) == [*(name for name, _ in module.named_parameters()), *floating]
