"""What a sweep file asks for, and what its table says: no run is made here."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from scipy import stats

from problem_lines import without_lines
from roambench.api.columns import Columns
from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import UncertaintyPart
from roambench.experiment.parameters import parameter_model
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.report.spread import Spread, spread
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import Point, points_of, rows_beside
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import cell, print_table, write_results
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
EXPERIMENT = 'name = "tiny"\nseed = 7\nsystems = ["mohawk"]\n[trace]\nsteps = 4\n[fleet]\nagents = 4\n'
GRID = 'systems = ["mohawk", "hierfavg"]\nrounds.cloud_every_steps = [2, 5]\nseeds = 3\n'


def points(folder: Path, sweep: str, experiment: str = EXPERIMENT) -> list[Point]:
    (folder / "tiny.toml").write_text(experiment)
    (folder / "sweep.toml").write_text('experiment = "tiny.toml"\n' + sweep)
    return points_of(read_sweep(folder / "sweep.toml"))


def problems(folder: Path, sweep: str, experiment: str = EXPERIMENT) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        points(folder, sweep, experiment)
    return list(without_lines(caught.value.problems))


def told(found: list[Point]) -> list[tuple[object, ...]]:
    return [(*(value for _, value in point.row), point.seed) for point in found]


def test_a_grid_is_every_combination_with_the_seeds_innermost(tmp_path: Path) -> None:
    found = points(tmp_path, "[grid]\n" + GRID)
    assert told(found) == [
        (system, k2, seed) for system in ("mohawk", "hierfavg") for k2 in (2, 5) for seed in (7, 8, 9)
    ]
    assert {point.fleet for point in found} == {"simulated"}
    assert [point.experiment.rounds.cloud_every_steps for point in found[:6]] == [2, 2, 2, 5, 5, 5]
    assert found[6].experiment.systems == ("hierfavg",)


def test_what_counts_of_a_trace_file_is_its_content(tmp_path: Path) -> None:
    def key_with(name: str, device: str) -> str:
        trace = Trace(
            4, 1.0, (device,), *(np.zeros(1, np.int32) for _ in range(2)), *(np.zeros(1) for _ in range(2)),
            ap_names=("AP0",), ap_x_m=np.zeros(1), ap_y_m=np.zeros(1),
        )  # fmt: skip
        write_trace(trace, tmp_path / name)
        experiment = EXPERIMENT.replace("agents = 4", "agents = 1").replace(
            "steps = 4", f'steps = 4\nfile = "{name}"'
        )
        (point,) = points(tmp_path, "[grid]\n", experiment)
        return point.key

    assert key_with("a.parquet", "ann") == key_with("b.parquet", "ann")
    assert key_with("a.parquet", "ann") != key_with("a.parquet", "bob")


def test_without_systems_and_seeds_the_grid_takes_those_of_the_experiment(tmp_path: Path) -> None:
    assert told(points(tmp_path, "[grid]\nfleet.agents = [2, 3]\n")) == [("mohawk", 2, 7), ("mohawk", 3, 7)]


def test_seeds_can_be_named_and_a_value_written_twice_counts_once(tmp_path: Path) -> None:
    assert told(points(tmp_path, "[grid]\nseed = [5, 1, 5]\n")) == [("mohawk", 5), ("mohawk", 1)]


def test_exclude_takes_points_away_and_include_adds_some_with_the_grids_systems_and_seeds(
    tmp_path: Path,
) -> None:
    found = points(
        tmp_path,
        "[[exclude]]\nsystems = 'hierfavg'\nrounds.cloud_every_steps = 5\n"
        "[[include]]\nrounds.sigma = [0.0, 0.5]\nseed = 1\nsystems = 'macfl'\n"
        "[[include]]\nrounds.cloud_every_steps = 2\n"  # in the grid already
        "[grid]\n" + GRID,
    )
    seeds = (7, 8, 9)
    assert told(found) == [
        *(("mohawk", 2, 0.1, seed) for seed in seeds),
        *(("mohawk", 5, 0.1, seed) for seed in seeds),
        *(("hierfavg", 2, 0.1, seed) for seed in seeds),
        ("macfl", 5, 0.0, 1),
        ("macfl", 5, 0.5, 1),
    ]


def test_a_label_has_only_the_numbers_that_its_point_sets(tmp_path: Path) -> None:
    found = points(
        tmp_path, "[[include]]\nalgorithm.mohawk.share = 0.5\n[grid]\nsystems = ['mohawk']\nseed = [1]\n"
    )
    assert [point.label for point in found] == [
        "system=mohawk seed=1",
        "system=mohawk algorithm.mohawk.share=0.5 seed=1",
    ]


def test_every_mistake_is_told_at_once_with_file_key_and_value(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        'flet = 1\nfleet = "pis"\nmetrics = ["final_acuracy"]\n'
        "[grid]\nrounds.cloud_every_steps = 2\nfleet.agents = []\nseeds = 0\n[[include]]\n",
    ) == [
        "sweep.toml: flet: unknown key, did you mean fleet?",
        'sweep.toml: fleet: expected one of local, simulated, rehearsal, bench:FILE, got "pis"',
        f"sweep.toml: metrics: expected some of {', '.join(METRICS)}, rounds_to_<accuracy>, "
        "final <name>, best <name>, "
        'got "final_acuracy", '
        "did you mean final_accuracy?",
        "sweep.toml: grid: rounds.cloud_every_steps: expected a list of values, got 2",
        "sweep.toml: grid: fleet.agents: expected at least one value, got none",
        "sweep.toml: grid: seeds: expected how many seeds, an integer ≥ 1, got 0",
        "sweep.toml: include[1]: expected at least one key",
    ]


def test_values_the_experiment_refuses_are_all_told_once_and_where_they_were_written(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        "[[include]]\nlearning.alpha = [-1.0]\n"
        "[[exclude]]\nlearning.momentum = 0.5\nfleet.agents = 3\n"
        "[grid]\nrounds.k2 = [1, 2]\nfleet.agents = [4, -1]\nlearning.model = ['mlp', 'mpl']\n",
    ) == [
        "sweep.toml: include[1]: learning.alpha: expected a number > 0.0, got -1.0",
        "sweep.toml: exclude[1]: learning.momentum: expected a key of the grid, one of rounds.k2, "
        "fleet.agents, learning.model, systems, seed",
        "sweep.toml: exclude[1]: fleet.agents: expected one of 4, -1, got 3",
        "sweep.toml: grid: rounds.k2: unknown key",
        "sweep.toml: grid: fleet.agents: expected an integer ≥ 0, got -1",
        "sweep.toml: grid: learning.model: expected one of dfl_cnn, gn_lenet, middle_cnn2, middle_cnn3, mlp, "
        'mohawk_cnn, resnet18, resnet50, got "mpl", did you mean mlp?',
    ]


def test_what_is_excluded_in_vain_is_told_with_the_mistakes_of_the_experiment(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        "[grid]\nfleet.agents = [4, 8]\nseeds = 2\n[[exclude]]\nfleet.agents = 3\nrounds.k2 = 1\n"
        "seed = 9\nsystems = 'macfl'\n",
        "[learning]\nalpha = -1.0\n",
    ) == [
        "sweep.toml: exclude[1]: fleet.agents: expected one of 4, 8, got 3",
        "sweep.toml: exclude[1]: rounds.k2: expected a key of the grid, one of fleet.agents, systems, seed",
        "tiny.toml: learning.alpha: expected a number > 0.0, got -1.0",
    ]


def test_a_misspelt_key_of_the_grid_is_no_second_mistake_of_what_excludes_it(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "[grid]\nfleet.agnets = [4, 8]\n[[exclude]]\nfleet.agents = 8\n",
        "[learning]\nalpha = -1.0\n",
    )
    assert [one.partition(", did you mean")[0] for one in found] == [
        "sweep.toml: grid: fleet.agnets: unknown key",
        "tiny.toml: learning.alpha: expected a number > 0.0, got -1.0",
    ]


def test_one_key_in_two_spellings_is_refused_with_both(tmp_path: Path) -> None:
    """Else the values of one of them would silently be lost."""
    assert problems(
        tmp_path,
        '"learning.alpha" = [0.1]\n[grid]\n"learning.alpha" = [0.1, 1.0]\nlearning.alpha = [5.0]\n'
        '[[include]]\n"learning.alpha" = 0.1\nlearning = { alpha = 0.2 }\n'
        '[[exclude]]\n"fleet.agents" = 2\nfleet.agents = 3\n',
    ) == [
        "sweep.toml: learning.alpha: unknown key",
        'sweep.toml: grid: learning.alpha: expected it once, got "learning.alpha" and learning.alpha',
        'sweep.toml: include[1]: learning.alpha: expected it once, got "learning.alpha" and learning.alpha',
        'sweep.toml: exclude[1]: fleet.agents: expected it once, got "fleet.agents" and fleet.agents',
    ]
    assert problems(
        tmp_path, '[grid]\n"trace.parameters" = [{ devices = 30 }]\ntrace.parameters.devices = [40]\n'
    ) == [
        "sweep.toml: grid: trace.parameters.devices: expected it or "
        '"trace.parameters", of which it is a part, got both'
    ]


def test_every_seed_and_system_that_is_none_is_named(tmp_path: Path) -> None:
    assert problems(
        tmp_path, "[grid]\nsystems = [['mohawk', 'hierfavg'], 3]\nseed = [-1, 1.5, true, 'a', 4]\n"
    ) == [
        'sweep.toml: grid: systems: expected names, as each run has one system, got ["mohawk", "hierfavg"]',
        "sweep.toml: grid: systems: expected names, as each run has one system, got 3",
        *(
            f"sweep.toml: grid: seed: expected an integer ≥ 0, got {value}"
            for value in ("-1", "1.5", "true", '"a"')
        ),
    ]


def test_a_grid_with_more_runs_than_any_sweep_has_is_refused_before_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = list(range(1, 1001))
    grid = f"[grid]\nfleet.agents = {many}\ntrace.steps = {many}\nseeds = 20\n"
    assert problems(tmp_path, f"[[include]]\nsystems = 'hierfavg'\nfleet.agents = 2\n{grid}") == [
        "sweep.toml: grid: expected at most 20,000 runs, got 20,000,020; take fewer values or seeds, "
        "or a sweep file for each part of them"
    ]
    assert problems(tmp_path, "[grid]\nseeds = 20261130\n") == [
        "sweep.toml: grid: seeds: expected how many seeds, at most 20,000, got 20261130; "
        "one seed is seed = [20261130]"
    ]
    assert problems(tmp_path, f"[grid]\nseed = {list(range(20_001))}\n") == [
        "sweep.toml: grid: seed: expected at most 20,000 values, got 20,001"
    ]
    with pytest.raises(ConfigError):
        points(tmp_path, grid)
    monkeypatch.setattr("roambench.study.sweep.points.MOST_RUNS", 6)
    assert len(points(tmp_path, "[grid]\n" + GRID.replace("seeds = 3", "seeds = 1"))) == 4
    with pytest.raises(ConfigError, match="expected at most 6 runs, got 12"):
        points(tmp_path, "[grid]\n" + GRID)


def test_what_checks_a_generators_parameters_is_made_once(tmp_path: Path) -> None:
    """It took four fifths of the time of a sweep's check, once for each point."""
    parameter_model.cache_clear()
    assert len(points(tmp_path, "[grid]\ntrace.parameters.devices = [30, 40]\nseeds = 3\n")) == 6
    assert parameter_model.cache_info().misses == 1


