"""What cannot be resumed says why in one sentence, and stays as it is."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from roambench.cli.main import main
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, RunError
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.fleet.model_registry import ModelRegistry
from roambench.provision.inventory.load import load_bench
from roambench.provision.leases.reserving import reserve
from roambench.rounds.peer_run import PeerState
from roambench.rounds.state import initial_state
from roambench.runner.agents import checkpoints
from roambench.runner.agents.agent_checkpoints import MODELS, AgentCheckpoints, boot_id
from roambench.runner.agents.checkpoints import SIMULATION, Checkpoints, made_with
from roambench.runner.bench_options import USUAL
from roambench.runner.places.bench import BenchPlace
from roambench.runner.places.table import place_of
from roambench.runner.resuming import ended_by_others, resume_run, unfinished
from roambench.runner.stopping import BY_THE_USER
from roambench.runner.world import movement_of
from roambench.runs.checkpoint_file import Checkpoint, write_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.groups import Group
from roambench.runs.info import RunState

EXPERIMENT = Experiment.model_validate(
    {
        "name": "e",
        "systems": ["mohawk", "middle"],
        "trace": {"generator": "city", "steps": 3, "parameters": {"presence": "always", "devices": 4}},
        "fleet": {"agents": 4, "aps": 2},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 20},
    }
)


def died(path: Path, *, fleet: str = "simulated", system: str = "mohawk", closed: bool = True) -> Path:
    """A run folder as a dead controller leaves it."""
    with RunFolder.create(
        path,
        EXPERIMENT,
        run_id=path.name,
        system=system,
        trace_hash=movement_of(EXPERIMENT).content_hash,
        fleet=fleet,
        device_names=["a", "b", "c", "d"],
    ) as folder:
        if closed:
            clock = {"boot_id": boot_id(), "epoch_ns": 5, "ahead_ns": 0, "at_ns": 7, "unix_ns": 0}
            told = {**clock, "models": []}
            write_checkpoint(path, Checkpoint(1, "{}", made_with(EXPERIMENT, folder), told))
    return path


def finish(path: Path) -> None:
    (path / SIMULATION).mkdir()
    with RunFolder.open(path, write=True) as folder:
        folder.update(state=RunState.FINISHED)


def edit_settings(path: Path) -> None:
    file = path / "experiment.json"
    config = json.loads(file.read_text())
    config["learning"]["batch_size"] += 1
    file.write_text(json.dumps(config))


def rename_trace(path: Path) -> None:
    with RunFolder.open(path, write=True) as folder:
        folder.update(trace_hash="0" * 64)


def on_bench(path: Path, names: str) -> Path:
    """The run in the folder is on a bench that has these hosts now; returns its file."""
    file = path.parent / "lab.toml"
    hosts = (f'[[hosts]]\nname = "{name}"\naddress = "10.36.0.{n}"\n' for n, name in enumerate(names, 2))
    text = 'state_dir = "state"\ndefaults.meter.driver = "none"\ncontroller.address = "10.36.0.1"\n'
    file.write_text(text + "".join(hosts))
    (path / "bench.json").write_text(json.dumps({"file": str(file)}))
    return file


def other_bench(path: Path) -> None:
    on_bench(path, "axcy")


def other_meter(path: Path) -> None:
    on_bench(path, "abcd")
    meters = {name: {"driver": "none", "port": "", "serial": ""} for name in "abcd"}
    meters["b"] = {"driver": "smartpower2", "port": "/dev/ttyUSB0", "serial": ""}
    hosts = [{"host": name, "meter": meter} for name, meter in meters.items()]
    noted = json.loads((path / "bench.json").read_text())
    (path / "bench.json").write_text(json.dumps({**noted, "hosts": hosts}))


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (other_meter, {"fleet": "bench"}, "cannot be resumed: .*lab.toml gives b another meter than it had"),
        (finish, {}, "nothing to resume: the run is finished; look at it: roambench report"),
        (None, {"closed": False}, "nothing to resume: it died before a step was closed; start a new run"),
        (
            None,
            {"fleet": "rehearsal"},
            "its fleet is rehearsal, and only runs on local, simulated, bench",
        ),
        (None, {"fleet": "bench"}, "bench.json: does not tell which file describes the bench"),
        (other_bench, {"fleet": "bench"}, "cannot be resumed: .*lab.toml has no b, d any more"),
        (edit_settings, {}, "cannot be resumed: experiment.json changed since it was begun"),
        (rename_trace, {}, "the trace that its settings name is not the one that it replayed"),
    ],
)
def test_what_cannot_be_resumed_says_why_and_stays_as_it_is(
    tmp_path: Path, change: Callable[[Path], None] | None, more: dict, words: str
) -> None:
    path = died(tmp_path / "e-mohawk", **more)
    if change is not None:
        change(path)
    before = (path / "run.json").read_bytes()
    with pytest.raises(RunError, match=words):
        resume_run(path, Console())
    assert (path / "run.json").read_bytes() == before
    assert list(RunFolder.open(path).read_log()) == []
    assert not (path / SIMULATION).exists()


def test_a_run_that_somebody_writes_is_left_to_him(tmp_path: Path) -> None:
    path = died(tmp_path / "e-mohawk")
    with RunFolder.open(path, write=True), pytest.raises(RunError, match="is writing this run"):
        resume_run(path, Console())


def test_a_bench_that_somebody_uses_is_left_to_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of the run's own dead controller is nobody's: its process is no more."""
    path = died(tmp_path / "e-mohawk", fleet="bench")
    bench = load_bench(on_bench(path, "abcd"))
    before = (path / "run.json").read_bytes()
    reserve(bench, "another run", 600.0, 0.0, print)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    with pytest.raises(FleetError, match=r"who reserved it until \w+ [-\d]+ [:\d]+ \S+: another run"):
        resume_run(path, Console())
    assert (path / "run.json").read_bytes() == before


