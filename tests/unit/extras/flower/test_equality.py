"""Flower apps on virtual devices leave, to the bit, what they leave on a Grid of one process."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flower_apps import (
    PYTHON,
    SIMULATION_PYTHON,
    direct,
    left_in,
    played,
    simulated,
    values_of,
    written_app,
)
from roambench.cli.main import main
from roambench.contract.errors import ConfigError, RunError
from roambench.contract.phases import Outcome, Phase
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.extras.flower import client_process
from roambench.extras.flower.app import read_app, require_flwr
from roambench.extras.flower.nodes import client_settings
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.report.report import report
from roambench.report.tables.rounds import round_tables
from roambench.rounds.records import MetricsScored, OutcomeDecided, RunEnded, StepClosed, StepOpened
from roambench.runner.resuming import resume_run
from roambench.runs.folder import RunFolder

pytestmark = pytest.mark.lengthy

SEED = 7


def run_of(tmp_path: Path, app: Path, nodes: int, config: Mapping[str, Any], **more: Any) -> RunFolder:
    return played(values_of(app, nodes, config, seed=SEED, **more), tmp_path / "runs")


def assert_equal(left: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype
        np.testing.assert_array_equal(left[name], right[name])


@pytest.mark.parametrize(
    ("name", "nodes", "config"),
    [
        ("quick", 2, {}),
        ("least-squares", 3, {}),
        ("least-squares", 3, {"strategy": "fedadam"}),
        ("least-squares", 3, {"strategy": "fedprox"}),
        ("least-squares", 3, {"strategy": "private"}),
        ("least-squares", 3, {"strategy": "own", "misfortune": "raise:1;"}),
        ("least-squares", 3, {"strategy": "bytes", "num-server-rounds": 2}),
    ],
    ids=[
        "quickstart",
        "fedavg, state",
        "fedadam, state and a mod",
        "fedprox",
        "Flower's mods",
        "own strategy",
        "bytes",
    ],
)
def test_the_app_leaves_the_bits_of_a_grid_in_one_process(
    name: str, nodes: int, config: dict[str, Any], tmp_path: Path
) -> None:
    app = written_app(tmp_path, name)
    folder = run_of(tmp_path, app, nodes, config)
    found = left_in(folder.path / "server-app")
    assert_equal(found, direct(app, tmp_path / "direct", nodes, SEED, **config))
    if config.get("strategy") == "fedadam":
        assert found["w"].dtype == np.float64  # from round 2 on: no model of ours could be that
        _evaluations_are_phases_of_their_own(folder)
    if config.get("strategy") == "own":
        outcomes = [record for record in folder.read_log() if isinstance(record, OutcomeDecided)]
        failed = [record for record in outcomes if record.outcome is Outcome.FAILED]
        assert [(record.device, record.step) for record in failed] == [(1, 2)]
        assert "its ClientApp failed: <class 'ValueError'>:<'mine'>" in failed[0].reason
        assert len(outcomes) == 9


def test_numbers_that_are_none_reach_no_average_of_the_app_and_are_said_with_node_and_round(
    tmp_path: Path,
) -> None:
    app = written_app(tmp_path, "least-squares")
    config = {"strategy": "fedavg", "misfortune": "nan:0;uncounted:1;unscored:2;"}
    folder = run_of(tmp_path, app, 4, config)
    assert np.isfinite(left_in(folder.path / "server-app")["w"]).all()
    failed = {
        (r.device, r.step): r.reason
        for r in folder.read_log()
        if isinstance(r, OutcomeDecided) and r.outcome is Outcome.FAILED
    }
    left_out = "its ClientApp failed: node {}: {}: its reply is left out"
    assert failed[0, 0] == left_out.format("1000 in round 1", "w holds NaN or infinity")
    assert failed[1, 0] == left_out.format("1001 in round 1", "expected a finite number of examples, got nan")
    assert {device for device, _ in failed} == {0, 1}
    (first, *_) = folder.info.doubts
    assert re.fullmatch(r"node 1002 in round 1, message \d+: eval_loss is inf, which is in no mean", first)


@pytest.mark.slow
@pytest.mark.skipif(SIMULATION_PYTHON not in os.environ, reason=f"{SIMULATION_PYTHON}: none named")
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("quick", {}),
        ("least-squares", {"strategy": "fedavg"}),
        ("least-squares", {"strategy": "fedadam"}),
        ("least-squares", {"strategy": "fedprox"}),
        ("least-squares", {"strategy": "private"}),
        ("least-squares", {"strategy": "own"}),
        ("least-squares", {"strategy": "bytes"}),
    ],
    ids=["quickstart", "fedavg, state", "fedadam", "fedprox", "Flower's mods", "own strategy", "bytes"],
)
def test_two_nodes_leave_the_bits_of_flowers_own_simulation(
    name: str, config: dict[str, Any], tmp_path: Path
) -> None:
    """Flower takes replies in no order and draws its nodes' ids: the sum of two is the same in either."""
    app = written_app(tmp_path, name)
    found = left_in(run_of(tmp_path, app, 2, config).path / "server-app")
    assert_equal(found, simulated(app, tmp_path / "simulation", 2, SEED, **config))


