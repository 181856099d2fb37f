"""A bench of three living agents: two runs in succession, one of them killed in the middle and back again.

The agents are processes of their own that no run starts or stops; what happened is read from the run
folders and from their control sockets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from safetensors import safe_open

from living_agents import LivingBench
from roambench.agent.settings import AgentSettings, ChaosSettings
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import RecordKind
from roambench.energy.readings.timeline import partition_check
from roambench.rounds.records import OrderAnswered, StepClosed
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

# Slow: `make test-hosts` runs experiments on benches; this story has more turns.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

NAMES = ("board-a", "board-b", "board-c")
EXPERIMENT = """
name = "first"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 4
trace.parameters = { presence = "always", devices = 4, steps = 8, places = 200, aps = 20 }
fleet = { agents = 3, aps = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { cloud_every_steps = 2, rest_s = 0.0 }
energy = { idle_baseline_s = 3.0, quiet = false }
"""
#: Other data, another model, no keepalive: what a living agent must take from its next controller.
SECOND = (
    'name="second"',
    'learning.model="mohawk_cnn"',
    "learning.images_per_device=60",
    "learning.local_epochs=2",
    "energy.quiet=true",
)


@dataclass
class Story:
    """What was done to the bench, and what its agents said of themselves after each run."""

    bench: LivingBench
    first: RunFolder
    second: RunFolder
    virtual: RunFolder
    text: str
    statuses: list[dict[str, dict]] = field(default_factory=list)
    killed_ns: int = 0
    back_ns: int = 0


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Iterator[LivingBench]:
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES, gain=0.5)
    path = living.folder / "board-b" / "settings.json"
    slow = replace(AgentSettings.load(path), chaos=ChaosSettings(fixed_delay_s=0.6))
    path.write_text(slow.to_json())  # so that it can be killed between its training and its answer
    living.start()
    yield living
    living.stop()


@pytest.fixture(scope="module")
def story(launch, bench) -> Story:
    file = bench.folder / "experiment.toml"
    file.write_text(EXPERIMENT)
    words = ("--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven")
    first = launch(file=file, name="first", words=words).finish(300)
    statuses = [_settled(bench)]
    second = launch(f"--fleet=bench:{bench.file}", *SECOND, file=file, name="second")
    second.wait_for_event(EventKind.TRAIN_FINISHED, "board-b", "%/00001/00001/train", 150)
    bench.kill("board-b")
    killed_ns = time.monotonic_ns()
    time.sleep(2.0)  # systemd's RestartSec
    bench.start_agent("board-b")
    back_ns = time.monotonic_ns()
    second.finish(300)
    statuses.append(_settled(bench))
    virtual = launch("--fleet=simulated", file=file, name="first").finish(300)
    return Story(
        bench,
        RunFolder.open(first.folder()),
        RunFolder.open(second.folder()),
        RunFolder.open(virtual.folder()),
        first.text(),
        statuses,
        killed_ns,
        back_ns,
    )


def _settled(bench: LivingBench) -> dict[str, dict]:
    """The agents' statuses once they dial again."""
    deadline_s = time.monotonic() + 120
    while True:
        found = {name: bench.status(name) for name in NAMES}
        if all(status.get("session") == "dialling" for status in found.values()):
            return found
        assert time.monotonic() < deadline_s, [(found[name], bench.log(name)) for name in NAMES]


def digest(folder: RunFolder) -> str:
    with safe_open(folder.path / "models" / "global.safetensors", framework="np") as file:
        return file.metadata()["digest"]


class TestTwoRunsInSuccession:
    def test_both_end_in_good_order_on_the_same_living_processes(self, story):
        for run in (story.first, story.second):
            assert run.info.state is RunState.FINISHED
            assert run.info.fleet == "bench"
            assert run.info.device_names == NAMES
            assert [r.step for r in run.read_log() if isinstance(r, StepClosed)] == [0, 1, 2, 3]
        for name in ("board-a", "board-c"):
            assert story.statuses[0][name]["pid"] == story.statuses[1][name]["pid"]
        assert story.first.info.run_id != story.second.info.run_id

    def test_a_bench_learns_the_same_model_as_virtual_devices(self, story):
        assert digest(story.first) == digest(story.virtual)

    def test_readings_of_the_living_boards_are_complete_from_first_baseline_to_last(self, story):
        for run in (story.first, story.second):
            for name in NAMES:
                if run is story.second and name == "board-b":
                    continue
                ns = run.records.readings(name).ns
                inside = ns[(ns >= run.info.start_device_ns) & (ns <= run.info.end_device_ns)]
                assert inside[0] - run.info.start_device_ns < 1.6e9
                assert run.info.end_device_ns - inside[-1] < 1.6e9
                assert np.diff(inside).max() < 1.8e9

    def test_a_run_gets_no_record_from_before_it(self, story):
        """The agents read their meters between the runs, too; that is no run's business."""
        ended_ns = story.first.info.end_device_ns
        for name in NAMES:
            assert story.second.records.readings(name).ns[0] > ended_ns + 1e9
            starts = [e for e in story.second.records.events(name) if e.kind == EventKind.METER_DESCRIBED]
            assert starts, "a run that begins later must know the meter all the same"

    def test_every_run_has_its_own_phases_without_a_hole(self, story):
        for run in (story.first, story.second):
            energy = account(run)
            for device in energy.devices:
                assert partition_check(device.spans, energy.start_ns, energy.end_ns) == []
                lost = sum(s.end_ns - s.start_ns for s in device.spans if s.phase is Phase.LOST)
                if device.device != "board-b" or run is story.first:
                    assert lost < 0.1e9

    def test_the_bench_files_calibration_corrects_the_ledger(self, story):
        """true = 0.5 x reading: half the joules of a meter that nobody calibrated."""
        energy = account(story.first)
        assert all(device.meter.calibration.gain == 2.0 for device in energy.devices)
        seconds = (energy.end_ns - energy.start_ns) * 1e-9
        watts = energy.whole_run.joules / energy.whole_run.coverage / seconds / len(NAMES)
        assert 0.5 * 1.8 < watts < 0.5 * 2.6

    def test_what_was_waived_stands_in_run_and_report(self, story):
        assert any("--no-preflight" in doubt for doubt in story.first.info.doubts)
        assert any("--unproven" in doubt for doubt in story.first.info.doubts)
        assert "--unproven" in " ".join(story.text.split())

    def test_the_agents_are_between_runs_again_and_owe_nothing(self, story):
        for statuses in story.statuses:
            for status in statuses.values():
                assert status["run"] == ""
                assert status["phase"] == ""
                assert status["unsent_runs"] == {}
                assert status["spool"]["controller"]["dropped"] == 0

    def test_a_shard_that_both_runs_share_travels_once(self, story):
        folders = [sorted((story.bench.folder / name / "state" / "shards").iterdir()) for name in NAMES]
        assert [len(files) for files in folders] == [2, 2, 2]  # the runs differ in their data
        assert len({path.name for files in folders for path in files}) == 6


class TestAnAgentKilledInMidRun:
    def test_it_comes_back_into_its_run_with_the_model_it_had_trained(self, story):
        (answer,) = [
            r
            for r in story.second.read_log()
            if isinstance(r, OrderAnswered) and r.order_id.endswith("/00001/00001/train")
        ]
        assert answer.status == "done"  # by the life before, answered from disk
        assert "in run second-mohawk" in story.bench.log("board-b")

    def test_only_the_time_it_was_dead_is_missing(self, story):
        ns = story.second.records.readings("board-b").ns
        run = story.second.info
        ns = ns[(ns >= run.start_device_ns) & (ns <= run.end_device_ns)]
        gaps = np.diff(ns)
        assert np.sum(gaps > 1.8e9) == 1
        before = ns[int(np.argmax(gaps))]
        assert before > story.killed_ns - 1.6e9
        (lost,) = [
            span
            for device in account(story.second).devices
            if device.device == "board-b"
            for span in device.spans
            if span.phase is Phase.LOST
        ]
        assert lost.start_ns > story.killed_ns - 1.6e9
        assert lost.end_ns > story.back_ns
        assert (lost.end_ns - lost.start_ns) * 1e-9 < 30

    def test_no_record_is_there_twice(self, story):
        counts = story.second.records.counts("board-b")
        assert counts[RecordKind.READING] == len(np.unique(story.second.records.readings("board-b").ns))


@pytest.fixture(scope="module")
def after(launch, bench, story):
    """What `kill -9` of `roambench run` in mid-training left, and the next run on the same agents."""
    file = bench.folder / "experiment.toml"
    fleet = f"--fleet=bench:{bench.file}"
    long = ("learning.local_epochs=400", "energy.quiet=false")  # a quiet one is silent until it has trained
    dead = launch(fleet, 'name="dead"', *SECOND[1:], *long, file=file, name="dead")
    dead.wait_for_event(EventKind.TRAIN_STARTED, "board-a", "%/00000/00000/train", 150)
    dead.process.kill()
    dead.process.wait()
    run_id = RunFolder.open(dead.folder()).info.run_id
    left = {name: bench.status(name) for name in NAMES}
    short = ('name="next"', "trace.steps=2", "energy.idle_baseline_s=1.0")
    following = launch(fleet, *short, file=file, name="next").finish(300)
    return run_id, left, RunFolder.open(following.folder()), _settled(bench)


class TestAControllerThatDies:
    """kill -9 of `roambench run` in mid-training, and the next run on the same agents."""

    def test_its_agents_stay_in_the_run_and_dial_on(self, after):
        run_id, left, _, _ = after
        assert {status["run"] for status in left.values()} == {run_id}

    def test_the_next_run_takes_them_over_and_ends(self, after, story):
        _, _, following, statuses = after
        assert following.info.state is RunState.FINISHED
        for name in ("board-a", "board-c"):
            assert statuses[name]["pid"] == story.statuses[0][name]["pid"]

    def test_the_dead_runs_records_wait_for_whoever_fetches_them(self, after, bench):
        run_id, _, following, statuses = after
        for name in NAMES:
            assert list(statuses[name]["unsent_runs"]) == [run_id]
            *records, end = bench.ctl(name, "spool-export", run_id)
            assert end == {"end": len(records), "malformed": 0, "device": name}
            assert {record["run"] for record in records} == {run_id}
            uuid, seqs = records[0]["spool_uuid"], [record["seq"] for record in records]
            assert seqs == list(range(seqs[0], seqs[-1] + 1))
            # The next run has none of them.
            rows = following.records.records_beyond(name, uuid, 0, 1)
            assert rows[0][0] > seqs[-1]
        assert bench.ctl("board-a", "spool-forget", run_id) == [{"forgotten": True}]
        assert bench.status("board-a")["unsent_runs"] == {}


class TestWhatAnAgentCanBeAsked:
    def test_a_smoke_test_takes_a_step_of_sgd(self, bench, story):
        (answer,) = bench.ctl("board-a", "smoke")
        assert answer["ok"] is True
        assert 0.5 < answer["loss"] < 1.0  # two classes: ln 2, about

    def test_a_burning_board_draws_more_and_then_as_before(self, bench, story):
        """The emulated board draws what the agent says it computes: 4 cores are 2 W and more."""
        last = bench.status("board-c")["meter"]["last"]
        idle = last["watts"]
        (answer,) = bench.ctl("board-c", "burn", "4", "4")
        assert answer["cores"] == 4
        (found,) = bench.ctl("board-c", "readings", "30")
        ns, watts = np.array(found["ns"]), np.array(found["watts"])
        burning = (ns > answer["began_ns"] + 1.2e9) & (ns < answer["ended_ns"])
        assert watts[burning].min() > idle + 1.5
        before = (ns >= last["monotonic_ns"]) & (ns < answer["began_ns"])  # not the run that ended before
        assert watts[before].max() < idle + 0.5

    def test_a_square_wave_of_load_is_seen_as_it_was_told(self, bench, story):
        (answer,) = bench.ctl("board-c", "burn", "12", "4", "6")
        edges = answer["edges_ns"]
        assert np.allclose(np.diff(edges), 3e9, atol=0.3e9)
        assert len(edges) == 4
        (found,) = bench.ctl("board-c", "readings", "30")
        ns, watts = np.array(found["ns"]), np.array(found["watts"])
        mean_w = [watts[(ns > begun + 1e9) & (ns < begun + 2.9e9)].mean() for begun in edges]
        assert min(mean_w[0], mean_w[2]) > max(mean_w[1], mean_w[3]) + 1.0
        volts_amps = np.array(found["volts"]) * np.array(found["amps"])
        assert np.allclose(volts_amps, watts, rtol=0.05)

    @pytest.mark.parametrize(
        "words",
        [
            ("burn",),
            ("burn", "-1"),
            ("burn", "nan"),
            ("burn", "1", "1000"),
            ("burn", "9", "1", "0.1"),
            ("fly",),
        ],
    )
    def test_what_cannot_be_asked_is_an_error_and_the_agent_lives(self, bench, story, words):
        (answer,) = bench.ctl("board-a", *words)
        assert "error" in answer
        assert bench.status("board-a")["pid"] == story.statuses[0]["board-a"]["pid"]

    def test_sigterm_ends_it_in_good_order(self, bench, story):
        assert bench.end("board-a") == 0
        assert not bench.socket("board-a").exists()


def account(folder: RunFolder):
    from roambench.runs.measured.accounts import account_run

    energy = account_run(folder, list(folder.read_log()))
    assert energy is not None
    assert not math.isnan(energy.whole_run.joules)
    return energy
