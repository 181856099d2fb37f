"""A comparison's page begins with what it found, whichever of the two it speaks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.energy.ledger import Basis
from roambench.study.ab.ab_page import finding_of
from roambench.study.ab.ab_plan import Asked, plan_ab
from roambench.study.ab.ab_results import ab_table
from roambench.study.sweep.sweep_folder import PointEnd


@pytest.mark.parametrize(
    ("name", "of_a", "of_b", "told"),
    [
        ("wasted_j", (10.0, 11.0), (20.0, 22.0), "hierfavg wasted 2.00 × the energy of mohawk, in 2 pairs"),
        ("modelled_wasted_j", (20.0, 22.0), (10.0, 11.0), "mohawk wasted 2.00 × the energy (modelled) of"),
        (
            "wasted_share",
            (0.2, 0.3),
            (0.3, 0.2),
            "The wasted share of trainings of hierfavg is 1.000 × [0.006, 172.763] that of mohawk: not "
            "resolved in 2 pairs of runs",
        ),
        ("wasted_j", (1.0,), (9.0,), "The wasted energy of mohawk and hierfavg, one pair: no claim"),
        (
            "wasted_j",
            (1.0, 1.0),
            (3.0, 3.0),
            "The wasted energy of mohawk and hierfavg, the same in every pair: no claim",
        ),
        ("final_accuracy", (0.8, 0.8), (0.9, 0.9), "mohawk against hierfavg"),
    ],
)
def test_the_title_says_who_wasted_how_many_times_as_much(
    tmp_path: Path, name: str, of_a: tuple[float, ...], of_b: tuple[float, ...], told: str
) -> None:
    file = tmp_path / "tryout.toml"
    file.write_text('name = "tryout"\nsystems = ["mohawk"]\n')
    plan = plan_ab(Asked(file, file, "rehearsal", len(of_a), changes_b=('systems=["hierfavg"]',)))
    basis: Basis = "modelled" if name.startswith("modelled_") else "measured"
    ended = {
        (arm, n + 1): PointEnd("", {name.removeprefix("modelled_"): value}, basis=basis)
        for arm, values in (("A", of_a), ("B", of_b))
        for n, value in enumerate(values)
    }
    assert finding_of(plan, ab_table(len(of_a), ended)).startswith(told)