def test_on_a_bench_the_same_hosts_of_the_same_bench_go_on(tmp_path: Path) -> None:
    path = died(tmp_path / "mohawk", fleet="bench")

    def found(names: str) -> list[Path]:
        bench = load_bench(on_bench(path, "abcd"))
        hosts = tuple(host for name in names for host in bench.hosts if host.name == name)
        place = BenchPlace(bench, hosts, EXPERIMENT, USUAL)
        return list(unfinished(place, Group(tmp_path), told.append).to_resume.values())

    told: list[str] = []
    assert found("abcd") == [path]
    assert found("abdc") == found("abc") == []
    (path / "bench.json").write_text(json.dumps({"file": str(tmp_path / "another.toml")}))
    bench = load_bench(tmp_path / "lab.toml")
    place = BenchPlace(bench, bench.hosts, EXPERIMENT, USUAL)
    assert unfinished(place, Group(tmp_path), told.append).to_resume == {}
    (path / "bench.json").unlink()
    assert unfinished(place, Group(tmp_path), told.append).to_resume == {}
    assert told == []


def test_code_that_was_edited_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = died(tmp_path / "e-mohawk")
    other = {**checkpoints.versions(), "roambench code": "0" * 16, "roambench commit": "x", "torch": "0.1"}
    monkeypatch.setattr(checkpoints, "versions", lambda: other)
    with pytest.raises(RunError, match="resumed: roambench code, torch changed since it was begun"):
        resume_run(path, Console())


def test_the_same_command_finds_what_it_left(tmp_path: Path) -> None:
    def found(experiment: Experiment = EXPERIMENT, fleet: str = "simulated") -> tuple[dict, dict]:
        left = unfinished(place_of(experiment, fleet), Group(tmp_path), told.append)
        return left.to_resume, left.finished

    told: list[str] = []
    assert found() == ({}, {})
    first = died(tmp_path / "mohawk")
    finish(first)
    assert found() == ({}, {})  # all that there is is finished: the same again is another run
    early = died(tmp_path / "middle", system="middle", closed=False)
    assert found() == ({}, {})  # nothing to go on from
    shutil.rmtree(early)
    second = died(tmp_path / "middle", system="middle")
    assert found() == ({"middle": second}, {"mohawk": first})
    workers = EXPERIMENT.simulated.model_copy(update={"workers": 7})
    assert found(EXPERIMENT.model_copy(update={"simulated": workers})) == found()
    assert found(EXPERIMENT.model_copy(update={"seed": 2})) == ({}, {})
    assert found(fleet="local") == ({}, {})
    with RunFolder.open(second, write=True):
        assert found() == ({}, {})  # somebody is at it
    assert told == []
    edit_settings(second)
    assert found() == ({}, {})