def test_a_mistake_of_the_experiment_itself_is_told_with_its_own_name(tmp_path: Path) -> None:
    assert problems(tmp_path, "[grid]\nfleet.agents = [2]\n", "sede = 1\n") == [
        "tiny.toml: sede: unknown key, did you mean seed?"
    ]


def test_paths_in_the_grid_begin_at_the_sweep_file(tmp_path: Path) -> None:
    assert problems(tmp_path, "[grid]\ntrace.file = ['a.parquet']\n") == [
        f"sweep.toml: grid: trace.file: expected a trace file, {tmp_path / 'a.parquet'} does not exist"
    ]


def test_a_point_is_known_by_what_decides_its_result_and_by_nothing_else(tmp_path: Path) -> None:
    """Else a finished point would be run again, or worse, another taken for it."""
    (one,) = points(tmp_path, "[grid]\nfleet.agents = [2]\n")
    (renamed,) = points(
        tmp_path, "[grid]\nfleet.agents = [2]\nsimulated.workers = [2]\n", EXPERIMENT.replace("tiny", "other")
    )
    (other_seed,) = points(tmp_path, "[grid]\nfleet.agents = [2]\nseed = [8]\n")
    (rehearsed,) = points(tmp_path, 'fleet = "rehearsal"\n[grid]\nfleet.agents = [2]\n')
    assert renamed.key == one.key
    assert len({one.key, other_seed.key, rehearsed.key}) == 3


