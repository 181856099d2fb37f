"""How a run ends before its time: by Ctrl-C in good order, by kill -9 of the controller without any."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing

import pytest

from roambench.contract.records import Reading, RecordKind
from roambench.rounds.records import OrderGiven, StepClosed
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

pytestmark = pytest.mark.timeout(120)

LONG = ("trace.steps=8", "local.sgd_step_s=2.0", "local.upload_mbit_s=0.03")


def in_full_swing(run) -> None:
    """Wait until the second step is closed and a training of the third is under way."""
    run.wait_for_event("train started", "pi-01", "small-mohawk/00002/00000/train")
    time.sleep(0.3)


@pytest.fixture(scope="module")
def stopped(launch):
    run = launch(*LONG, words=())
    in_full_swing(run)
    assert len(run.processes()) > 4 * 3  # reader, nursery and trainer each, zygote, emulator
    began_s = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    run.status = run.process.wait(60)
    run.ended_after_s = time.monotonic() - began_s
    run.left = [" ".join(process.cmdline()) for process in run.processes()]
    return run


class TestCtrlC:
    """SIGINT to a real `roambench run`, with several agents in the middle of their training."""

    def test_it_exits_with_130_within_15_seconds_and_leaves_no_process(self, stopped):
        assert stopped.status == 130
        assert stopped.ended_after_s < 15
        assert stopped.left == []
        assert "Traceback" not in stopped.text()

    def test_the_run_folder_says_interrupted_and_opens(self, stopped):
        folder = RunFolder.open(stopped.folder())
        assert folder.info.state is RunState.INTERRUPTED
        assert folder.info.reason == "stopped by the user"
        assert folder.info.start_device_ns < folder.info.end_device_ns
        assert [r.step for r in stopped.of(StepClosed)] == [0, 1]
        folder.close()

    def test_readings_up_to_the_end_are_there(self, stopped):
        folder = RunFolder.open(stopped.folder())
        for name in folder.info.device_names:
            ns = folder.records.readings(name).ns
            assert ns[0] - folder.info.start_device_ns < 1.5e9
            assert folder.info.end_device_ns - ns[-1] < 1.5e9
            assert len(ns) == pytest.approx((ns[-1] - ns[0]) * 1e-9 + 1, abs=1.5)
        folder.close()

    def test_what_was_measured_so_far_can_be_accounted_and_exported(self, stopped):
        energy = stopped.energy()
        assert energy.whole_run.coverage > 0.95
        assert energy.whole_run.joules > 1.89 * 0.95 * 4 * (energy.end_ns - energy.start_ns) * 1e-9
        folder = RunFolder.open(stopped.folder())
        assert all(path.is_file() for path in export_run(folder))
        folder.close()


@pytest.fixture(scope="module")
def orphaned(launch):
    run = launch(*LONG)
    in_full_swing(run)
    began_s = time.monotonic()
    run.process.kill()
    run.process.wait()
    while run.processes() and time.monotonic() - began_s < 60:
        time.sleep(0.1)
    run.ended_after_s = time.monotonic() - began_s
    run.left = [" ".join(process.cmdline()) for process in run.processes()]
    return run


class TestKillMinusNine:
    """SIGKILL of the controller: agents and meter emulator are on their own."""

    def test_agents_and_emulator_end_by_themselves_within_30_seconds(self, orphaned):
        assert orphaned.left == []
        assert orphaned.ended_after_s < 30

    def test_every_record_is_either_in_the_run_folder_or_still_in_its_spool(self, orphaned):
        folder = orphaned.folder()
        with closing(sqlite3.connect(folder / "records.sqlite")) as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            drained = store.execute("SELECT device, seq FROM record").fetchall()
        for name in ("pi-01", "pi-02", "pi-03", "pi-04"):
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
        assert orphaned.energy().whole_run.covered_s > 4 * 10