def test_an_app_is_repeated_from_its_run_and_no_models_are_said_to_be_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_of(tmp_path, written_app(tmp_path, "least-squares"), 2, {"num-server-rounds": 1})
    with pytest.raises(SystemExit) as ended:
        main(["run", str(first.path), "--runs-dir", str(tmp_path / "again"), "-q"])
    assert not ended.value.code, capsys.readouterr().err
    assert f"repeats {first.path}; neither names its models" in capsys.readouterr().out
    (again,) = (tmp_path / "again").rglob("server-app")
    assert_equal(left_in(again), left_in(first.path / "server-app"))


def _evaluations_are_phases_of_their_own(folder: RunFolder) -> None:
    """3 rounds on 3 devices: 9 trainings, 9 evaluations, joules of both, and none is wasted."""
    (summary,) = report([folder.path]).summaries
    assert summary.orders.answers == {("evaluate", "done"): 9, ("train", "done"): 9, ("upload", "done"): 18}
    ledger = pq.read_table(next(folder.path.rglob("ledger_modelled.parquet"))).to_pylist()
    for phase, outcome in ((Phase.TRAIN, "aggregated"), (Phase.EVALUATE, None)):
        rows = [row for row in ledger if row["phase"] == phase]
        assert len(rows) == 9
        assert {row["outcome"] for row in rows} == {outcome}
        assert all(row["modelled_net_j"] > 0.0 for row in rows)
    assert {row["outcome"] for row in ledger if row["phase"] == Phase.UPLOAD} == {"aggregated", None}
    log = folder.read_log()
    closed = [record for record in log if isinstance(record, StepClosed)]
    assert [record.aggregated for record in closed] == [3, 0, 3, 0, 3, 0]
    assert [record.accuracy is not None for record in closed] == [False, True] * 3
    assert any(isinstance(record, MetricsScored) and "seen" in record.names for record in log)
    # Two steps are a round; the evaluation scores the model that the training before it made.
    assert summary.modelled is not None
    rounds = [(one.last_step, len(one.by_device)) for one in summary.modelled.rounds]
    assert rounds == [(1, 3), (3, 3), (5, 3)]
    whole_j = sum(one.whole.joules for one in summary.modelled.rounds)
    assert whole_j == pytest.approx(sum(one.gross.joules for one in summary.modelled.phases))
    (table,) = round_tables(summary)
    assert table.head == ("round", "accuracy", *folder.info.device_names, "all")
    assert [row[1][-1] for row in table.rows] == ["%"] * 3
    assert [point.new for point in summary.learning.points] == [False, True] * 3
    assert any(isinstance(record, RunEnded) for record in log)


def test_clients_of_the_older_interface_agree_to_rounding(tmp_path: Path) -> None:
    """Flower itself takes their replies as its threads end: in no order, and so with other last bits."""
    app = written_app(tmp_path, "legacy")
    folder = run_of(tmp_path, app, 3, {})
    found, expected = left_in(folder.path / "server-app"), direct(app, tmp_path / "direct", 3, SEED)
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-6)
    opened = [record for record in folder.read_log() if isinstance(record, StepOpened)]
    assert len(opened) < 2 * 2 * 3  # messages of several threads are one step
    scored = [record for record in folder.read_log() if isinstance(record, StepClosed) and record.accuracy]
    assert {record.accuracy for record in scored} == {0.5}


