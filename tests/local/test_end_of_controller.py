"""Ends of runs before their time: by Ctrl-C in good order, by kill -9 of the controller without any."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress

import numpy as np
import psutil
import pytest
from safetensors import safe_open

from forked_commands import Command
from roambench.contract.events import EventKind
from roambench.contract.records import Reading, RecordKind
from roambench.rounds.records import OrderGiven, StepClosed
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model

from .conftest import SMALL, command_lines

pytestmark = pytest.mark.timeout(600)

AGENTS = 2
LONG = (f"fleet.agents={AGENTS}", "trace.steps=8", "local.sgd_step_s=2.0", "local.upload_mbit_s=0.03")


def in_full_swing(run) -> None:
    """Wait until the second step is closed and a training of the third is under way."""
    run.wait_for_event(EventKind.TRAIN_STARTED, "pi-01", "small-mohawk/00002/00000/train")
    time.sleep(0.3)


@pytest.fixture(scope="module")
def stopped(launch):
    run = launch(*LONG, words=())
    in_full_swing(run)
    # Reader, fork server and trainer of each agent, the agents' fork server, the emulator.
    assert len(run.processes()) > AGENTS * 3
    run.process.send_signal(signal.SIGINT)
    run.status = run.process.wait(300)
    run.left = command_lines(run.processes())
    return run


class TestCtrlC:
    """SIGINT to a real `roambench run`, with several agents in the middle of their training."""

    def test_it_exits_with_130_waits_for_no_deadline_and_leaves_no_process(self, stopped):
        assert stopped.status == 130
        assert "not drained in time" not in stopped.text()
        assert stopped.left == []
        assert "Traceback" not in stopped.text()

    def test_the_run_folder_says_interrupted_and_opens(self, stopped):
        folder = RunFolder.open(stopped.folder())
        assert folder.info.state is RunState.INTERRUPTED
        assert folder.info.reason == "stopped by the user"
        assert folder.info.start_device_ns < folder.info.end_device_ns
        assert [r.step for r in stopped.of(StepClosed)] == [0, 1]
        folder.close()

    def test_the_model_so_far_is_kept_no_key_is_and_the_end_says_what_to_do(self, stopped):
        with safe_open(stopped.folder() / GLOBAL_MODEL, "numpy") as model:
            assert model.metadata()["steps"] == "2"
        assert not (stopped.folder() / "identity").exists()
        lines = [line for line in stopped.text().splitlines() if line]
        assert "stopping: what was measured is being brought in (once more: at once) ..." in lines
        where = stopped.folder()
        assert lines[-4] == (
            "mohawk interrupted at step 3 of 8 (stopped by the user): its records and its last model are "
            f"kept in {where}."
        )
        assert lines[-3] == f"  look at it   roambench report {where}"
        assert lines[-2] == f"  go on        roambench resume {where}"
        assert lines[-1].startswith("  restart      roambench run ")

    def test_readings_up_to_the_end_are_there(self, stopped):
        folder = RunFolder.open(stopped.folder())
        for name in folder.info.device_names:
            ns = folder.records.readings(name).ns
            start_ns, end_ns = folder.info.start_device_ns, folder.info.end_device_ns
            # One a second; a line that is late on a busy machine is none that is missing.
            inside = int(np.sum((ns >= start_ns) & (ns < end_ns)))
            assert inside == pytest.approx((end_ns - start_ns) * 1e-9, abs=2.5)
        folder.close()

    def test_what_was_measured_so_far_can_be_accounted_and_exported(self, stopped):
        energy = stopped.energy()
        assert energy.whole_run.coverage > 0.95
        assert energy.whole_run.joules > 1.89 * 0.95 * AGENTS * (energy.end_ns - energy.start_ns) * 1e-9
        folder = RunFolder.open(stopped.folder())
        assert all(path.is_file() for path in export_run(folder))
        folder.close()


def test_a_lost_terminal_after_the_last_step_keeps_the_model_and_is_on_record(launch):
    """In the idle baseline that closes a run."""
    quick = (
        "fleet.agents=2",
        "trace.steps=2",
        "local.time_scale=20.0",
        "local.sgd_step_s=0.1",
        "energy.idle_baseline_s=60.0",
    )
    run = launch(*quick, words=(), forked=True)
    launch.until(lambda: len(run.of(StepClosed)) == 2, 180, "two steps")
    run.process.send_signal(signal.SIGHUP)
    assert run.process.wait(300) == 128 + signal.SIGHUP
    folder = RunFolder.open(run.folder())
    assert (folder.info.state, folder.info.reason) == (RunState.INTERRUPTED, "stopped by SIGHUP")
    assert folder.info.start_device_ns < folder.info.end_device_ns
    folder.close()
    assert load_model(run.folder() / GLOBAL_MODEL).size == folder.info.model_parameters
    assert "mohawk interrupted after the last of its 2 steps (stopped by SIGHUP)" in run.text()
    assert not (run.folder() / "identity").exists()
    assert run.processes() == []
    assert run.energy().whole_run.coverage > 0.8


def test_a_stopped_unit_signals_every_process_at_once_and_the_run_ends_in_good_order(launch):
    """SIGTERM to the controller, its fork servers, agents, trainers and the emulator, as systemd sends it."""
    run = launch(*LONG, words=())
    in_full_swing(run)
    everybody = run.processes()
    assert len(everybody) > AGENTS * 3
    for process in everybody:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    assert run.process.wait(300) == 128 + signal.SIGTERM
    assert command_lines(run.processes()) == []
    assert "Traceback" not in run.text()
    folder = RunFolder.open(run.folder())
    assert (folder.info.state, folder.info.reason) == (RunState.INTERRUPTED, "stopped by SIGTERM")
    folder.close()
    with safe_open(run.folder() / GLOBAL_MODEL, "numpy") as model:
        assert model.metadata()["steps"] == "2"
    assert not (run.folder() / "identity").exists()
    assert f"  go on        roambench resume {run.folder()}" in run.text().splitlines()
    assert run.energy().whole_run.coverage > 0.95


@pytest.mark.timeout(600)  # a busy machine tears gRPC down in tens of seconds
def test_a_second_signal_ends_a_run_at_once_and_still_in_the_record(launch):
    """While the first one's clean-up waits for agents that hand over their readings."""
    run = launch(*LONG, words=(), forked=True)
    in_full_swing(run)
    for agent in ("pi-01", "pi-02"):
        run.agent(agent).reader.suspend()  # they do not say goodbye: the drain would take 30 s
    run.process.send_signal(signal.SIGTERM)
    launch.until(lambda: "stopping: " in run.text(), 300, "a word")
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(300) == 128 + signal.SIGTERM
    assert "not drained in time" not in run.text()  # as it says where it has waited for them
    for process in run.processes():
        with suppress(psutil.Error):
            process.resume()
    assert "Traceback" not in run.text()
    folder = RunFolder.open(run.folder())
    assert (folder.info.state, folder.info.reason) == (RunState.INTERRUPTED, "stopped by SIGTERM")
    folder.close()
    assert not (run.folder() / "identity").exists()
    launch.until(lambda: run.processes() == [], 180, "an end of the agents")


