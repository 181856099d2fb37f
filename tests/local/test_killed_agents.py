"""SIGKILL at the worst moments, four times in one run; the run goes on and nothing is made up.

step 1  pi-01's reader, just after its "train started"
step 2  pi-02's trainer, just after its "train started"
step 3  pi-03's reader, just after its "train finished" (before its answer, which is held back)
step 4  pi-04's reader, just after its "upload started" (the model half sent)
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import psutil
import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.orders import order_id
from roambench.contract.phases import ACTIVE_PHASES, Outcome, Phase, PhaseSpan
from roambench.emulation.truth import energy_j
from roambench.energy.readings.timeline import partition_check
from roambench.rounds.records import EdgeAggregated, FleetEvent, OrderAnswered, OutcomeDecided, StepClosed
from roambench.runs.measured.accounts import DeviceEnergy

# Alone: a machine that others use makes holes of its own in the readings. Ten runs beside others had none,
# but one that has is no fault of the code.
pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]

DEADLINE_S = 120.0  # device time
TIME_SCALE = 4.0


@dataclass(frozen=True)
class Strike:
    """The moments of device time between which one SIGKILL came."""

    from_ns: int
    to_ns: int


class Disaster:
    """The run, the strikes it suffered, and its account."""

    def __init__(self, run, until) -> None:
        self.run = run
        self.until = until
        self.strikes: dict[str, Strike] = {}

    def order(self, step: int, name: str, kind: str) -> str:
        return order_id("small-mohawk", step, int(name[-2:]) - 1, kind)

    def strike(self, name: str, moment: str, order: str, victim: str) -> None:
        """Kill `victim` of agent `name` as soon as the journal holds its event `moment` of `order`."""
        processes = self.run.agent(name)
        hellos = self.run.count(EventKind.SESSION_OPENED, name)
        killed: psutil.Process = getattr(processes, victim)
        clock = self.clock()
        if victim == "trainer":
            killed.suspend()  # else it may have finished before anybody here sees that it began
        self.run.wait_for_event(moment, name, order)
        from_ns = clock.now_ns()
        killed.kill()
        to_ns = clock.now_ns()
        if victim == "reader":
            self.until(
                lambda: self.run.count(EventKind.SESSION_OPENED, name) > hellos, 90, f"hello of {name}"
            )
        self.strikes[name] = Strike(from_ns, to_ns)

    def clock(self) -> DeviceClock:
        agents = json.loads((self.run.folder() / "agents.json").read_text())["agents"]
        return DeviceClock(agents[0]["epoch_ns"], agents[0]["time_scale"])

    def answer(self, order: str) -> OrderAnswered:
        (found,) = [r for r in self.run.of(OrderAnswered) if r.order_id == order]
        return found

    def outcome(self, order: str) -> OutcomeDecided:
        (found,) = [r for r in self.run.of(OutcomeDecided) if r.train_order_id == order]
        return found


@pytest.fixture(scope="module")
def disaster(launch) -> Disaster:
    run = launch(
        'learning.model="mohawk_cnn"',
        "learning.images_per_device=100",
        "learning.local_epochs=3",  # 0.3 CPU-seconds, so that a trainer is caught in the act
        f"fleet.deadline_s={DEADLINE_S}",
        "local.upload_mbit_s=10",  # 2.6 MB take 2.1 s, half a host second
        "local.cpu_slowdown=10",
        late=(0.5, 0.0),
    )
    found = Disaster(run, launch.until)
    run.wait_for_event(EventKind.TRAIN_STARTED, "pi-01", found.order(0, "pi-01", "train"))
    found.strike("pi-01", EventKind.TRAIN_STARTED, found.order(1, "pi-01", "train"), "reader")
    # Its trainer is stopped beforehand: it must not be in the training before.
    run.wait_for_event(EventKind.TRAIN_FINISHED, "pi-02", found.order(1, "pi-02", "train"))
    found.strike("pi-02", EventKind.TRAIN_STARTED, found.order(2, "pi-02", "train"), "trainer")
    found.strike("pi-03", EventKind.TRAIN_FINISHED, found.order(3, "pi-03", "train"), "reader")
    found.strike("pi-04", EventKind.UPLOAD_STARTED, found.order(4, "pi-04", "upload"), "reader")
    run.finish()
    return found


@pytest.fixture(scope="module")
def devices(disaster) -> dict[str, DeviceEnergy]:
    return {device.device: device for device in disaster.run.energy().devices}


def hole(device: DeviceEnergy) -> PhaseSpan:
    (span,) = [span for span in device.spans if span.phase is Phase.LOST]
    return span


def test_the_run_goes_on_to_the_end(disaster):
    closed = disaster.run.of(StepClosed)
    assert [record.step for record in closed] == [0, 1, 2, 3, 4, 5]
    # No step had to wait for a deadline: a killed agent is known to be lost when it is back.
    assert max(record.wall_s for record in closed) < DEADLINE_S / TIME_SCALE
    work = [r for r in disaster.run.of(OrderAnswered) if r.order_id.endswith(("train", "upload"))]
    assert len(work) == 4 * 5 + 4 * 5 - 2  # two trainings had no model to upload
    assert sorted(answer.status for answer in work if answer.status != "done") == ["failed", "lost"]


def test_an_agent_killed_in_training_is_lost_and_its_training_failed(disaster):
    order = disaster.order(1, "pi-01", "train")
    assert disaster.answer(order).status == "lost"
    assert disaster.answer(order).reason == "the agent died while training"
    assert disaster.outcome(order).outcome is Outcome.FAILED
    lost = disaster.run.events(EventKind.SESSION_LOST, "pi-01")
    assert [event.step for event in lost] == [1]
    # It is well again in the very next step.
    assert disaster.answer(disaster.order(2, "pi-01", "train")).status == "done"
    assert disaster.answer(disaster.order(3, "pi-01", "upload")).status == "done"


def test_a_killed_agent_says_hello_again(disaster):
    for name in ("pi-01", "pi-03", "pi-04"):
        assert len(disaster.run.events(EventKind.SESSION_OPENED, name)) == 2
    assert f"pi-01: agent ended with status {-9}" in disaster.run.text()


def test_a_trainer_killed_in_training_is_a_failure_that_names_the_signal(disaster):
    order = disaster.order(2, "pi-02", "train")
    assert disaster.answer(order).status == "failed"
    assert "SIGKILL" in disaster.answer(order).reason
    assert disaster.outcome(order).outcome is Outcome.FAILED
    # Its reader lived on, and the fork server had a new trainer for the next order.
    assert len(disaster.run.events(EventKind.SESSION_OPENED, "pi-02")) == 1
    assert disaster.answer(disaster.order(3, "pi-02", "train")).status == "done"


def test_a_dead_trainer_takes_no_reading_with_it(devices):
    device = devices["pi-02"]
    assert device.whole_run.gap_s == 0.0
    assert Phase.LOST not in [span.phase for span in device.spans]
    (train,) = [span for span in device.spans if span.phase is Phase.TRAIN and span.step == 2]
    whole_s = [s.duration_s for s in device.spans if s.phase is Phase.TRAIN and s.step != 2]
    assert train.duration_s < min(whole_s)  # cut short


@pytest.mark.parametrize(("name", "step"), [("pi-03", 3), ("pi-04", 3)])
def test_a_model_trained_before_the_kill_arrives_when_the_agent_is_back(disaster, name, step):
    """pi-03 died before it could answer, pi-04 in the middle of its upload."""
    trained = disaster.answer(disaster.order(step, name, "train"))
    uploaded = disaster.answer(disaster.order(step + 1, name, "upload"))
    assert (trained.status, uploaded.status) == ("done", "done")
    assert uploaded.transferred_bytes > 659_242 * 4
    assert disaster.outcome(disaster.order(step, name, "train")).outcome is Outcome.AGGREGATED
    (merged,) = [
        r for r in disaster.run.of(EdgeAggregated) if disaster.order(step, name, "train") in r.train_order_ids
    ]
    assert merged.step == step + 1


def test_the_finished_training_was_not_done_twice(disaster, devices):
    order = disaster.order(3, "pi-03", "train")
    started = [e for e in devices["pi-03"].events if e.kind == EventKind.TRAIN_STARTED and e.detail == order]
    assert len(started) == 1


@pytest.mark.parametrize("name", ["pi-01", "pi-03", "pi-04"])
def test_the_hole_of_a_killed_agent_is_lost_and_unmeasured_while_its_meter_runs_on(disaster, devices, name):
    device, strike = devices[name], disaster.strikes[name]
    span = hole(device)
    # From its last sign of life (a meter line at most a second before) to its restart, a second later.
    assert strike.from_ns - 1.5e9 < span.start_ns < strike.to_ns + 0.3e9
    assert TIME_SCALE * 1.0 < span.duration_s < TIME_SCALE * 10.0
    (row,) = [row for row in device.rows if row.phase is Phase.LOST]
    assert row.covered_s < 0.3  # a line stands for the 0.26 s before it
    # The last line before came up to a second before its death, the next one up to a second after.
    assert span.duration_s - 0.3 < device.whole_run.gap_s < span.duration_s + 4.0
    run_s = device.whole_run.covered_s + device.whole_run.gap_s
    assert device.whole_run.coverage < 1.0 - (span.duration_s - 0.3) / run_s
    truth = disaster.run.folder() / "truth" / f"{name}.csv"
    # The board kept drawing at least its idle power, and the emulator knows it without a gap.
    assert energy_j(truth, span.start_ns, span.end_ns) > 1.89 * span.duration_s
    measured = device.whole_run.joules
    assert device.truth.whole_j == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("name", ["pi-01", "pi-03", "pi-04"])
def test_readings_from_before_the_kill_are_in_the_run_folder(disaster, devices, name):
    device, strike = devices[name], disaster.strikes[name]
    ns = device.readings.ns
    before, after = ns[ns < strike.to_ns], ns[ns > strike.to_ns]
    # One a second, up to the last before the strike; the first after it waits for the restart.
    assert strike.from_ns - before[-1] < 1.3e9
    assert len(before) == pytest.approx((before[-1] - before[0]) * 1e-9 + 1, abs=1.5)
    assert after[0] >= hole(device).end_ns
    assert after[0] - hole(device).end_ns < 3e9


@pytest.mark.parametrize("name", ["pi-01", "pi-03", "pi-04"])
def test_an_agent_that_is_back_begins_no_order_before_its_meter_delivers(devices, name):
    """pi-04's upload waits for it."""
    device = devices[name]
    back_ns, ns = hole(device).end_ns, device.readings.ns
    starts_ns = [span.start_ns for span in device.spans if span.phase in ACTIVE_PHASES]
    assert ns[ns > back_ns][0] < min(start_ns for start_ns in starts_ns if start_ns > back_ns)


def test_the_phases_still_partition_the_run(disaster, devices):
    energy = disaster.run.energy()
    for device in energy.devices:
        assert partition_check(device.spans, energy.start_ns, energy.end_ns) == []
        covered_s = math.fsum(row.covered_s for row in device.rows)
        assert covered_s == pytest.approx(device.whole_run.covered_s, abs=1e-6)


def test_the_report_of_the_fleet_names_who_was_lost(disaster):
    lost = {e.name for e in disaster.run.of(FleetEvent) if e.kind == EventKind.SESSION_LOST}
    assert lost == {"pi-01", "pi-03", "pi-04"}
