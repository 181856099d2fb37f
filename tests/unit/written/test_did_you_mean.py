"""What is guessed of a key that nobody knows."""

from __future__ import annotations

import pytest

from roambench.written.mistakes import did_you_mean

KNOWN = ["learning_rate", "batch_size", "local_steps", "local_start", "momentum"]


@pytest.mark.parametrize(
    ("typed", "guess"),
    [
        ("learnin_rate", "learning_rate"),
        ("lr", "learning_rate"),
        ("bs", "batch_size"),
        ("batch", "batch_size"),
        ("loc", ""),  # two begin so
        ("ls", ""),  # of two
        ("zzz", ""),
    ],
)
def test_a_key_is_guessed_where_one_is_meant(typed: str, guess: str) -> None:
    assert did_you_mean(typed, KNOWN) == (f", did you mean {guess}?" if guess else "")
