"""The judging against kits of another author, who had the page alone: no false alarm, no miss."""

from __future__ import annotations

import pytest

from other_kits import FAIR, ODD, World, kit_of
from roambench.extras.verify.finding import Held
from roambench.extras.verify.judging import judged
from samples import sampled


@pytest.mark.parametrize(
    "world", sampled([*FAIR[::2], *ODD[::2]], [*FAIR, *ODD]), ids=lambda world: world.name
)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 7))])
def test_what_was_drawn_is_found_and_nothing_else(world: World, seed: int) -> None:
    failed = {one.assumption: one.found for one in judged(kit_of(world, seed)) if one.held is Held.FAILS}
    for wrong in world.wrong:
        assert any(wrong in name for name in failed), wrong
    expected = world.wrong | world.open
    assert {name: found for name, found in failed.items() if not any(one in name for one in expected)} == {}