def test_mean_and_deviation_are_of_the_values_there_are() -> None:
    found = spread([1.0, None, 2.0, 4.0])
    assert found.mean == pytest.approx(7 / 3)
    assert found.sd == pytest.approx(math.sqrt((16 + 1 + 25) / 9 / 2))  # over n - 1
    assert found.n == 3
    assert spread([5.0]) == Spread(5.0, None, 1)
    assert spread([None]) == Spread(None, None, 0)


def test_a_row_gathers_the_seeds_and_counts_what_failed_and_what_never_got_there(tmp_path: Path) -> None:
    found = points(tmp_path, "[grid]\nfleet.agents = [2, 3]\nseeds = 3\n")

    def ended(point: Point, accuracy: float, rounds: float | None) -> PointEnd:
        return PointEnd(point.key, {"final_accuracy": accuracy, "rounds_to_threshold": rounds})

    outcomes = [
        ended(found[0], 0.5, 4.0),
        ended(found[1], 0.7, None),
        ended(found[2], 0.9, 6.0),
        PointEnd(found[3].key, {}, "no memory"),
        None,
        ended(found[5], 0.25, None),
    ]
    table = table_of(found, outcomes, ["final_accuracy", "rounds_to_threshold"])
    first, second = table.rows
    assert (first.runs, first.finished) == (3, 3)
    assert (second.runs, second.finished) == (3, 1)
    assert dict(second.values) == {"system": "mohawk", "fleet.agents": 3}
    shown = [[cell(name, row.metrics[name], row.finished) for name in table.metrics] for row in table.rows]
    assert shown == [["70.0 ± 20.0 %", "5.0 ± 1.4 (2 of 3)"], ["25.0 %", "–"]]


