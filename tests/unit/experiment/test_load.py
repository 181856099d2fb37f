import json
from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment, FleetSection, from_resolved, resolved
from roambench.learning.datasets.catalogue import DATASETS
from roambench.systems.catalogue import SYSTEMS
from roambench.systems.peers import PEER_SYSTEMS

FIVE_MISTAKES = """
name = "broken"
sede = 3

[fleet]
agents = -1

[learning]
batch_size = "eight"
dataset = "digit"

[rounds]
cosine = "flatt"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "demo.toml"
    path.write_text(text)
    return path


def problems_of(path: Path, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides)
    assert caught.value.exit_code == 2
    return without_lines(caught.value.problems)


def test_an_empty_file_is_the_default_experiment(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, ""))
    assert experiment == Experiment.model_validate({})
    assert experiment.systems == ("mohawk", "hierfavg")
    assert experiment.trace.generator == "city"
    assert (experiment.rounds.cloud_every_steps, experiment.rounds.sigma) == (5, 0.1)


def test_five_mistakes_are_five_lines_with_file_key_and_what_was_expected(tmp_path: Path) -> None:
    assert sorted(problems_of(written(tmp_path, FIVE_MISTAKES))) == [
        "demo.toml: fleet.agents: expected an integer ≥ 0, got -1",
        'demo.toml: learning.batch_size: expected an integer ≥ 1, got "eight"',
        f"demo.toml: learning.dataset: expected one of {', '.join(DATASETS.names())}, "
        'got "digit", did you mean digits?',
        'demo.toml: rounds.cosine: expected one of "flat", "printed", "per_entry", "per_column", got "flatt"',
        "demo.toml: sede: unknown key, did you mean seed?",
    ]


def test_an_influxdb_is_checked_before_anything_starts(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[influxdb]\nurl = "ftp://me:secret@influx"\nvia = "controller"\nstore = "influxdb"\napi = "v3"\n',
    )
    assert sorted(problems_of(path)) == [
        'demo.toml: influxdb.api: expected one of "v2", "v1", got "v3"',
        'demo.toml: influxdb.store: expected "both" where the controller forwards its run folder',
        "demo.toml: influxdb.url: expected an address without a password: the token belongs into a file or "
        "the environment",
    ]
    (problem,) = problems_of(written(tmp_path, '[influxdb]\nstore = "influxdb"\n'))
    assert problem == "demo.toml: influxdb.url: expected an address: the records would be nowhere"
    good = written(tmp_path, '[influxdb]\nurl = "http://influx:8086"\ntoken_file = "t"\n')
    assert load_experiment(good).influxdb.token_file == str(tmp_path / "t")


def test_a_key_in_the_wrong_table_is_told_where_it_belongs(tmp_path: Path) -> None:
    (problem,) = problems_of(written(tmp_path, "[fleet]\nbatch_size = 3\n"))
    assert problem == "demo.toml: fleet.batch_size: unknown key, it belongs to [learning]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fleet.agents = true", "fleet.agents: expected an integer ≥ 0, got true"),
        ("fleet.agents = 2.0", "fleet.agents: expected an integer ≥ 0, got 2.0"),
        ("fleet = 3", "fleet: expected a table, got 3"),
        ("learning.learning_rate = nan", "learning.learning_rate: expected a number > 0.0, got NaN"),
        ("learning.learning_rate = inf", "learning.learning_rate: expected a number > 0.0, got Infinity"),
        ("learning.momentum = 1", "learning.momentum: expected a number ≥ 0.0 and < 1.0, got 1"),
        ("learning.channels_last = 1", "learning.channels_last: expected true or false, got 1"),
        ("systems = []", "systems: expected a list of texts, at least 1, got []"),
        ("systems = [1]", "systems: expected a list of texts, at least 1, got 1"),
        ('systems = "mohawk"', 'systems: expected a list of texts, at least 1, got "mohawk"'),
        ('systems = ["mohawk", "mohawk"]', "systems: expected each system once, got mohawk twice"),
        (
            'systems = ["mohwak"]',
            f'systems: expected one of {", ".join([*SYSTEMS.names(), *PEER_SYSTEMS.names()])}, got "mohwak", '
            "did you mean mohawk?",
        ),
        (
            'rounds.step_close = "later"',
            'rounds.step_close: expected "answers", "clock:<seconds>" or "trace:<factor>", got "later"',
        ),
        ('name = "a/b"', 'name: expected letters, digits, dot, dash and underscore, at most 64, got "a/b"'),
        ("local.meter_stall_at_s = 3", "local.meter_stall_at_s: expected meter_stall_s > 0 beside it"),
    ],
)
def test_one_mistake_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    assert problems_of(written(tmp_path, text)) == (f"demo.toml: {problem}",)


def test_every_key_that_names_a_row_lists_the_rows_there_are(tmp_path: Path) -> None:
    text = """
    systems = ["x"]
    trace.generator = "x"
    learning = {dataset = "x", model = "x"}
    """
    problems = problems_of(written(tmp_path, text))
    assert [problem.split(": ")[1] for problem in problems] == [
        "systems",
        "trace.generator",
        "learning.dataset",
        "learning.model",
    ]
    assert all(": expected one of " in problem and problem.endswith('got "x"') for problem in problems)


def test_a_trace_file_and_a_generator_exclude_each_other(tmp_path: Path) -> None:
    problems = problems_of(written(tmp_path, '[trace]\nfile = "t.parquet"\ngenerator = "city"'))
    assert problems == (
        "demo.toml: trace: file and generator exclude each other: expected one of them",
        f"demo.toml: trace.file: expected a trace file, {tmp_path}/t.parquet does not exist",
    )


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").touch()
    (tmp_path / "mnist").mkdir()
    experiment = load_experiment(
        written(
            tmp_path,
            '[trace]\nfile = "t.parquet"\n[learning]\ndata_path = "mnist"\n'
            '[program]\npython = ".venv/bin/python"\n'
            '[rounds]\norders = "replay:runs/{system}"',
        )
    )
    assert experiment.trace.file == str(tmp_path / "t.parquet")
    assert experiment.learning.data_path == str(tmp_path / "mnist")
    assert experiment.rounds.orders == f"replay:{tmp_path}/runs/{{system}}"
    assert experiment.trace.generator == ""
    assert experiment.program.python == str(tmp_path / ".venv/bin/python")
    on_path = load_experiment(written(tmp_path, '[program]\npython = "python3.12"'))
    assert on_path.program.python == "python3.12"


def test_a_trace_given_beside_the_file_replaces_the_files_own(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.touch()
    path = written(tmp_path, '[trace]\ngenerator = "city"\nsteps = 7\nparameters = {devices = 9}')
    trace = load_experiment(path, trace_file=other).trace
    assert (trace.file, trace.generator, trace.parameters, trace.steps) == (str(other), "", {}, 7)


def test_what_is_not_toml_is_told_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems_of(written(tmp_path, 'name = "a"\nseed = = 3\n'))
    assert problem.startswith("demo.toml: not TOML: ")
    assert "line 2" in problem
    bad = tmp_path / "latin.toml"
    bad.write_bytes(b'name = "caf\xe9"')
    assert problems_of(bad) == ("latin.toml: not UTF-8 text (byte 11, line 1)",)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "no.toml") == (
        f"{tmp_path}/no.toml: cannot be read: No such file or directory",
    )
    assert problems_of(tmp_path) == (f"{tmp_path}: cannot be read: Is a directory",)


def test_overrides_are_toml_values_and_bare_words_are_texts(tmp_path: Path) -> None:
    path = written(tmp_path, "[learning]\nbatch_size = 4")
    experiment = load_experiment(
        path,
        [
            "learning.batch_size=16",
            "learning.alpha=0.1",
            "learning.model=mlp",
            'systems=["hierfavg"]',
            "rounds.lookahead=true",
            "trace.parameters.devices=50",
        ],
    )
    assert experiment.learning.batch_size == 16
    assert experiment.learning.alpha == 0.1
    assert experiment.learning.model == "mlp"
    assert experiment.systems == ("hierfavg",)
    assert experiment.rounds.lookahead is True
    assert experiment.trace.parameters == {"devices": 50}


def test_mistakes_in_overrides_name_set_and_come_with_those_of_the_file(tmp_path: Path) -> None:
    problems = problems_of(
        written(tmp_path, "seed = -1"),
        "learning.batch_size=eight",
        "fleet.agnts=3",
        "fleet.aps=[",
        "fleet.aps",
        'name="x"\nseed=1',
    )
    assert sorted(problems) == [
        "--set fleet.aps: expected a TOML value (a text in quotes), got [",
        "--set fleet.aps: expected key=value, for example learning.batch_size=16",
        '--set name: expected a TOML value (a text in quotes), got "x" seed=1',
        "--set: fleet.agnts: unknown key, did you mean agents?",
        '--set: learning.batch_size: expected an integer ≥ 1, got "eight"',
        "demo.toml: seed: expected an integer ≥ 0, got -1",
    ]


def test_a_generators_parameters_are_checked_against_its_own(tmp_path: Path) -> None:
    problems = problems_of(written(tmp_path, '[trace.parameters]\ndevices = "many"\nhubz = 3'))
    assert len(problems) == 2
    assert problems[0].startswith("demo.toml: trace.parameters.devices: expected an integer")
    assert problems[0].endswith('got "many"')
    assert problems[1].startswith("demo.toml: trace.parameters.hubz: unknown key")


def test_what_a_run_folder_keeps_makes_the_same_experiment_again(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, ""), ["trace.parameters.devices=50", "seed=7"])
    kept = json.loads(json.dumps(resolved(experiment)))
    assert from_resolved(kept) == experiment
    with pytest.raises(ConfigError, match="unknown key"):
        from_resolved({**kept, "sseed": 3})


def test_an_experiment_cannot_be_changed(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, ""))
    with pytest.raises(ValueError, match="frozen"):
        experiment.learning.batch_size = 3  # type: ignore[misc]


#: Sweeps and the catalogue of the papers' tables have tests of their own.
SHIPPED = [
    path
    for path in sorted((Path(__file__).parents[3] / "experiments").glob("*.toml"))
    if "\n[grid]" not in (text := path.read_text(encoding="utf-8")) and "\n[[study]]" not in text
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_experiments_that_ship_are_valid(path: Path) -> None:
    assert load_experiment(path).name


def test_a_step_may_be_paced_by_the_clock(tmp_path: Path) -> None:
    rounds = load_experiment(written(tmp_path, ""), ["rounds.step_close=clock:2.5"]).rounds
    assert rounds.step_close == "clock:2.5"


@pytest.mark.parametrize(
    ("value", "good"), [("0", 0), ("0.0", 0), ("60", 1), ("0.5", 1), ("10.0", 1), ("x", 0)]
)
def test_a_replay_may_be_any_number_of_times_faster_than_the_trace_but_not_none(tmp_path, value, good):
    path = written(tmp_path, "")
    if good:
        assert (
            load_experiment(path, [f"rounds.step_close=trace:{value}"]).rounds.step_close == f"trace:{value}"
        )
    else:
        with pytest.raises(ConfigError, match="trace:<factor>"):
            load_experiment(path, [f"rounds.step_close=trace:{value}"])


def test_no_number_of_agents_means_every_device_of_the_trace() -> None:
    section = Experiment.model_validate({"fleet": {"agents": 0}}).fleet
    assert section.agents_of(882) == 882
    assert FleetSection(agents=30).agents_of(882) == 30
    assert FleetSection(agents=1000).agents_of(882) == 882
    with pytest.raises(ConfigError, match=r"fleet\.agents: expected a number of boards"):
        _ = section.board_names
    assert FleetSection(agents=2).board_names == ["pi-01", "pi-02"]
