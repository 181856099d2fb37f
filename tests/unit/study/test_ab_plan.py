"""What a comparison runs and in which order, and what is wrong with one before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.experiment.sections import Experiment, resolved
from roambench.runs.fleet_kinds import FLEET_KINDS
from roambench.study.ab.ab_plan import (
    _ALIKE,
    _SYSTEMS_KEYS,
    _SYSTEMS_TABLES,
    Asked,
    _may_differ,
    abba,
    plan_ab,
)
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
    plan = plan_ab(asked(file, same_seed=True, fleet="local"))
    assert {turn.point.seed for turn in plan.turns} == {7}
    assert len({turn.point.folder_name for turn in plan.turns}) == 8
    assert len({point_key(turn.point.experiment, "local", "") for turn in plan.turns}) == 2


@pytest.mark.parametrize("fleet", ["rehearsal", "simulated"])
def test_copies_of_one_pair_are_refused_before_anything_runs(file: Path, fleet: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_ab(asked(file, same_seed=True, fleet=fleet))
    (problem,) = refused.value.problems
    assert problem == (
        f"--same-seed: on --fleet {fleet} chance has no part but the seed, so 4 pairs would be "
        "copies of one: expected none, or --repeats 1"
    )
    assert plan_ab(asked(file, same_seed=True, fleet=fleet, repeats=1)).pairs == 1


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
        "fleet.agents differs (8 and 6): A and B do not do the same work, or are not measured alike",
        "an odd number of pairs: a slow drift of the bench does not cancel in the last one",
    )
    assert plan_ab(asked(file, repeats=1)).warnings == (
        "one pair only: no interval, nothing is claimed; take --repeats 4 or more",
    )


@pytest.mark.parametrize(
    ("change", "fleet"),
    [
        ('learning.dataset="synthetic"', "rehearsal"),
        ("learning.images_per_device=50", "rehearsal"),
        ("learning.alpha=0.1", "rehearsal"),
        ("synthetic.noise=2.0", "rehearsal"),
        ('fleet.mapping="random"', "rehearsal"),
        ("rounds.stop_at_threshold=true", "rehearsal"),
        ("rounds.accuracy_threshold=0.7", "rehearsal"),
        ('algorithm.sync_download="free"', "rehearsal"),
        ("contacts.radius=4.0", "rehearsal"),
        ("links.port_mbit_s=50.0", "rehearsal"),
        ("energy.gain=1.2", "local"),
        ('local.meter_profile="ina226"', "local"),
        ("local.cpu_slowdown=10.0", "local"),
        ("simulated.train_w=2.0", "simulated"),
    ],
)
def test_what_is_no_systems_own_is_told_where_the_fleet_reads_it(file: Path, change: str, fleet: str) -> None:
    key = change.partition("=")[0]
    (told,) = plan_ab(asked(file, changes_b=(change,), fleet=fleet)).warnings
    assert told.startswith(f"{key} differs (")
    if key.startswith(("local.", "simulated.")):
        assert plan_ab(asked(file, changes_b=(change,))).warnings == ()


@pytest.mark.parametrize(
    ("change", "fleet"),
    [
        ("energy.gain=1.2", "simulated"),  # of no meter
        ("energy.idle_baseline_s=5.0", "simulated"),
        ("clock.period_s=33.0", "simulated"),
        ("host.period_s=7.0", "simulated"),
        ('influxdb.bucket="x"', "simulated"),
        ('influxdb.bucket="x"', "local"),  # of copies
    ],
)
def test_what_the_fleet_does_not_read_is_not_told(file: Path, change: str, fleet: str) -> None:
    assert plan_ab(asked(file, changes_b=(change,), fleet=fleet)).warnings == ()


@pytest.mark.parametrize(
    "key",
    [
        *("learning.learning_rate", "learning.model", "links.codec_up", "rounds.cloud_every_steps"),
        *("fleet.aps", "algorithm.per_ap", "algorithm.parameters.macfl.tau", "systems"),
    ],
)
def test_what_a_system_does_may_differ(key: str) -> None:
    assert _may_differ(key, FLEET_KINDS["local"])


def test_every_key_that_may_differ_is_a_key_of_an_experiment() -> None:
    keys = resolved(Experiment())
    assert set(_SYSTEMS_TABLES) <= set(keys)
    for table, names in _SYSTEMS_KEYS.items():
        assert set(names) < set(keys[table])
    for key in _ALIKE:
        table, name = key.split(".")
        assert name in keys[table]


def test_every_mistake_of_both_files_is_told_at_once(file: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_ab(
            asked(file, changes_a=('systems=["mohawk","macfl"]',), changes_b=("rounds.cloud_every_steps=0",))
        )
    first, second = refused.value.problems
    assert first.startswith("tryout.toml: systems: expected one to compare, got mohawk, macfl; --set-a")
    assert "rounds.cloud_every_steps" in second
