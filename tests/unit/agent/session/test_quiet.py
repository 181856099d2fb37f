"""When an agent may speak."""

import asyncio
import contextlib

import pytest

from agent_ports import reporter
from roambench.agent.session import quiet as quiet_module
from roambench.agent.session.quiet import Quiet
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.session import SessionEvent
from roambench.spool import gate as gate_module


def frame(kind: str) -> SessionEvent:
    return SessionEvent(kind, 0)


class Line:
    """What reached the controller, by kind."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.disturbed: list[str] = []

    def say(self, sent: SessionEvent) -> None:
        self.heard.append(sent.kind)

    def note(self, kind: EventKind, detail: str) -> None:
        assert kind is EventKind.NOT_QUIET
        self.disturbed.append(detail)


@pytest.mark.asyncio
async def test_what_is_said_in_a_measured_phase_waits_for_its_end_in_order() -> None:
    line = Line()
    quiet = Quiet(True, line, line)
    quiet.emit(frame("before"))
    await quiet.before_phase()
    for phase in (Phase.DOWNLOAD, Phase.TRAIN):
        quiet.follow(phase)
        quiet.emit(frame(phase.value))
        assert not quiet.gate.is_open
    assert line.heard == ["before"]
    quiet.follow(Phase.WAIT)
    assert quiet.gate.is_open
    assert line.heard == ["before", "download", "train"]
    quiet.emit(frame("after"))
    assert line.heard[-1] == "after"


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.ABSENT, Phase.WAIT, Phase.LOST])
async def test_other_phases_are_not_quiet_unless_the_controller_measures_a_baseline(phase: Phase) -> None:
    line = Line()
    quiet = Quiet(True, line, line)
    quiet.follow(phase)
    assert quiet.gate.is_open
    await quiet.set_quiet(True)
    quiet.follow(phase)
    quiet.emit(frame("held"))
    assert (quiet.gate.is_open, line.heard) == (False, [])
    await quiet.set_quiet(False)
    assert (quiet.gate.is_open, line.heard) == (True, ["held"])


@pytest.mark.asyncio
async def test_the_end_of_a_baseline_does_not_end_a_measured_phase() -> None:
    quiet = Quiet(True, Line(), reporter(pytest.fail))
    await quiet.set_quiet(True)
    await quiet.before_phase()
    quiet.follow(Phase.UPLOAD)
    await quiet.set_quiet(False)
    assert not quiet.gate.is_open
    quiet.follow(Phase.WAIT)
    assert quiet.gate.is_open


@pytest.mark.asyncio
async def test_a_phase_begins_only_when_nothing_is_on_its_way() -> None:
    quiet = Quiet(True, Line(), reporter(pytest.fail))
    arrived = asyncio.Event()

    async def send() -> None:
        async with quiet.gate.passing():
            await arrived.wait()

    sending = asyncio.create_task(send())
    await asyncio.sleep(0)
    beginning = asyncio.create_task(quiet.before_phase())
    await asyncio.sleep(0.02)
    assert not beginning.done()
    arrived.set()
    await beginning
    await sending


@pytest.mark.asyncio
async def test_without_quiet_everything_passes_at_once() -> None:
    line = Line()
    quiet = Quiet(False, line, reporter(pytest.fail))
    await quiet.before_phase()
    await quiet.set_quiet(True)
    quiet.follow(Phase.TRAIN)
    quiet.emit(frame("said"))
    assert (quiet.gate.is_open, line.heard) == (True, ["said"])


@pytest.mark.asyncio
async def test_a_batch_that_is_on_its_way_for_too_long_is_broken_off_before_the_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quiet_module, "PATIENCE_S", 0.01)
    quiet = Quiet(True, Line(), reporter(pytest.fail))
    begun = asyncio.Event()

    async def send() -> None:
        async with quiet.gate.passing():
            begun.set()
            await asyncio.Event().wait()

    sending = asyncio.create_task(send())
    await begun.wait()
    await quiet.before_phase()
    with pytest.raises(TimeoutError):
        await sending
    quiet.follow(Phase.WAIT)
    async with quiet.gate.passing():  # and the next one passes
        pass


@pytest.mark.asyncio
async def test_a_phase_that_begins_with_a_batch_that_cannot_be_broken_off_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quiet_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(gate_module, "_END_S", 0.01)
    line = Line()
    quiet = Quiet(True, line, line)
    begun, arrived = asyncio.Event(), asyncio.Event()

    async def send() -> None:
        async with quiet.gate.passing():
            begun.set()
            while not arrived.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await arrived.wait()

    sending = asyncio.create_task(send())
    await begun.wait()
    await quiet.before_phase()
    assert line.disturbed == [
        "records were still on their way after 0.01 s: the phase that begins carries them"
    ]
    arrived.set()
    await asyncio.gather(sending, return_exceptions=True)
    quiet.follow(Phase.WAIT)
    await quiet.before_phase()
    assert len(line.disturbed) == 1