def test_nodes_are_who_is_there_and_steps_pass_while_the_app_waits(tmp_path: Path) -> None:
    """Steps 0 and 1 have one device of three, and the strategy waits for two: it samples two, then."""
    there = [[0], [2], [0, 1, 2], [0, 1], [1, 2], [0, 2], [0, 1, 2], [0, 1, 2]]
    fixes = [(step, device) for step, devices in enumerate(there) for device in devices]
    step, device = (np.array(column, np.int32) for column in zip(*fixes, strict=True))
    place = np.zeros(len(step))
    one = np.zeros(1)
    trace = Trace(len(there), 60.0, ("a", "b", "c"), step, device, place, place, ("ap",), one, one)
    write_trace(trace, tmp_path / "few.parquet")
    app = written_app(tmp_path, "least-squares")
    rounds = {"num-server-rounds": 1}
    folder = run_of(
        tmp_path,
        app,
        3,
        rounds,
        fleet={"aps": 0},
        program={"reachable": "trace"},
        trace={"file": str(tmp_path / "few.parquet"), "steps": 8, "window": "first"},
    )
    log = folder.read_log()
    closed = [record for record in log if isinstance(record, StepClosed)]
    assert [record.aggregated for record in closed] == [0, 0, 2, 0]
    evaluated = [r for r in log if isinstance(r, MetricsScored) and "eval_acc" in r.names]
    assert [record.step for record in evaluated] == [3]
    with pytest.raises(RunError, match="the state of its flower app was in a process that ended"):
        resume_unfinished(folder)


def resume_unfinished(folder: RunFolder) -> None:
    from roambench.runs.info import RunState

    with RunFolder.open(folder.path, write=True) as again:
        again.update(state=RunState.INTERRUPTED)
    resume_run(folder.path, Console(file=io.StringIO()))


@pytest.mark.parametrize(
    ("python", "expected"), [("app/bin/python", "{folder}/app/bin/python"), ("python3", "python3"), ("", "")]
)
def test_an_interpreter_is_a_path_from_the_file_on_or_a_command(
    python: str, expected: str, tmp_path: Path
) -> None:
    app = written_app(tmp_path, "least-squares")
    program = {"name": "flower", "folder": str(app), "python": python}
    written = WrittenExperiment({"systems": ["flower"], "program": program}, "test", tmp_path)
    assert load_experiment(written).program.python == expected.format(folder=tmp_path)


def test_an_interpreter_without_flwr_is_told_the_command_for_it() -> None:
    with pytest.raises(ConfigError, match=f"{sys.executable} has no flwr: {sys.executable} -m pip install"):
        require_flwr(sys.executable)
    elsewhere = "/usr/bin/python3"
    if Path(elsewhere).exists():
        with pytest.raises(ConfigError, match=f"{elsewhere} has no flwr: {elsewhere} -m pip install"):
            require_flwr(elsewhere)


def test_what_is_no_app_is_a_sentence(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    with pytest.raises(ConfigError, match=r"got 'rounds'"):
        run_of(tmp_path, app, 2, {"rounds": 3})
    (app / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(ConfigError, match=r"components.serverapp: expected package.module:name, got None"):
        run_of(tmp_path, app, 2, {})
    values = {"program": {"name": "flower", "folder": str(app)}, "systems": ["mohawk", "flower"]}
    written = WrittenExperiment(values, "test", Path.cwd())
    with pytest.raises(ConfigError, match=r'systems: expected \["flower"\] alone'):
        load_experiment(written)


def test_a_message_whose_time_to_live_is_over_is_answered_by_an_error(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    (app / "squares/server_app.py").write_text(
        """
import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    content = RecordDict({"model": ConfigRecord({"trees": b""})})
    lives = zip(sorted(grid.get_node_ids()), (1e-6, 600.0), strict=True)
    replies = grid.send_and_receive([Message(content, node, "query", ttl=ttl) for node, ttl in lives])
    np.savez("final.npz", codes=[reply.error.code if reply.has_error() else 0 for reply in replies])
"""
    )
    folder = run_of(tmp_path, app, 2, {})
    assert left_in(folder.path / "server-app")["codes"].tolist() == [4, 0]


def test_what_the_first_optimizer_loads_is_loaded_before_anything_is_measured(tmp_path: Path) -> None:
    """torch loads its compiler with the first optimizer: seconds, which were the first training's joules."""
    app = written_app(tmp_path, "quick")
    settings = {**client_settings(read_app(app, {}), 0, 2, SEED), "folder": str(app)}
    code = (
        "import json, pathlib, runpy, sys\n"
        "load = runpy.run_path(sys.argv[1])['load']\n"
        "load(json.loads(sys.argv[2]), pathlib.Path.cwd())\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    command = [str(PYTHON), "-P", "-c", code, client_process.__file__, json.dumps(settings)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stderr