def test_measured_joules_have_what_the_meters_may_have_wrong_in_their_mean(tmp_path: Path) -> None:
    """100 J and 140 J on one meter: 1 % of gain in both, 2 J of each run's own; the accuracy has none."""
    seeds = points(tmp_path, "[grid]\nseeds = 2\n")
    outcomes = [
        PointEnd(
            point.key,
            {"wasted_j": joules, "final_accuracy": 0.5},
            basis="measured",
            terms={
                "wasted_j": ((UncertaintyPart.GAIN, "pi-01", 0.01 * joules), (UncertaintyPart.EDGES, "", 2.0))
            },
        )
        for point, joules in zip(seeds, (100.0, 140.0), strict=True)
    ]
    table = table_of(seeds, outcomes, ["wasted_j", "final_accuracy"])
    (row,) = table.rows
    found = row.metrics["wasted_j"]
    assert (found.mean, found.n) == (120.0, 2)
    assert found.u == pytest.approx(math.hypot(1.2, 2.0 / math.sqrt(2.0)))
    assert row.metrics["final_accuracy"].u is None
    assert table.basis == {"wasted_j": "measured", "final_accuracy": None}
    shown = io.StringIO()
    print_table(table, Console(file=shown, width=200))
    assert "wasted (measured), J ↓" in shown.getvalue()
    assert "120.0 ± 28.3 [± 3.7]" in shown.getvalue()
    assert "±: the standard deviation over the runs" in shown.getvalue()
    write_results(SweepFolder(tmp_path), table, seeds, outcomes)
    columns = Columns(pq.read_table(tmp_path / "table.parquet"))
    assert columns.units["wasted_j_mean"] == "J"
    assert columns["wasted_j_basis"].to_pylist() == ["measured"]
    assert r"\num{120.0 \pm 3.7}" in columns.to_latex(columns=["wasted_j_mean"])
    unknown = [replace(outcomes[0], terms={}), outcomes[1]]
    assert table_of(seeds, unknown, ["wasted_j"]).rows[0].metrics["wasted_j"].u is None


