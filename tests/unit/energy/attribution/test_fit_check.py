"""What readings say against the fit, in worlds that share nothing with it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(("meter", "seed"), [("sp3-50ms", 22), ("sp3-50ms", 29), ("sp3-10ms", 18)])
def test_noise_that_neighbouring_lines_share_is_no_misfit(worlds, meter, seed):
    """What a quiet board draws holds for 66 ms; taken for independent, 4 to 5 standard deviations."""
    _, account = worlds.accounted("clean-1s", meter, seed)
    assert account.attribution.misfit.z < 3.9
    assert not account.contradicted


@pytest.mark.parametrize("meter", ["sp3-50ms", "sp3-10ms"])
def test_a_burst_in_a_transfer_is_one(worlds, meter):
    _, account = worlds.accounted("burst-0.5s", meter, 22)
    assert account.attribution.misfit.contradicts
    assert account.attribution.misfit.level.removeprefix("train ") in {"tail", "download", "upload"}
