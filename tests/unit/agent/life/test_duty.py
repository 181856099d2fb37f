"""Blocks of less and more of an agent: on a fixed grid, told of, and everything runs again afterwards."""

import asyncio
import time

import pytest

from agent_ports import Voice, reporter
from roambench.agent.life.duty import Duty, duty_from
from roambench.agent.session.quiet import Quiet
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.session import DutySchedule, SessionEvent
from roambench.wire.frames import controller_word
from roambench.wire.v1 import control_pb2 as wire

A, B, C = DutyLevel


class Notebook:
    def __init__(self, clock: DeviceClock, slow_s: float = 0.0) -> None:
        self.entered: list[DutyLevel] = []
        self.noted: list[str] = []
        self.stamps_ns: list[int] = []
        self._slow_s = slow_s
        self.duty = Duty(clock, self, self)
        self._clock = clock

    async def live_at(self, level: DutyLevel) -> None:
        self.entered.append(level)
        await asyncio.sleep(self._slow_s)

    def note(self, kind: str, detail: str) -> None:
        assert kind == EventKind.DUTY_BEGAN
        self.noted.append(detail)
        self.stamps_ns.append(self._clock.now_ns())


@pytest.mark.asyncio
async def test_blocks_follow_a_grid_of_device_time_and_end_with_everything_running() -> None:
    """Entering takes a third of a block each time; were they added up, the sixth would begin 2 s late."""
    clock = DeviceClock(time.monotonic_ns(), 10.0)
    book = Notebook(clock, slow_s=0.033)
    start_ns = clock.now_ns()
    await book.duty.carry_out((A, B, C, C, B, A), 1.0)
    assert book.entered == [A, B, C, C, B, A, C]
    assert book.noted == ["reader", "agent", "streaming", "streaming", "agent", "reader", "over"]
    late_s = [(ns - start_ns) * 1e-9 - k for k, ns in enumerate(book.stamps_ns)]
    assert min(late_s) >= 0.0
    assert min(late_s[4:]) < late_s[0] + 1.0  # one block may be late; the grid makes it up


@pytest.mark.asyncio
async def test_a_duty_that_is_cancelled_leaves_everything_running() -> None:
    book = Notebook(DeviceClock())
    task = asyncio.create_task(book.duty.carry_out((A, B), 3600.0))
    while not book.noted:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert book.entered == [A, C]
    assert book.noted == ["reader"]


@pytest.mark.parametrize(
    ("levels", "block_s"),
    [
        ([], 10.0),
        (["reader"] * 1001, 10.0),
        (["everything"], 10.0),
        (["reader"], 0.0),
        (["reader"], -1.0),
        (["reader"], float("nan")),
        (["reader"], float("inf")),
        (["reader"], 3601.0),
    ],
)
def test_a_duty_that_makes_no_sense_is_refused(levels, block_s) -> None:
    with pytest.raises(ValueError):
        duty_from(DutySchedule(tuple(levels), block_s))


@pytest.mark.asyncio
async def test_a_resting_agent_keeps_its_frames_and_its_gate_shut_whatever_the_experiment_wants() -> None:
    sent: list[SessionEvent] = []
    quiet = Quiet(False, Voice(sent.append), reporter(pytest.fail))
    frame = SessionEvent(EventKind.METER_OK, 0)
    await quiet.rest(True)
    quiet.follow(Phase.IDLE)
    await quiet.set_quiet(False)  # a new session's welcome
    quiet.emit(frame)
    assert (quiet.gate.is_open, sent) == (False, [])
    await quiet.rest(False)
    assert (quiet.gate.is_open, sent) == (True, [frame])


def test_a_duty_comes_through_the_wire() -> None:
    frame = wire.ControllerFrame(duty=wire.DutySchedule(levels=["reader", "agent"], block_s=12.5))
    schedule = controller_word(wire.ControllerFrame.FromString(frame.SerializeToString()))
    assert duty_from(schedule) == ((A, B), 12.5)