def test_rows_have_factors_beside_the_one_that_the_sweep_names(tmp_path: Path) -> None:
    """The t-test's own interval of pairs, on logarithms; none where a run stopped short of its threshold."""
    sweep = (
        'metrics = ["consumed_j", "final_accuracy"]\nbeside = { systems = "mohawk" }\n'
        "[grid]\nseeds = 3\nsystems = ['mohawk', 'hierfavg']\n"
        "[[include]]\nsystems = 'mohawk'\nfleet.agents = 3\n"
    )
    stops = f"{EXPERIMENT}[rounds]\naccuracy_threshold = 0.5\nstop_at_threshold = true\n"
    found = points(tmp_path, sweep, stops)
    file = read_sweep(tmp_path / "sweep.toml")
    usual, other, fewer = (100.0, 140.0, 90.0), (150.0, 150.0, 120.0), (50.0, 60.0, 1000.0)
    outcomes = [
        PointEnd(
            point.key,
            {"consumed_j": joules, "final_accuracy": 0.5, "threshold_step": None if joules > 500 else 3.0},
            basis="modelled",
        )
        for point, joules in zip(found, usual + other + fewer, strict=True)
    ]
    table = table_of(found, outcomes, file.metrics, rows_beside(file, found))
    assert [sorted(row.beside) for row in table.rows] == [[], ["consumed_j"], []]
    low, high = stats.ttest_rel(np.log(other), np.log(usual)).confidence_interval(0.95)
    made = table.rows[1].beside["consumed_j"]
    assert made.factor == pytest.approx(math.prod(np.divide(other, usual)) ** (1 / 3))
    assert made.factor_interval is not None
    assert (made.factor_interval.low, made.factor_interval.high) == pytest.approx(
        (math.exp(low), math.exp(high)), rel=1e-6
    )
    shown = io.StringIO()
    print_table(table, Console(file=shown, width=200))
    assert "129 [" in shown.getvalue()
    write_results(SweepFolder(tmp_path), table, found, outcomes)
    runs = (tmp_path / "runs.csv").read_text().splitlines()
    assert runs[:2] == ["system,fleet.agents,seed,consumed_j,final_accuracy", "mohawk,4,7,100.0,0.5"]
    assert len(runs) == 10
    beside = json.loads((tmp_path / "table.json").read_text())["rows"][1]["beside"]
    assert beside["consumed_j"]["pairs"] == 3
    # Keys of the grid that it does not name are the row's own.
    sweep = (
        'beside = { systems = "mohawk" }\n[grid]\nsystems = ["mohawk", "hierfavg"]\nfleet.agents = [2, 3]\n'
    )
    found = points(tmp_path, sweep)
    names = rows_beside(read_sweep(tmp_path / "sweep.toml"), found)
    assert [names[repr(point.row)] for point in found] == [repr(found[place].row) for place in (0, 1, 0, 1)]
    header = (tmp_path / "table.csv").read_text().partition("\n")[0]
    assert "consumed_j_factor,consumed_j_factor_low,consumed_j_factor_high,consumed_j_factor_n" in header


def test_a_cost_up_to_an_accuracy_that_a_run_never_reached_has_no_factor(tmp_path: Path) -> None:
    """HierFAVG reaches it in its two quick seeds alone, which would make it the faster one."""
    sweep = (
        'metrics = ["rounds_to_0.8", "rounds_to_threshold", "communication_j_per_client", "consumed_j"]\n'
        'beside = { systems = "mohawk" }\n[grid]\nsystems = ["mohawk", "hierfavg"]\nseeds = 3\n'
    )
    found = points(tmp_path, sweep)
    file = read_sweep(tmp_path / "sweep.toml")
    outcomes = [
        PointEnd(
            point.key,
            {
                "consumed_j": 50.0 + step,
                "rounds_to_threshold": reached,
                "threshold_step": reached,
                "communication_j_per_client": 9.0 - step,
            },
            scored=((int(reached), 0.8),) if reached else ((9, 0.7),),
        )
        for point, step, reached in zip(found, range(6), (6.0, 5.0, 7.0, 3.0, None, 4.0), strict=True)
    ]
    table = table_of(found, outcomes, file.metrics, rows_beside(file, found))
    assert [sorted(row.beside) for row in table.rows] == [[], ["consumed_j"]]


