"""A replay by the clock on real agents: a window from an offset on, twice, in trace time, held and let go."""

from __future__ import annotations

import time

import pytest

from forked_commands import roambench
from roambench.contract.phases import ACTIVE_PHASES
from roambench.mobility.association import hash_of_steps
from roambench.rounds.records import ReplayPaused, ReplayResumed, StepClosed, StepOpened
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

pytestmark = pytest.mark.timeout(600)

STEP_NS = 4_000_000_000  # of device time: an hour of the trace, 900 times faster
BASELINE_NS = 2_000_000_000
HELD_S = 1.5  # of this machine's time, 4 times as much of device time


def command(launch, word, driven, *more, ready):
    launch.until(ready.exists, 60.0, f"{ready}")
    done = roambench(word, str(driven.folder()), *more, cwd=driven.runs_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run(launch):
    driven = launch(
        "fleet.agents=2",
        "trace.offset=1",
        "trace.steps=3",
        "trace.repeat=2",
        "rounds.step_close=trace:900",
        "local.cpu_slowdown=2",
    )
    command(launch, "pause", driven, ready=driven.folder() / "run.json")  # while its agents still start
    launch.until(lambda: driven.of(ReplayPaused), 60.0, "a pause")
    opened = len(driven.of(StepOpened))
    time.sleep(HELD_S)
    assert len(driven.of(StepOpened)) == opened < 6
    assert driven.process.poll() is None
    command(launch, "resume-replay", driven, ready=driven.folder())
    return driven.finish()


def test_a_held_run_goes_on_where_it_stopped_and_ends_as_planned(run):
    steps = run.of(StepOpened)
    assert [record.step for record in steps] == list(range(6))
    played = [(record.devices, record.aps) for record in steps]
    assert played[:3] == played[3:]  # the window, and the same again
    with RunFolder.open(run.folder()) as folder:
        assert folder.info.state is RunState.FINISHED
        assert folder.info.assignment_hash == hash_of_steps(played)
    assert len(run.of(StepClosed)) == 6
    assert "paused after step" in run.text()


def test_no_board_works_while_the_replay_is_held_and_every_later_step_is_due_as_much_later(run):
    (paused,), (resumed,) = run.of(ReplayPaused), run.of(ReplayResumed)
    assert (resumed.step, resumed.clock) == (paused.step, "device")
    held_ns = resumed.to_ns - resumed.from_ns
    assert held_ns >= 4 * HELD_S * 1e9
    with RunFolder.open(run.folder()) as folder:
        first_ns = folder.info.start_device_ns + BASELINE_NS  # no step begins sooner
        spans = [span for name in folder.info.device_names for span in folder.records.spans(name)]
    active = [span for span in spans if span.phase in ACTIVE_PHASES]
    assert {span.step for span in active} == set(range(6))
    for span in active:
        assert span.end_ns <= resumed.from_ns or span.start_ns >= resumed.to_ns
        later_ns = held_ns if span.step > paused.step else 0
        assert span.start_ns >= first_ns + span.step * STEP_NS + later_ns


def test_the_report_says_that_the_joules_hold_a_pause(run, launch):
    printed = command(launch, "report", run, "--full", ready=run.folder())
    assert "the replay was paused once, for " in " ".join(printed.split())
