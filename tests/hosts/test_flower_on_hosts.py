"""A Flower app on hosts: brought by digest, equal to this machine's, hostile to its own board alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from flower_apps import PYTHON, left_in, written_app
from flower_templates import TEMPLATES, written_template
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import Said, roambench
from roambench.contract.phases import Outcome, Phase
from roambench.report.report import report
from roambench.rounds.records import OrderAnswered, OutcomeDecided, StepClosed
from roambench.runs.folder import RunFolder

#: A training takes a second: joules of less are not seen.
_BUSY = """

_at_once = app


def app(message, context):
    until_s = time.process_time() + 1.0
    while message.metadata.message_type == "train" and time.process_time() < until_s:
        pass
    return _at_once(message, context)
"""
#: The first board's half forks for ever, out of its session, where it shall train, and lies about a length
#: where it shall evaluate.
_HOSTILE = """

import sys

_honest = app


def _hostile(message, context):
    if context.node_config["partition-id"] > 0:
        return _honest(message, context)
    if message.metadata.message_type == "evaluate":
        os.write(4, b"A" + (10**12).to_bytes(8, "big") + bytes(1000))
    while message.metadata.message_type == "train":
        try:
            if os.fork() == 0:
                os.setsid()
                while True:
                    pass
        except OSError:
            time.sleep(1000)


app = _hostile
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [
        "pytorchapp",
        *(pytest.param(name, marks=pytest.mark.slow) for name in TEMPLATES if name != "pytorchapp"),
    ],
)
def test_an_app_as_flowers_templates_write_it_leaves_the_same_on_all_fleets(
    name: str, provisioned: BenchHosts, tmp_path: Path
) -> None:
    """PyTorch, scikit-learn, NumPy: each takes the place of the one before; the test below removes one."""
    bench, names = provisioned.bench, provisioned.names
    app, left = written_template(tmp_path, name), TEMPLATES[name][-1]
    assert _brought(bench, app) == ["changed"] * len(names)
    fleets = {f"bench:{bench}": ["--no-preflight", "--unproven"], "local": [], "simulated": []}
    runs = [
        _run(app, fleet, tmp_path / str(number), len(names), *more)
        for number, (fleet, more) in enumerate(fleets.items())
    ]
    there, here, virtual = [run.path / "server-app" / left for run in runs]
    assert here.read_bytes() == virtual.read_bytes()
    if name == "pytorchapp":  # on a board PyTorch sums on several threads
        expected = torch.load(here)
        for tensor, values in torch.load(there).items():
            torch.testing.assert_close(values, expected[tensor], rtol=0, atol=1e-6)
    else:
        assert there.read_bytes() == here.read_bytes()
    (summary,) = report([runs[0].path]).summaries
    assert summary.energy is not None
    joules = {one.phase: one.gross.joules for one in summary.energy.phases}
    assert joules.keys() >= {Phase.DOWNLOAD, Phase.TRAIN, Phase.EVALUATE, Phase.UPLOAD}
    closed = [record for record in runs[0].read_log() if isinstance(record, StepClosed)]
    assert [one.accuracy is not None for one in closed] == [False, name != "numpyapp"]


@pytest.mark.timeout(900)
def test_an_app_comes_to_hosts_runs_there_as_here_and_hurts_no_other(
    provisioned: BenchHosts, tmp_path: Path
) -> None:
    bench, names = provisioned.bench, provisioned.names
    app = written_app(tmp_path, "least-squares")
    client = app / "squares/client_app.py"
    client.write_text(client.read_text() + _BUSY)
    try:
        assert _brought(bench, app) == ["changed"] * len(names)
        assert _brought(bench, app) == ["unchanged"] * len(names)
        told = roambench("fleet", "status", bench, "--json")
        assert [host["program"] for host in json.loads(told.out)] == ["least-squares 1.0.0"] * len(names)

        ran = _run(app, f"bench:{bench}", tmp_path / "there", len(names), "--no-preflight", "--unproven")
        here = _run(app, "local", tmp_path / "here", len(names))
        assert (
            left_in(ran.path / "server-app")["w"].tobytes()
            == left_in(here.path / "server-app")["w"].tobytes()
        )
        (summary,) = report([ran.path]).summaries
        assert summary.energy is not None
        assert {
            board.device: board.whole_run.joules > 1.0 for board in summary.energy.boards
        } == dict.fromkeys(names, True)
        joules = {one.phase: one.gross.joules for one in summary.energy.phases}
        assert joules.keys() >= {Phase.DOWNLOAD, Phase.TRAIN, Phase.EVALUATE, Phase.UPLOAD}
        assert joules[Phase.TRAIN] > 1.0 * len(names)

        # Edited here: no run until the boards have it.
        client.write_text(client.read_text() + _HOSTILE)
        refused = _command(app, f"bench:{bench}", tmp_path / "edited", len(names), "--unproven")
        assert refused.code == 1
        for name in names:
            assert f"{name}: program: least-squares 1.0.0 (" in refused.err + refused.out
        assert _brought(bench, app) == ["changed"] * len(names)
        hostile = _run(
            app,
            f"bench:{bench}",
            tmp_path / "hostile",
            len(names),
            "--no-preflight",
            "--unproven",
            "--set",
            "fleet.deadline_s=60",
        )
        outcomes = [record for record in hostile.read_log() if isinstance(record, OutcomeDecided)]
        failed = {record.device: record.reason for record in outcomes if record.outcome is Outcome.FAILED}
        assert failed.keys() == {0}
        assert "no answer within" in failed[0]
        honest = set(range(1, len(names)))
        assert {r.device for r in outcomes if r.outcome is Outcome.AGGREGATED} == honest
        answers = [record for record in hostile.read_log() if isinstance(record, OrderAnswered)]
        (lie,) = [one for one in answers if one.order_id.endswith("/00000/evaluate")]
        assert "its program sent 1,000,000,000,000 bytes" in lie.reason
        for name in names:  # nothing of it is left, and every agent is the one that began
            assert provisioned.inside(name, "pgrep -c -f program_hos[t] || true").strip() == "0"
            readings = hostile.records.readings(name)
            assert len(readings.ns) > 10
    finally:
        removed = roambench("fleet", "flower", bench, "--remove", timeout_s=300)
    assert removed.code == 0, removed
    assert all(
        provisioned.inside(name, "test ! -e /opt/roambench/programs && echo gone").strip() == "gone"
        for name in names
    )


def _brought(bench: Path, app: Path) -> list[str]:
    said = roambench("fleet", "flower", bench, app, "--json", timeout_s=580)
    assert said.code == 0, said
    return [row["state"] for row in json.loads(said.out)]


def _command(app: Path, fleet: str, folder: Path, agents: int, *more: object) -> Said:
    words = ("flower", "run", app, "--fleet", fleet, "--python", PYTHON, "--agents", agents)
    settings = ("--set", "energy.idle_baseline_s=3")
    config = ("--run-config", "num-server-rounds=1")
    return roambench(*words, *settings, *config, "--runs-dir", folder, *more, timeout_s=400)


def _run(app: Path, fleet: str, folder: Path, agents: int, *more: object) -> RunFolder:
    ran = _command(app, fleet, folder, agents, *more)
    assert ran.code == 0, ran
    (path,) = folder.glob("*/latest/*/")
    return RunFolder.open(path)