def test_the_end_of_a_terminal_reaches_workers_too_and_ends_in_good_order(launch, tmp_path):
    """A hang-up goes to all processes of the terminal; the model of virtual devices is kept."""
    (tmp_path / "small.toml").write_text(SMALL)
    words = ["run", "small.toml", "--fleet", "simulated", "--set", "trace.parameters.steps=400"]
    words += ["--set", "trace.steps=400", "--set", "rounds.cloud_every_steps=1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [launch.roambench, *words], cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
        )
    launch.until(lambda: b" 3/400" in (tmp_path / "log").read_bytes(), 300, "three steps")
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(300) == 128 + signal.SIGHUP
    text = (tmp_path / "log").read_text()
    assert "Traceback" not in text
    path = (tmp_path / "runs/small/latest/mohawk").resolve().relative_to(tmp_path)
    folder = RunFolder.open(tmp_path / path)
    assert (folder.info.state, folder.info.reason) == (RunState.INTERRUPTED, "stopped by SIGHUP")
    closed = sum(isinstance(record, StepClosed) for record in folder.read_log())
    folder.close()
    with safe_open(tmp_path / path / GLOBAL_MODEL, "numpy") as model:
        assert model.metadata()["steps"] == str(closed)
    assert f"  go on        roambench resume {path}" in text.splitlines()
    goes_on = re.compile(r"^mohawk goes on at step (\d+) of 400, after .* s without a controller: .*\n", re.M)
    said = tmp_path / "said"
    with said.open("ab") as log:
        resumed = Command(["resume", str(path)], tmp_path, log.fileno(), said)
    try:
        at = launch.until(lambda: goes_on.search(said.read_text()), 300, "word that it goes on")
    finally:  # it is not waited for to its last step
        resumed.send_signal(signal.SIGTERM)
    assert resumed.wait(300) == 128 + signal.SIGTERM
    assert 1 < int(at[1]) <= closed + 1  # not every quick step is followed by a checkpoint


