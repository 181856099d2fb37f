"""Which of an agent's words share a frame."""

import asyncio

import pytest

from roambench.contract.events import EventKind
from roambench.wire.outgoing_frames import OutgoingFrames
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio

ANSWER = wire.AgentFrame(answer=wire.Answer(order_id="o"))
FOR_EVER_S = 3600.0


def event(kind: EventKind, detail: str = "") -> wire.AgentFrame:
    return wire.AgentFrame(events=[wire.SessionEvent(kind=kind, detail=detail)])


def words(frame: wire.AgentFrame) -> list[str | None]:
    return [event.kind for event in frame.events] + [frame.WhichOneof("frame")]


async def test_events_that_may_wait_go_with_what_follows_and_others_at_once() -> None:
    outgoing = OutgoingFrames(wait_s=FOR_EVER_S)
    sent: asyncio.Queue[wire.AgentFrame] = asyncio.Queue()

    async def send() -> None:
        async for frame in outgoing.frames():
            sent.put_nowait(frame)

    sending = asyncio.create_task(send())
    async with asyncio.timeout(30):
        outgoing.put(event(EventKind.DOWNLOAD_STARTED))
        while not outgoing._queue.empty():
            await asyncio.sleep(0)
        outgoing.put(event(EventKind.TRAIN_STARTED))
        assert words(await sent.get()) == [EventKind.DOWNLOAD_STARTED, EventKind.TRAIN_STARTED, None]
        for frame in (event(EventKind.TRAIN_FINISHED), ANSWER, event(EventKind.TRAINER_READY)):
            outgoing.put(frame)
        assert words(await sent.get()) == [EventKind.TRAIN_FINISHED, "answer"]
        assert words(await sent.get()) == [EventKind.TRAINER_READY, None]
        outgoing.put(event(EventKind.UPLOAD_STARTED))
        outgoing.put(None)
        assert words(await sent.get()) == [EventKind.UPLOAD_STARTED, None]
        await sending
    assert wire.AgentFrame(answer=wire.Answer(order_id="o")) == ANSWER  # what was put is left as it was


@pytest.mark.parametrize("wait_s", [0.0, 0.05])
async def test_an_event_that_nothing_follows_is_sent_all_the_same(wait_s: float) -> None:
    outgoing = OutgoingFrames(wait_s)
    outgoing.put(event(EventKind.DOWNLOAD_STARTED))
    async with asyncio.timeout(30):
        assert words(await anext(outgoing.frames())) == [EventKind.DOWNLOAD_STARTED, None]


async def test_a_frame_has_so_many_events_in_their_order_and_no_more() -> None:
    outgoing = OutgoingFrames(FOR_EVER_S)
    for number in range(80):
        outgoing.put(event(EventKind.AGENT_LACKS, str(number)))
    outgoing.put(None)
    frames = [frame async for frame in outgoing.frames()]
    assert [len(frame.events) for frame in frames] == [32, 32, 16]
    assert [one.detail for frame in frames for one in frame.events] == [str(number) for number in range(80)]
