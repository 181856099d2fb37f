"""What a comparison runs and in which order, and what is wrong with one before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.study.ab.ab_plan import Asked, abba, plan_ab
from roambench.study.sweep.points import point_key

EXPERIMENT = """
name = "tryout"
seed = 7
systems = ["mohawk"]
trace = { parameters = { devices = 40, steps = 48 }, steps = 6 }
fleet = { agents = 8 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tryout.toml"
    path.write_text(EXPERIMENT)
    return path


def asked(file: Path, **changes: object) -> Asked:
    values: dict[str, object] = {
        "a": file, "b": file, "fleet": "rehearsal", "repeats": 4, "changes_b": ('systems=["hierfavg"]',),
    } | changes  # fmt: skip
    return Asked(**values)  # type: ignore[arg-type]


def test_runs_take_turns_in_mirrored_order() -> None:
    assert "".join(arm for _, arm in abba(4)) == "ABBAABBA"
    assert list(abba(2)) == [(1, "A"), (1, "B"), (2, "B"), (2, "A")]


def test_both_runs_of_a_pair_have_its_seed(file: Path) -> None:
    plan = plan_ab(asked(file))
    assert [(turn.arm, turn.pair, turn.point.system, turn.point.seed) for turn in plan.turns[:4]] == [
        ("A", 1, "mohawk", 7), ("B", 1, "hierfavg", 7), ("B", 2, "hierfavg", 8), ("A", 2, "mohawk", 8),
    ]  # fmt: skip
    assert {turn.point.seed for turn in plan.turns} == {7, 8, 9, 10}
    assert (plan.labels, plan.warnings) == ({"A": "mohawk", "B": "hierfavg"}, ())
    assert plan.differences == (("systems", '["mohawk"]', '["hierfavg"]'),)


def test_one_seed_for_all_repeats_still_makes_runs_of_their_own(file: Path) -> None:
    plan = plan_ab(asked(file, same_seed=True))
    assert {turn.point.seed for turn in plan.turns} == {7}
    assert len({turn.point.folder_name for turn in plan.turns}) == 8
    assert len({point_key(turn.point.experiment, "rehearsal", "") for turn in plan.turns}) == 2


def test_the_same_comparison_has_the_same_folders_and_more_pairs_keep_them(file: Path) -> None:
    four, six = plan_ab(asked(file)), plan_ab(asked(file, repeats=6))
    names = [turn.point.folder_name for turn in six.turns]
    assert names[:8] == [turn.point.folder_name for turn in four.turns]


def test_an_experiment_can_be_held_against_itself(file: Path) -> None:
    plan = plan_ab(asked(file, changes_b=()))
    assert plan.labels == {"A": "A", "B": "B"}
    assert plan.differences == ()


def test_arms_are_named_by_what_tells_them_apart(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "faster.toml"
    other.write_text(EXPERIMENT + "learning = { learning_rate = 0.05 }\n")
    assert plan_ab(asked(file, b=other, changes_b=())).labels == {"A": "tryout", "B": "faster"}
    by_key = plan_ab(asked(file, changes_b=("rounds.cloud_every_steps=5",)))
    assert by_key.labels == {"A": "tryout", "B": "rounds.cloud_every_steps=5"}


def test_work_that_is_not_the_same_is_told(file: Path) -> None:
    plan = plan_ab(asked(file, changes_b=("fleet.agents=6",), repeats=3))
    assert plan.warnings == (
        "fleet.agents differs (8 and 6): A and B do not do the same work",
        "an odd number of pairs: a slow drift of the bench does not cancel in the last one",
    )
    assert plan_ab(asked(file, repeats=1)).warnings == (
        "one pair only: no interval, nothing is claimed; take --repeats 4 or more",
    )


def test_every_mistake_of_both_files_is_told_at_once(file: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_ab(
            asked(file, changes_a=('systems=["mohawk","macfl"]',), changes_b=("rounds.cloud_every_steps=0",))
        )
    first, second = refused.value.problems
    assert first.startswith("tryout.toml: systems: expected one to compare, got mohawk, macfl; --set-a")
    assert "rounds.cloud_every_steps" in second
