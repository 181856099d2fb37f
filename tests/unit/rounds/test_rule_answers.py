"""Answers of rules that packages add: whatever cannot be a model with its weights is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from roambench.contract.errors import PluginError
from roambench.rounds.rule_answers import checked_aggregate

MODEL = np.zeros(3, np.float32)
HALVES = (0.5, 0.5)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (MODEL, "expected a model, its weights and perhaps a memory, got ndarray"),
        (([0.0], HALVES), "expected a model of float32 of (3,), got list"),
        ((MODEL.astype(np.float64), HALVES), "expected a model of float32 of (3,), got float64 of (3,)"),
        ((MODEL, (1.0,)), "expected 2 weights, got float64 of (1,)"),
        ((MODEL, ("a", "b")), "expected 2 weights, got <U1 of (2,)"),
        ((MODEL, (np.nan, 1.0)), "expected finite weights, got [nan, 1.0]"),
        ((MODEL * np.nan, HALVES), "expected a finite model, got NaN or infinity in it"),
        ((MODEL, (0.5, 0.6)), "expected weights that add up to 1, got [0.5, 0.6]"),
        ((MODEL, HALVES, 7), "expected a memory of named vectors, got int"),
        ((MODEL, HALVES, {3: MODEL}), "memory: expected texts as names, got 3"),
        ((MODEL, HALVES, {"m": MODEL[None]}), "memory['m']: expected a flat float32 or float64 vector"),
        ((MODEL, HALVES, {"m": "x"}), "memory['m']: expected a flat float32 or float64 vector, got 'x'"),
        ((MODEL, HALVES, {"m": MODEL + np.inf}), "memory['m']: expected finite numbers, got NaN or infinity"),
    ],
)
def test_an_answer_that_would_poison_the_run_is_refused(answer: object, told: str) -> None:
    with pytest.raises(PluginError, match=f"^rule x: {re.escape(told)}"):
        checked_aggregate((1, 4), answer, MODEL, "rule x")


def test_an_answer_is_kept_with_its_memory() -> None:
    found = checked_aggregate((1, 4), (MODEL + 1, HALVES, {"m": MODEL}), MODEL, "rule x")
    assert (found.members, found.weights.tolist()) == ((1, 4), [0.5, 0.5])
    assert found.memory is not None
    assert list(found.memory) == ["m"]
