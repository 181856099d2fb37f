"""Names of a sweep's points by the keys that vary."""

from __future__ import annotations

import pytest

from roambench.runs.settings import named

KEYS = ["system", "learning.alpha", "algorithm.mohawk.share", "seed"]


@pytest.mark.parametrize(
    ("values", "keys", "name"),
    [
        ({"system": "mohawk", "learning.alpha": 0.1, "seed": 3}, KEYS, "mohawk alpha=0.1 seed=3"),
        ({"system": "mohawk", "algorithm.mohawk.share": 0.5, "seed": 3}, KEYS, "mohawk share=0.5 seed=3"),
        ({"seed": 3}, ["rounds.orders"], "orders=null"),
        ({"a.share": 1, "b.share": 2}, ["a.share", "b.share"], "a.share=1 b.share=2"),
    ],
)
def test_a_name_is_as_short_as_the_keys_allow(values, keys, name) -> None:
    assert named(values, keys) == name
