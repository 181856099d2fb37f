"""Runs on local agents whose controller is killed, or stopped, end as if nothing had been; their account has
one hole more."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
from rich.console import Console

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.readings.timeline import partition_check
from roambench.experiment.load import load_experiment
from roambench.rounds.records import ModelsScored, OrderGiven, OutcomeDecided, RunResumed
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run, outages_of
from roambench.runs.models import load_model
from soaking.processes import processes_of

from .resumed import KILLS, command, ended, killed_at_random, killed_when, rows, story

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("workers_of_one_server")]

#: Devices keep models of their own, and models that are uploaded in the step after.
ROUNDS = """
name = "cut"
seed = 5
systems = ["middle"]
rounds = { cloud_every_steps = 3, step_close = "clock:12", rest_s = 0 }
trace = { generator = "city", steps = 6, parameters = { presence = "always", devices = 3 } }
fleet = { agents = 3, aps = 2 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 50 }
local = { time_scale = 10.0, sgd_step_s = 1.0 }
energy = { idle_baseline_s = 2.0 }
"""
#: Devices hold all models there are, and velocities.
PEERS = """
name = "cut"
seed = 5
systems = ["d_psgd"]
fleet = { agents = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 50, momentum = 0.9 }
mobility = { model = "reflected_walk" }
rounds = { step_close = "clock:12", rest_s = 0 }
decentralised = { iterations = 6, evaluate_every = 3, half_step = "epochs" }
local = { time_scale = 10.0, sgd_step_s = 1.0 }
energy = { idle_baseline_s = 2.0 }
"""


def begun(base: Path, text: str) -> tuple[str, ...]:
    """The command that begins, or goes on with, the runs of `text` in the folder that follows it."""
    file = base / "cut.toml"
    file.write_text(text)
    return "run", str(file), "--fleet", "local", "--runs-dir"


def all_done_but_open(run: Path) -> bool:
    """Return true if all three devices have done all that they do in the third step, or a later one."""
    opened = rows(run, "StepOpened")
    return (
        opened > 2
        and (run / "checkpoint.json").is_file()
        and rows(run, "StepClosed") < opened
        and rows(run, "OutcomeDecided") == 3 * opened
    )


def runs_of(out: Path, name: str) -> list[Path]:
    """The run folders of that name in those of a sweep or a comparison."""
    found = out.glob("points/*/runs/*/run.json")
    return [path.parent for path in found if json.loads(path.read_text())["run_id"].startswith(f"{name}.")]


def kill_runs_of(out: Path) -> None:
    """kill -9 to the processes that carry the points out."""
    for process in processes_of(out):
        with contextlib.suppress(psutil.Error):
            if any("point_process" in word for word in process.cmdline()):
                process.kill()


def same(run: Path, whole: Path) -> None:
    """But for their names, which orders have in theirs."""
    ours, theirs = (
        [
            repr(record).replace(f"{RunFolder.open(path).info.name_in_orders}/", "run/")
            for record in story(path, real_time=True)
        ]
        for path in (run, whole)
    )
    assert ours == theirs
    assert np.array_equal(*(load_model(path / GLOBAL_MODEL) for path in (run, whole)))


def accounted(run: Path) -> None:
    """No board was measured twice, or at a wrong time; all that was ordered has its phases, once; but for the
    outages there is no hole."""
    with RunFolder.open(run) as folder:
        records = folder.read_log()
        energy = account_run(folder, records)
    assert energy is not None
    outages = outages_of(records)
    assert bool(outages) == bool(records.count(RunResumed))
    works = ("train", "upload", "sync", "exchange")
    ordered = Counter(order.order_id for order in records.only(OrderGiven) if order.kind in works)
    assert set(ordered.values()) == {1}
    worked = {span.order_id for span in energy.spans if span.phase in ACTIVE_PHASES}
    assert worked == set(ordered)
    for device in energy.devices:
        spans = device.spans
        lost = [(span.start_ns, span.end_ns) for span in spans if span.phase is Phase.LOST]
        assert lost == outages
        assert partition_check(spans, energy.start_ns, energy.end_ns) == []
        assert len(device.readings) == len(set(device.readings.ns.tolist()))
        counted_s = sum(row.duration_s for row in device.rows if row.phase is not Phase.LOST)
        covered_s = sum(row.covered_s for row in device.rows if row.phase is not Phase.LOST)
        assert covered_s > 0.8 * counted_s  # a machine that stalls misses some
        # The emulator's truth is of when a board did what: readings at another time would not give it.
        assert device.truth is not None
        assert device.whole_run.joules == pytest.approx(device.truth.whole_j, rel=0.1)


def test_a_comparison_that_is_killed_goes_on_and_ends_as_one_left_alone(tmp_path: Path) -> None:
    """With the process of its run; B was left alone."""
    out = tmp_path / "compared"
    file = begun(tmp_path, ROUNDS)[1]
    ab = ("ab", file, file, "--set-b", 'name="alone"', "--repeats", "1", "-o", str(out))
    with command(tmp_path, *ab) as process:
        killed_when(tmp_path, process, lambda: any(map(all_done_but_open, runs_of(out, "cut-middle"))))
        kill_runs_of(out)
    with command(tmp_path, *ab) as again:  # the same command goes on by itself
        ended(tmp_path, again)
    (run,), (whole,) = runs_of(out, "cut-middle"), runs_of(out, "alone-middle")
    assert [rows(path, "RunResumed") for path in (run, whole)] == [1, 0]
    assert [path.name for path in run.parent.iterdir() if path.is_dir()] == [run.name]
    same(run, whole)
    accounted(run)
    for gone in ("checkpoint.json", "checkpoint-models", "identity", "agents/pi-01/resume-point"):
        assert not (run / gone).exists()


def test_a_run_without_a_server_that_is_stopped_ends_as_one_left_alone(tmp_path: Path) -> None:
    begin, run = begun(tmp_path, PEERS), tmp_path / "stopped" / "cut/latest/d_psgd"
    with command(tmp_path, *begin, str(run.parents[2])) as process:
        killed_when(tmp_path, process, lambda: all_done_but_open(run), signal.SIGTERM)
    assert f"go on        roambench resume {run.resolve()}" in (tmp_path / "log").read_text()
    with command(tmp_path, *begin, str(run.parents[2])) as process:
        ended(tmp_path, process)
    (whole,) = run_experiment(  # virtual devices give the digests of agents
        load_experiment(begin[1]), fleet="simulated", runs_dir=tmp_path, console=Console(quiet=True)
    )
    accounted(run)
    outcomes = {}
    for path in (run, whole):
        with RunFolder.open(path) as folder:
            records = folder.read_log()
        outcomes[path] = [*records.only(OutcomeDecided), *records.only(ModelsScored)]
    assert outcomes[run] == outcomes[whole]
    assert np.array_equal(*(load_model(path / GLOBAL_MODEL) for path in (run, whole)))


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_and_ends_as_one_left_alone(tmp_path: Path) -> None:
    """Its run hears of it, and stops by itself."""
    out, whole = tmp_path / "swept", tmp_path / "whole" / "cut/latest/middle"
    begin = begun(tmp_path, ROUNDS)
    (tmp_path / "sweep.toml").write_text('experiment = "cut.toml"\nfleet = "local"\ngrid.seeds = 1\n')
    sweep = ("sweep", str(tmp_path / "sweep.toml"), "-o", str(out))
    with command(tmp_path, *sweep) as process:
        killed_when(tmp_path, process, lambda: any(map(all_done_but_open, runs_of(out, "cut-middle"))))
    with command(tmp_path, *sweep) as again:
        ended(tmp_path, again)
    with command(tmp_path, *begin, str(whole.parents[2])) as alone:
        ended(tmp_path, alone)
    (run,) = runs_of(out, "cut-middle")
    # One that cannot go on says why there: roambench's sources were edited meanwhile, for example.
    assert rows(run, "RunResumed") == 1, (run.parents[1] / "log.txt").read_text()
    same(run, whole)
    accounted(run)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("text", "system"), [(ROUNDS, "middle"), (PEERS, "d_psgd")])
def test_kills_at_random_moments(tmp_path: Path, text: str, system: str) -> None:
    """Some of them come before a resumed run is ready, and some in what follows its last step."""
    begin, whole = begun(tmp_path, text), tmp_path / "whole" / f"cut/latest/{system}"
    with command(tmp_path, *begin, str(whole.parents[2])) as process:
        ended(tmp_path, process)
    for run in killed_at_random(
        tmp_path, begin, f"cut/latest/{whole.name}", seed=14, kills=KILLS, longest_s=8.0
    ):
        same(run, whole)
        accounted(run)
