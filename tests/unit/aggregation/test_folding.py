from __future__ import annotations

import numpy as np
import pytest

from roambench.aggregation import Folding


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_models_are_averaged_by_their_shares():
    folding = Folding()
    for model, share in ((vector(8, 0), 100), (vector(0, 4), 300)):
        folding.add(model, share)
    mean, weights = folding.close()
    assert mean.tolist() == [2.0, 3.0]
    assert weights.tolist() == [0.25, 0.75]


def test_a_share_of_zero_is_a_weight_of_zero():
    folding = Folding()
    folding.add(vector(5), 0)
    folding.add(vector(3), 2)
    mean, weights = folding.close()
    assert mean.tolist() == [3.0]
    assert weights.tolist() == [0.0, 1.0]


def test_shares_that_add_up_to_nothing_are_refused():
    folding = Folding()
    folding.add(vector(5), 0)
    with pytest.raises(ValueError, match="at least one model with a weight"):
        folding.close()