@pytest.mark.parametrize(
    ("beside", "reason"),
    [
        ('{ systems = "macfl" }', "beside: expected a point of the grid, got system = macfl"),
        ("{ learning.alpha = 0.3 }", "beside: expected a point of the grid, got learning.alpha = 0.3"),
        ("{ seed = 3 }", "beside: seed: expected one value of a key other than the seed"),
        ("3", "beside: expected a table of keys with values, got 3"),
    ],
)
def test_a_row_that_is_not_there_has_none_beside_it(tmp_path: Path, beside: str, reason: str) -> None:
    text = f"beside = {beside}\n[grid]\nsystems = ['mohawk', 'hierfavg']\n"

    def row() -> None:
        found = points(tmp_path, text)
        rows_beside(read_sweep(tmp_path / "sweep.toml"), found)

    with pytest.raises(ConfigError) as caught:
        row()
    assert list(without_lines(caught.value.problems)) == [f"sweep.toml: {reason}"]


def test_a_table_says_of_each_metric_which_way_is_better(tmp_path: Path) -> None:
    names = ["final_accuracy", "wasted_share", "trainings", "rounds_to_0.9", "final rmse", "best R2", "ap0"]
    point = points(tmp_path, "[grid]\nfleet.agents = [2]\n")[0]
    figures = dict.fromkeys(["final_accuracy", "wasted_share", "trainings", "final rmse", "best R2"], 0.5)
    outcome = PointEnd(
        point.key, figures | {"rounds": 3.0, "steps": 3.0}, own={"rmse": "lower", "R2": "higher"}
    )
    table = table_of([point], [outcome], names)
    assert list(table.better.values()) == ["higher", "lower", "", "lower", "lower", "higher", "higher"]
    shown = io.StringIO()
    print_table(table, Console(file=shown, width=200))
    head = shown.getvalue().splitlines()[0]
    assert head.split("  ")[-4:] == ["trainings wasted ↓", "trainings", "final rmse ↓", "best R2 ↑"]
    assert {"↑ higher is better", "↓ lower is better"} <= set(shown.getvalue().splitlines())
    assert "±" not in shown.getvalue()  # one run
    write_results(SweepFolder(tmp_path), table, [point], [outcome])
    assert json.loads((tmp_path / "table.json").read_text())["better"] == dict(table.better)
    better = Columns(pq.read_table(tmp_path / "table.parquet")).better
    assert (better["final rmse_mean"], better["final rmse_sd"], better["trainings_mean"]) == ("lower", "", "")


#: Runs of each sweep of experiments/.
SHIPPED = {
    "sweep_demo": 18,
    "ablation": 50,
    "batteries": 100,
    "codecs": 135,
    "frontier": 60,
    "mohawk_boards_checkins": 12,
    "mohawk_boards_local": 12,
    "middle_cifar": 9,
    "middle_speech": 12,
    "mohawk_cifar": 9,
    "mohawk_mnist": 54,
    "mohawk_mnist_full": 54,
    "mohawk_checkins": 27,
    "dam_dcm_mnist": 64,
    "dam_dcm_mnist_full": 60,
    "dam_dcm_figures": 615,
    "dam_dcm_figures_full": 1230,
    "dam_dcm_workshop": 112,
    "dam_dcm_workshop_full": 640,
    "de_heredia": 168,
    "de_heredia_full": 252,
}


def test_every_sweep_that_ships_is_checked() -> None:
    assert {path.stem for path in EXPERIMENTS.glob("*.toml") if "\n[grid]" in path.read_text()} == set(
        SHIPPED
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_the_sweeps_that_ship_are_valid(name: str) -> None:
    assert len(points_of(read_sweep(EXPERIMENTS / f"{name}.toml"))) == SHIPPED[name]
