"""The round loop on real people's movements: check-ins of New York, 744 hours from 2012-04-17."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rehearsed import rehearse
from roambench.mobility.importing import import_trace
from roambench.mobility.projection import Box
from roambench.mobility.recipe import Recipe
from roambench.mobility.trace import Trace
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from samples import sampled
from tally import tally

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def new_york(data_folder: Path) -> Trace:
    path = data_folder / "traces" / "fsq_tsmc2014_nyc_147938.csv.xz"
    if not path.exists():
        pytest.skip(f"no {path.name} in the data folder")
    recipe = Recipe(box=Box.square(40.7350, -73.9900), start_utc_s=1_334_620_800, devices=None)
    return import_trace("checkins", [path], recipe).trace


KNOWN = (
    ("hierfavg", 5, 2.873, 0.881),
    ("mohawk", 2, 3.693, 0.848),
    ("mohawk", 5, 5.306, 0.781),
    ("mohawk", 10, 7.206, 0.703),
)


@pytest.mark.parametrize(
    ("name", "k2", "aggregated", "wasted"),
    sampled([KNOWN[1]], KNOWN),
)
def test_aggregated_per_step_and_waste_are_the_known_ones(new_york, name, k2, aggregated, wasted):
    """Counted once, outside this project's code, on the same 882 devices."""
    assert len(new_york.device_names) == 882
    count = tally(asyncio.run(rehearse(make_system(name, SystemOptions(k2=k2)), new_york, 42)))
    assert round(count.aggregated_per_step, 3) == aggregated
    assert round(count.wasted_share, 3) == wasted