@pytest.fixture(scope="module")
def orphaned(launch):
    run = launch(*LONG)
    in_full_swing(run)
    began_s = time.monotonic()
    run.process.kill()
    run.process.wait()
    while run.processes() and time.monotonic() - began_s < 300:
        time.sleep(0.1)
    run.left = command_lines(run.processes())
    return run


class TestKillMinusNine:
    """SIGKILL of the controller: agents and meter emulator are on their own."""

    def test_agents_and_emulator_end_by_themselves(self, orphaned):
        assert orphaned.left == []

    def test_every_record_is_either_in_the_run_folder_or_still_in_its_spool(self, orphaned):
        folder = orphaned.folder()
        with closing(sqlite3.connect(folder / "records.sqlite")) as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            drained = store.execute("SELECT device, seq FROM record").fetchall()
        for name in ("pi-01", "pi-02"):
            with closing(sqlite3.connect(folder / "agents" / name / "spool.sqlite")) as spool:
                assert spool.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                kept = spool.execute("SELECT seq, kind, payload FROM records ORDER BY seq").fetchall()
            assert kept, "an agent goes on for a moment after its controller"
            seqs = {seq for device, seq in drained if device == name} | {seq for seq, _, _ in kept}
            assert seqs == set(range(1, kept[-1][0] + 1))
            for _, kind, payload in kept:
                if kind == RecordKind.READING:
                    assert 1.5 < Reading.from_bytes(payload).watts < 3.0

    def test_the_run_folder_opens_and_says_what_happened(self, orphaned):
        folder = RunFolder.open(orphaned.folder())
        assert folder.info.state is RunState.INTERRUPTED
        assert folder.info.reason == "the process that ran it is gone"
        trained = [r for r in orphaned.of(OrderGiven) if r.kind == "train"]
        assert {r.step for r in trained} == {0, 1, 2}
        folder.close()
        assert orphaned.energy().whole_run.covered_s > AGENTS * 10


@pytest.mark.parametrize("name", ["agent fork server", "meter emulator"])
def test_a_local_fleet_that_is_gone_fails_the_run_at_once(launch, name):
    """SIGKILL of the process that all agents come from, or of the one that all their meters are."""
    run = launch(*LONG)
    in_full_swing(run)
    if name == "agent fork server":
        victim = run.agent("pi-01").reader.parent()
        assert victim is not None
    else:
        children = psutil.Process(run.process.pid).children()
        (victim,) = [process for process in children if "roambench.emulation" in process.cmdline()]
    victim.kill()
    assert run.process.wait(300) == 1
    assert f"the {name} ended with status -9" in run.text().replace("\n", " ")
    folder = RunFolder.open(run.folder())
    assert folder.info.state is RunState.FAILED
    assert "the fleet is gone" in folder.info.reason
    folder.close()
    # No process waits for agents whose parent is dead: they close their spools a moment after their session.
    launch.until(lambda: run.processes() == [], 300, "an end of the agents")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fleet_that_lives_and_answers_nothing_fails_the_run(launch):
    """All agents stand still, with open sessions. A busy machine may be some steps late in stopping them."""
    run = launch("trace.parameters.steps=40", "trace.steps=40", "fleet.deadline_s=60.0")
    in_full_swing(run)
    for number in range(1, 5):
        run.agent(f"pi-{number:02d}").reader.suspend()
    try:
        assert run.process.wait(600) == 1
    finally:
        for process in run.processes():
            with suppress(psutil.Error):
                process.resume()
    assert "no agent answered in 3 steps in a row" in " ".join(run.text().split())
    folder = RunFolder.open(run.folder())
    assert folder.info.state is RunState.FAILED
    assert "the fleet is gone" in folder.info.reason
    folder.close()
    assert len(run.of(StepClosed)) < 40
    launch.until(lambda: run.processes() == [], 180, "an end of the agents")
