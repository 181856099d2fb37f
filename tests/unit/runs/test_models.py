"""Models of a run as safetensors."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from roambench.contract.errors import ModelError, RunError
from roambench.runs.models import load_model, save_model


def test_a_model_is_kept_as_named_tensors_and_comes_back_flat_in_its_own_order(tmp_path):
    """The file sorts by name; the vector's order is weight, then bias."""
    vector = np.arange(8, dtype=np.float32)
    path = save_model(
        tmp_path / "models" / "global.safetensors", vector, names=("weight", "bias"), shapes=((2, 3), (2,))
    )
    tensors = load_file(path)
    assert tensors["weight"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert tensors["bias"].tolist() == [6.0, 7.0]
    assert load_model(path).tolist() == vector.tolist()


def test_a_model_without_a_layout_is_one_tensor(tmp_path):
    path = save_model(tmp_path / "m.safetensors", np.ones(3, dtype=np.float32))
    assert list(load_file(path)) == ["model"]
    assert load_model(path).tolist() == [1.0, 1.0, 1.0]


def test_a_model_of_the_float64_test_mode_keeps_every_digit(tmp_path):
    vector = np.array([1.0 / 3.0, 1e-300, -2.0])
    path = save_model(tmp_path / "m.safetensors", vector, names=("b", "a"), shapes=((1,), (2,)))
    back = load_model(path)
    assert back.dtype == np.float64
    assert back.tolist() == [1.0 / 3.0, 1e-300, -2.0]


@pytest.mark.parametrize(
    ("vector", "names", "shapes", "message"),
    [
        (np.ones(3, np.float32), ("a",), ((4,),), "expected 4 float32 or float64 values"),
        (np.ones(4, np.float16), ("a",), ((4,),), "got float16 of shape"),
        (np.ones(4, np.int64), ("a",), ((4,),), "got int64 of shape"),
        (np.ones(4, np.float32), ("a", "b"), ((4,),), "2 names for 1 shapes"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, vector, names, shapes, message):
    with pytest.raises(ModelError, match=message):
        save_model(tmp_path / "m.safetensors", vector, names=names, shapes=shapes)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_model_of_a_run_is_said(tmp_path):
    with pytest.raises(RunError, match="no such model"):
        load_model(tmp_path / "m.safetensors")
    (tmp_path / "m.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(ModelError, match=r"m\.safetensors"):
        load_model(tmp_path / "m.safetensors")
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="have no order"):
        load_model(tmp_path / "other.safetensors")
