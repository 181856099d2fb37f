"""Records that no controller took: kept by run, dropped and counted where they are of none."""

import json
import os
import resource

import pytest

from roambench.agent.readings.unsent import Unsent
from roambench.contract.records import AgentEvent, RecordKind
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool


@pytest.fixture
def spool(tmp_path):
    opened = Spool(tmp_path / "spool.sqlite")
    yield opened
    opened.close()


def in_run(spool, run, *details):
    """A record context of `run` and an event per detail."""
    spool.begin_context(RecordContext("boot", "0/1.0", 0, "smartpower2", run), 0)
    for detail in details:
        spool.append(RecordKind.EVENT, AgentEvent("x", 0, detail).to_bytes())


def rows(lines):
    return [json.loads(line) for line in lines]


def test_what_a_finished_run_left_goes_to_its_file_and_the_rest_is_counted(tmp_path, spool):
    in_run(spool, "", "a", "b")  # with its record context: three records of no run
    in_run(spool, "run-1", "c", "d")  # three of run-1
    in_run(spool, "", "e")
    unsent = Unsent(tmp_path / "unsent", spool)
    unsent.set_aside()
    assert spool.consumers[CONTROLLER].depth == 0
    assert unsent.dropped == 3 + 2
    found = rows(unsent.export("run-1"))
    assert [row["seq"] for row in found] == [4, 5, 6]
    assert {row["run"] for row in found} == {"run-1"}
    assert {row["spool_uuid"] for row in found} == {spool.uuid}
    assert list(unsent.runs()) == ["run-1"]


def test_the_newest_records_stay_in_the_queue(tmp_path, spool):
    in_run(spool, "", *"0123456789")
    unsent = Unsent(tmp_path / "unsent", spool)
    unsent.set_aside(keep=4)
    assert spool.consumers[CONTROLLER].depth == 4
    assert unsent.dropped == 7
    unsent.set_aside(keep=4)
    assert unsent.dropped == 7


def test_an_export_goes_over_files_and_queue_and_a_run_may_be_named(tmp_path, spool):
    in_run(spool, "run-1", "a")
    unsent = Unsent(tmp_path / "unsent", spool)
    unsent.set_aside()
    in_run(spool, "run-2", "b")
    assert [row["run"] for row in rows(unsent.export())] == ["run-1", "run-1", "run-2", "run-2"]
    assert [row["seq"] for row in rows(unsent.export("run-2"))] == [3, 4]


def test_files_survive_the_process_until_somebody_has_fetched_them(tmp_path, spool):
    in_run(spool, "run/../1", "a")  # a run's name is no path
    Unsent(tmp_path / "unsent", spool).set_aside()
    again = Unsent(tmp_path / "unsent", spool)
    assert list(again.runs()) == ["run/../1"]
    assert again.forget("run/../1")
    assert not again.forget("run/../1")
    assert list(again.export()) == []


def test_half_a_line_of_a_power_cut_is_left_out_and_counted(tmp_path, spool):
    in_run(spool, "run-1", "a")
    unsent = Unsent(tmp_path / "unsent", spool)
    unsent.set_aside()
    (file,) = (tmp_path / "unsent").iterdir()
    whole = file.read_bytes()
    half = b'{"run":"run-1","se'
    for damaged in (whole + half, half + b"\n" + whole, half + whole + whole, whole + b"\0" * 99 + b"\n"):
        file.write_bytes(damaged)
        lines = list(unsent.export())
        assert lines.count(None) == 1
        assert [row["seq"] for row in rows(line for line in lines if line)][-1] == 2


def test_a_file_cut_at_any_byte_loses_one_record_and_takes_the_next_ones(tmp_path, spool):
    in_run(spool, "run {1}", "a")
    unsent = Unsent(tmp_path / "unsent", spool)
    unsent.set_aside()
    (file,) = (tmp_path / "unsent").iterdir()
    content = file.read_bytes()
    seq = 2
    for cut in range(len(content) + 1):
        file.write_bytes(content[:cut])
        spool.append(RecordKind.EVENT, AgentEvent("x", 0, "new").to_bytes())
        seq += 1
        unsent.set_aside()
        # A record is there once its closing brace is: the line end may be missing.
        before = [number for number in (1, 2) if content[:cut].count(b"}") >= 2 * number]
        assert [row["seq"] for row in rows(unsent.export())] == [*before, seq], cut


def test_a_record_that_a_full_disk_did_not_take_stays_in_the_queue_and_comes_once(tmp_path, spool):
    in_run(spool, "run-1", "a", "b", "c")
    unsent = Unsent(tmp_path / "unsent", spool)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))  # the kernel takes the first 300 bytes
    try:
        with pytest.raises(OSError, match="File too large"):
            unsent.set_aside()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spool.consumers[CONTROLLER].depth == 4
    unsent.set_aside()
    assert [row["seq"] for row in rows(unsent.export())] == [1, 2, 3, 4]


def test_beyond_its_cap_the_oldest_runs_file_goes_and_its_records_are_counted(tmp_path, spool):
    unsent = Unsent(tmp_path / "unsent", spool)
    for run in ("run-1", "run-2"):
        for older in (tmp_path / "unsent").glob("*"):
            os.utime(older, (0, 0))  # a file system may stamp two in one tick
        in_run(spool, run, "a" * 200)
        unsent.set_aside()
    unsent = Unsent(tmp_path / "unsent", spool, kept_bytes=1 + max(unsent.runs().values()))
    unsent.set_aside()  # nothing to take, but too much is kept
    in_run(spool, "", "b")
    unsent.set_aside()
    assert list(unsent.runs()) == ["run-2"]
    assert unsent.dropped == 2 + 2
