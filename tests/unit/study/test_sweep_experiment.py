"""Where a sweep's experiment comes from: a file beside it, its own tables, the command line."""

from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.study.sweep.points import Point, points_of
from roambench.study.sweep.sweep_file import read_sweep

GRID = "[grid]\nrounds.cloud_every_steps = [2, 5]\n"
INLINE = """\
[experiment]
seed = 7
systems = ["mohawk"]
[experiment.trace]
steps = 4
[experiment.fleet]
agents = 4
"""
FILE = INLINE.removeprefix("[experiment]\n").replace("experiment.", "")


def points(folder: Path, sweep: str, *overrides: str, trace: Path | None = None) -> list[Point]:
    (folder / "sweep.toml").write_text(sweep)
    return points_of(read_sweep(folder / "sweep.toml", overrides, trace))


def problems(folder: Path, sweep: str, *overrides: str, trace: Path | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        points(folder, sweep, *overrides, trace=trace)
    return list(without_lines(caught.value.problems))


def test_an_experiment_in_the_sweep_itself_is_the_same_as_one_in_a_file(tmp_path: Path) -> None:
    """So a sweep may be split or joined and what ran is still known."""
    (tmp_path / "tiny.toml").write_text(FILE)
    inline, beside = points(tmp_path, INLINE + GRID), points(tmp_path, 'experiment = "tiny.toml"\n' + GRID)
    assert [point.experiment.fleet.agents for point in inline] == [4, 4]
    assert [point.key for point in inline] == [point.key for point in beside]
    assert [point.row for point in inline] == [point.row for point in beside]


def test_mistakes_of_an_experiment_in_the_sweep_say_where_they_stand(tmp_path: Path) -> None:
    sweep = INLINE.replace("seed", "sede").replace("agents = 4", "agents = -1") + GRID
    assert problems(tmp_path, sweep) == [
        "sweep.toml: experiment: sede: unknown key, did you mean seed?",
        "sweep.toml: experiment: fleet.agents: expected an integer ≥ 0, got -1",
    ]


def test_a_sweep_without_an_experiment_is_told_what_to_write(tmp_path: Path) -> None:
    assert problems(tmp_path, GRID + "[experimnt]\nseed = 1\n") == [
        "sweep.toml: experimnt: unknown key, did you mean experiment?",
        "sweep.toml: experiment: is missing, expected an experiment file, or its keys under [experiment]",
    ]


def test_mistakes_of_the_file_the_experiment_and_the_grid_come_at_once_with_their_lines(
    tmp_path: Path,
) -> None:
    """Else a user mends one of them, and is told the next."""
    experiment = "[experiment]\nsede = 1\n"
    grid = (
        "[grid]\nlearning.alpha = [-1.0]\nfoo = [1]\nlearning.alfa = [2]\nlearning.model = ['mpl']\n"
        "[[include]]\nseed.first = 3\nfleet.agents = 2\n"
    )

    def lines(sweep: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            points(tmp_path, sweep)
        return [
            problem.partition(" expected")[0].partition(" unknown")[0] for problem in caught.value.problems
        ]

    found = [
        "sweep.toml:2: experiment: sede:",
        "sweep.toml:4: grid: learning.alpha:",
        "sweep.toml:5: grid: foo:",
        "sweep.toml:6: grid: learning.alfa:",
        "sweep.toml:7: grid: learning.model:",
        "sweep.toml:9: include[1]: seed:",
    ]
    assert lines(experiment + grid) == found
    # A rule between keys is no mistake of a value by itself: another key may be what is wrong.
    assert lines(experiment + grid + "[[exclude]]\nrounds.k2 = []\n[[include]]\ntrace.file = 'x'\n") == [
        *found,
        "sweep.toml:12: exclude[1]: rounds.k2:",
    ]
    assert lines(INLINE + "[grid]\nfleet.agents = [-1, 2]\n") == ["sweep.toml:9: grid: fleet.agents:"]


def test_paths_of_an_experiment_in_the_sweep_begin_at_the_sweep(tmp_path: Path) -> None:
    sweep = INLINE.replace("steps = 4", 'file = "walks.parquet"') + GRID
    missing = f"expected a trace file, {tmp_path / 'walks.parquet'} does not exist"
    assert problems(tmp_path, sweep) == [f"sweep.toml: experiment: trace.file: {missing}"]


def test_the_command_line_changes_every_point_and_its_paths_begin_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "walks.parquet").write_bytes(b"PAR1")
    sweep = INLINE + GRID
    found = points(tmp_path / "other", sweep, "seed=9", "fleet.agents=3", trace=Path("walks.parquet"))
    assert [(p.seed, p.experiment.fleet.agents, p.experiment.trace.file) for p in found] == [
        (9, 3, "walks.parquet")
    ] * 2
    assert {point.key for point in found}.isdisjoint(
        point.key for point in points(tmp_path / "other", sweep, "seed=9", "fleet.agents=3")
    )


def test_the_command_line_may_not_set_what_the_sweep_varies(tmp_path: Path) -> None:
    """Else one of the two would be silently ignored."""
    (tmp_path / "walks.parquet").write_bytes(b"PAR1")
    sweep = INLINE + GRID + "[[include]]\ntrace.file = 'walks.parquet'\n"
    trace = tmp_path / "walks.parquet"
    assert problems(tmp_path, sweep, "rounds.cloud_every_steps=3", "seed=1", trace=trace) == [
        "--set rounds.cloud_every_steps: expected a key that sweep.toml does not vary",
        "--trace trace.file: expected a key that sweep.toml does not vary",
    ]
    sweep = INLINE + "[grid]\ntrace.parameters = [{ devices = 30 }, { devices = 40 }]\n"
    assert problems(tmp_path, sweep, trace=trace) == [
        "--trace trace.parameters: expected a key that sweep.toml does not vary"
    ]
    assert problems(tmp_path, sweep, "trace.parameters.devices=20") == [
        "--set trace.parameters.devices: expected a key that sweep.toml does not vary"
    ]


def test_a_wrong_override_is_told_as_one(tmp_path: Path) -> None:
    assert problems(tmp_path, INLINE + GRID, "fleet.agents=-1") == [
        "--set: fleet.agents: expected an integer ≥ 0, got -1"
    ]
    assert problems(tmp_path, INLINE + GRID, "nonsense") == [
        "--set nonsense: expected key=value, for example learning.batch_size=16"
    ]
