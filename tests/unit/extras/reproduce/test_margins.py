"""Claims that runs are no worse: minus their margin stands in the place of 0."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from roambench.contract.errors import ConfigError
from roambench.extras.reproduce.catalogue import Claim, read_catalogue
from roambench.extras.reproduce.claims import Bounded, ClaimVerdict, Difference, Judged, claims_table

CATALOGUE = Path(__file__).parents[4] / "experiments" / "reproduction.toml"
NO_WORSE = Claim.model_validate(
    {
        "says": "MOHAWK loses less than 1.8 points",
        "metric": "final_accuracy",
        "of": {"systems": "mohawk"},
        "better": "more",
        "margin": 0.018,
    }
)


@pytest.mark.parametrize(
    ("leads", "verdict"),
    [
        ((-0.010, -0.008, -0.012), ClaimVerdict.REPRODUCED),  # behind, by less than counts
        ((0.02, 0.03, 0.01), ClaimVerdict.REPRODUCED),
        ((-0.02, 0.01, -0.03), ClaimVerdict.UNDECIDED),
        ((-0.04, -0.05, -0.045), ClaimVerdict.WRONG_SIGN),
        ((-0.010, -0.010, -0.010), ClaimVerdict.ALIKE),
        ((0.0, 0.0, 0.0), ClaimVerdict.ALIKE),
    ],
)
def test_a_claim_that_runs_are_no_worse_is_decided_at_its_margin(
    leads: tuple[float, ...], verdict: ClaimVerdict
) -> None:
    found = Difference(
        "plain", tuple(map(Bounded, leads)), Bounded(0.8), Bounded(0.8 - np.mean(leads)), margin=0.0153
    )
    assert found.verdict is verdict
    if verdict is not ClaimVerdict.ALIKE:  # SciPy's own test of the same
        above = stats.ttest_1samp(leads, -0.0153, alternative="greater").pvalue <= 0.025
        below = stats.ttest_1samp(leads, -0.0153, alternative="less").pvalue <= 0.025
        assert (above, below) == (verdict is ClaimVerdict.REPRODUCED, verdict is ClaimVerdict.WRONG_SIGN)


@pytest.mark.parametrize(
    ("mean", "half", "printed"),
    [(-0.0100, 0.00797, "-1.000 ± 0.797"), (-0.0098, 0.0083, "-1.0 ± 0.8"), (0.0008, 0.0006, "+0.1 ± 0.1")],
)
def test_a_lead_near_its_margin_is_printed_as_what_it_is(mean: float, half: float, printed: str) -> None:
    """By three seeds whose interval is that."""
    spread = half * np.sqrt(3) / stats.t(2).isf(0.025)
    leads = tuple(Bounded(mean + spread * one) for one in (-1.0, 0.0, 1.0))
    found = Difference("plain", leads, Bounded(0.8), Bounded(0.8), margin=0.018)
    row = claims_table([Judged(NO_WORSE, found)]).rows[0]
    assert row[4].startswith(printed)


def test_a_margin_that_the_sentence_does_not_name_is_refused(tmp_path: Path) -> None:
    text = CATALOGUE.read_text("utf-8").replace("margin = 0.018", "margin = 1.8")
    shutil.copytree(CATALOGUE.parent, tmp_path / "experiments")
    (tmp_path / "experiments" / "reproduction.toml").write_text(text, "utf-8")
    with pytest.raises(
        ConfigError, match="mohawk-scale: margin: expected 180 in its sentence, got MOHAWK loses"
    ):
        read_catalogue(tmp_path / "experiments" / "reproduction.toml")


def test_of_bounds_the_seeds_beyond_the_margin_are_counted() -> None:
    six = tuple(Bounded(lead, at_least=True) for lead in (-1.0, -2.0, -0.5, -1.5, -1.0, -2.5))
    close = Difference("plain", six, Bounded(20.0), Bounded(20.0), margin=3.0)
    assert close.verdict is ClaimVerdict.REPRODUCED
    assert replace(close, margin=1.2).verdict is ClaimVerdict.UNDECIDED
    behind = tuple(Bounded(lead, at_most=True) for lead in (-4.0, -5.0, -3.5, -4.5, -4.0, -6.0))
    assert replace(close, leads=behind).verdict is ClaimVerdict.WRONG_SIGN
    assert replace(close, leads=behind, rivals=2).verdict is ClaimVerdict.UNDECIDED  # seven must agree
