"""Run folders: made once, written by one, readable always."""

from __future__ import annotations

import json

import pytest

from roambench.contract.errors import RunError
from roambench.experiment.sections import Experiment
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo, RunState
from small_runs import folder_of

EXPERIMENT = Experiment.model_validate({"learning": {"local_epochs": 3}})


def make(path, **changes):
    values = {
        "experiment": EXPERIMENT,
        "run_id": "demo-1",
        "system": "mohawk",
        "trace_hash": "ab12",
        "fleet": "local",
        "device_names": ["pi-00", "pi-01"],
        "time_scale": 6.0,
    }
    return RunFolder.create(path, **(values | changes))


def test_a_run_is_read_back_as_it_was_described(tmp_path):
    with make(tmp_path / "runs" / "demo") as run:
        run.update(start_device_ns=5, distance_mean_m=900.0, model_bytes=2637128)
        run.close(RunState.FINISHED)
    found = RunFolder.open(tmp_path / "runs" / "demo")
    assert found.info == run.info
    assert found.info.device_names == ("pi-00", "pi-01")
    assert found.info.state is RunState.FINISHED
    assert found.info.distance_mean_m == 900.0
    assert found.experiment == EXPERIMENT


def test_an_experiment_that_was_changed_by_hand_is_refused_with_the_key(tmp_path):
    make(tmp_path / "demo").close()
    file = tmp_path / "demo" / "experiment.json"
    file.write_text('{"energy": {"gain": "x"}, "learnin": {}}')
    with pytest.raises(RunError) as refused:
        _ = RunFolder.open(tmp_path / "demo").experiment
    assert f'{file}: energy.gain: expected a number > 0, got "x"; {file}: learnin: ' in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_existing_folder_is_never_written_over(tmp_path):
    make(tmp_path / "demo").close()
    with pytest.raises(RunError, match="demo: exists already; choose another name"):
        make(tmp_path / "demo")


def test_an_empty_folder_may_become_a_run(tmp_path):
    (tmp_path / "demo").mkdir()
    make(tmp_path / "demo").close(RunState.FINISHED)
    assert RunFolder.open(tmp_path / "demo").info.state is RunState.FINISHED


def test_two_writers_are_one_too_many_and_readers_are_welcome(tmp_path):
    run = make(tmp_path / "demo")
    with pytest.raises(RunError, match="is writing this run"):
        RunFolder.open(tmp_path / "demo", write=True)
    assert RunFolder.open(tmp_path / "demo").info.state is RunState.RUNNING
    run.close()
    RunFolder.open(tmp_path / "demo", write=True).close()


def test_a_reader_cannot_write(tmp_path):
    make(tmp_path / "demo").close()
    reader = RunFolder.open(tmp_path / "demo")
    with pytest.raises(RunError, match="opened for reading"):
        reader.journal  # noqa: B018
    with pytest.raises(RunError, match=r"records\.sqlite"):
        reader.records.insert("pi-00", "a", [(1, 3, b'["x",1,""]')])
    reader.close()


def test_a_run_left_in_state_running_reads_as_interrupted(tmp_path):
    make(tmp_path / "demo").close()
    found = RunFolder.open(tmp_path / "demo")
    assert found.info.state is RunState.INTERRUPTED
    assert "gone" in found.info.reason


@pytest.mark.parametrize(
    ("raised", "state", "reason"),
    [
        (ValueError("no such model"), RunState.FAILED, "ValueError: no such model"),
        (KeyboardInterrupt(), RunState.INTERRUPTED, "stopped by the user"),
    ],
)
def test_how_the_body_ended_is_written_down(tmp_path, raised, state, reason):
    with pytest.raises(type(raised)), make(tmp_path / "demo"):
        raise raised
    found = RunFolder.open(tmp_path / "demo").info
    assert (found.state, found.reason) == (state, reason)


def test_what_is_no_run_folder_is_said(tmp_path):
    with pytest.raises(RunError, match="nothing: no such folder"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(RunError, match=r"not a run folder \(it has no run.json\)$"):
        RunFolder.open(tmp_path)
    for name in ("mohawk", "hierfavg"):
        make(tmp_path / name).close()
    with pytest.raises(RunError, match=r"run.json\); runs in it: hierfavg, mohawk$"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format: expected 1, got 99"),
        ({"seed": "x"}, "seed: expected int, got 'x'"),
        ({"seed": True}, "seed: expected int, got True"),
        ({"state": "resting"}, "state: expected one of running, .*, got 'resting'"),
        ({"colour": 1}, "colour: unknown key"),
        ({"device_names": [1]}, r"device_names\[0\]: expected str, got 1"),
    ],
)
def test_a_spoilt_run_json_names_the_key(tmp_path, change, message):
    make(tmp_path / "demo").close()
    path = tmp_path / "demo" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=message):
        RunFolder.open(tmp_path / "demo")


def test_a_missing_key_and_broken_json_are_named(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"format": 1}')
    with pytest.raises(RunError, match=r"run\.json: run_id: is missing; .*run\.json: system: is missing"):
        RunInfo.read(path)
    path.write_text('{"format": 1')
    with pytest.raises(RunError, match="not JSON"):
        RunInfo.read(path)


def test_a_run_that_its_process_left_on_a_full_disk_says_so(tmp_path, monkeypatch):
    folder_of(tmp_path / "run", "local", []).close()
    assert RunFolder.open(tmp_path / "run").info.reason == "the process that ran it is gone"
    monkeypatch.setattr("roambench.runs.folder.LEAST_FREE_BYTES", 1 << 60)  # as if this disk were full
    reason = RunFolder.open(tmp_path / "run").info.reason
    assert reason.startswith(f"the process that ran it is gone, and {tmp_path / 'run'}: the disk is full")