class Ticking:
    """A clock that a checkpoint takes `cost_s` of."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cost_s = 0.5

    def __call__(self) -> float:
        return self.now_s


class Fleet:
    """What a checkpoint asks of a fleet."""

    def __init__(self, clock: Ticking) -> None:
        self.keeps_much = False
        self._clock = clock
        self.told: list[str] = []

    def snapshot(self) -> dict:
        self._clock.now_s += self._clock.cost_s
        self.told.append("snapshot")
        return {}

    def keep(self, step: int) -> None:
        self.told.append(f"kept {step}")

    def restore(self, told: Mapping[str, Any]) -> dict[str, Vector]:
        raise AssertionError("a new run")


def test_checkpoints_take_a_twentieth_of_the_time_at_most(tmp_path: Path) -> None:
    path = died(tmp_path / "e-mohawk", closed=False)
    clock = Ticking()
    fleet = Fleet(clock)
    state = initial_state(np.zeros(3, np.float32), "ab", 2)
    with RunFolder.open(path, write=True) as folder:
        kept = Checkpoints(EXPERIMENT, folder, clock)
        for _ in range(1000):
            clock.now_s += 0.1  # a step
            kept.after(state, fleet)
        assert fleet.told.count("snapshot") == pytest.approx(0.05 * clock.now_s / clock.cost_s, abs=1)
        assert fleet.told[:2] == ["snapshot", "kept 0"]
        fleet.keeps_much = True
        before = len(fleet.told)
        kept.after(state, fleet)
        assert len(fleet.told) == before + 2
        last = PeerState(3, {})
        kept.after_peers(last, 3, fleet)  # with the last step the model is collected: it would be lost
        kept.after_peers(replace(last, ended=True), 9, fleet)
        assert len(fleet.told) == before + 2
        kept.after_peers(last, 9, fleet)
        assert fleet.told[-1] == "kept 3"
        assert kept.kept
        kept.forget()
        assert not kept.kept


def test_the_models_of_agents_lie_by_digest_and_damaged_ones_are_named(tmp_path: Path) -> None:
    registry = Registry("layout")
    first, second = (np.full(4, value, np.float32) for value in (1.0, 2.0))
    kept = AgentCheckpoints(tmp_path, registry, DeviceClock())  # type: ignore[arg-type]
    one, two = registry.publish(first), registry.publish(second)
    told = kept.snapshot()
    kept.keep(1)
    registry.retain([two])
    kept.snapshot()  # the controller dies before it is written down
    assert sorted(kept.restore(told)) == sorted((one, two))
    assert np.array_equal(kept.restore(told)[one], first)
    kept.keep(2)
    assert registry.resumes_at == 2
    assert [file.name for file in (tmp_path / MODELS).iterdir()] == [two]
    with pytest.raises(RunError, match=one):
        kept.restore(told)
    (tmp_path / MODELS / two).rename(
        tmp_path / MODELS / (bare := hashlib.sha256(registry.blobs[two]).hexdigest())
    )
    registry.retain([])
    assert np.array_equal(kept.restore({**told, "models": [bare]})[bare], second)
    assert registry.get(bare)  # as its orders name it, which were made by an earlier version
    (tmp_path / MODELS / two).write_bytes(b"half")
    with pytest.raises(RunError, match="not the checkpoint's model: its content is another"):
        kept.restore({**told, "models": [two]})


class Registry(ModelRegistry):
    """Of a GrpcFleet, what keeping asks for."""

    resumes_at = 0

    @property
    def published(self) -> Mapping[str, bytes]:
        return self.blobs

    def checkpointed(self, step: int) -> None:
        self.resumes_at = step


def test_in_a_folder_of_runs_those_go_on_that_nobody_stopped_by_hand(tmp_path: Path) -> None:
    for name in ("died", "booted", "by_hand", "finished", "held", "too_early", "failed"):
        died(tmp_path / name, closed=name != "too_early")
    ends = {
        "booted": (RunState.INTERRUPTED, "stopped by SIGTERM"),
        "by_hand": (RunState.INTERRUPTED, BY_THE_USER),
        "finished": (RunState.FINISHED, ""),
        "failed": (RunState.FAILED, "FleetError: the fleet is gone"),
    }
    for name, (state, reason) in ends.items():
        with RunFolder.open(tmp_path / name, write=True) as folder:
            folder.update(state=state, reason=reason)
    (tmp_path / "notes").mkdir()
    with RunFolder.open(tmp_path / "held", write=True):
        assert ended_by_others(tmp_path) == [tmp_path / "booted", tmp_path / "died"]
    with pytest.raises(RunError, match="nowhere: no such folder; expected a run, or a folder of runs"):
        ended_by_others(tmp_path / "nowhere")


@pytest.mark.usefixtures("workers_of_one_server")
def test_what_cannot_go_on_at_boot_stops_no_other_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    died(tmp_path / "a-bench", fleet="bench")
    died(tmp_path / "b-edited")
    edit_settings(tmp_path / "b-edited")
    with pytest.raises(SystemExit) as end:
        main(["resume", str(tmp_path)])
    assert end.value.code == 1
    bench, edited = capsys.readouterr().err.splitlines()
    assert "a-bench/bench.json: does not tell which file" in bench
    assert "b-edited: cannot be resumed" in edited


def test_a_folder_without_such_runs_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["resume", str(tmp_path)])
    assert not end.value.code
    assert capsys.readouterr().out == f"look at {tmp_path}\n{tmp_path}: no run to go on with\n"


def test_the_printed_unit_names_this_python_and_folder_as_systemd_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["resume", 'my "runs" 100%', "--unit"])
    lines = capsys.readouterr().out.splitlines()
    assert f"WorkingDirectory={tmp_path}" in lines
    command = f"ExecStart={sys.executable} -m roambench.cli.main resume "
    assert f'{command}"{tmp_path}/my \\"runs\\" 100%%"' in lines
