"""Every order is carried out once, whatever the agent lived through in between."""

import asyncio
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_ports import Records, reporter
from fixed_dial import FixedDial
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.resume_point import ResumePoint
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.settings import ChaosSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import Answer, GivenOrder, TrainReply
from roambench.contract.session import AgentWord, KeptAnswer, SessionEvent
from roambench.wire.frames import agent_frame, given_order
from roambench.wire.v1 import control_pb2 as wire

REPLY = TrainReply(60, 8, 1.25, 2.5, "ab" * 32, cpu_s=0.5, device_s=6.0, downloaded_bytes=1000)


QueueMaker = Callable[[list[AgentWord]], OrderQueue]


@pytest.fixture
def make_queue(tmp_path: Path) -> Iterator[QueueMaker]:
    """A new life of the same agent with every call, its frames put into the list given."""
    ours, theirs = socket.socketpair()
    clock = DeviceClock()
    with ours, theirs:
        yield lambda answers: OrderQueue(
            Workplace(
                timeline=PhaseTimeline("pi-01", "boot", clock, tmp_path, Records()),
                worker=Worker(ours),
                clock=clock,
                folder=tmp_path,
                reporter=reporter(emit=answers.append, clock=clock),
                load=BoardLoad(),
                dial=FixedDial(),
            ),
            ModelCache(tmp_path / "model-cache"),
            ChaosSettings(),
        )


def order(order_id: str) -> GivenOrder:
    return given_order(
        wire.Order(
            order_id=order_id, step=3, train=wire.TrainOrder(ap=1, training=wire.LocalTraining(epochs=1))
        )
    )


def test_a_repeated_order_is_answered_from_disk_by_the_next_life_of_the_agent(make_queue: QueueMaker) -> None:
    first = wire.Answer(order_id="run/3/0/train", status=wire.Answer.FAILED, reason="no memory")
    make_queue([]).model_cache.remember("run/3/0/train", first.SerializeToString())
    told: list[AgentWord] = []
    make_queue(told).submit(order("run/3/0/train"))
    assert told == [KeptAnswer(first.SerializeToString())]
    assert agent_frame(told[0]).answer == first


def test_a_training_in_the_cache_is_not_done_again_though_its_answer_was_never_noted(
    make_queue: QueueMaker,
) -> None:
    """SIGKILL between the two: the model is kept first, so that no answer promises what is not there."""
    before = make_queue([])
    draft = before.model_cache.draft("run/3/0/train")
    draft.write_bytes(b"a trained model")
    before.model_cache.keep("run/3/0/train", REPLY, draft)
    told: list[AgentWord] = []
    after = make_queue(told)
    after.submit(order("run/3/0/train"))
    (answer,) = told
    frame = agent_frame(answer)
    assert frame.answer.status == wire.Answer.DONE
    assert (frame.answer.order_id, frame.answer.train.samples) == ("run/3/0/train", 60)
    assert frame.answer.train.model_digest == bytes.fromhex("ab" * 32)
    assert frame.answer.train.device_s == 6.0
    after.submit(order("run/4/0/train"))  # another order is carried out: queued, no answer yet
    assert len(told) == 1


@pytest.mark.asyncio
async def test_an_order_is_answered_though_nothing_can_be_kept_for_a_resumed_run_or_another_life(
    make_queue: QueueMaker, tmp_path: Path
) -> None:
    """Inodes, room and open files come to an end alike: with an OSError of the call that needs one."""
    told = list[AgentWord]()
    queue = make_queue(told)
    point = tmp_path / "resume-point"
    point.touch()  # no folder can be made there
    queue.point = ResumePoint(point, {"model-cache": queue.model_cache})
    shutil.rmtree(tmp_path / "model-cache")  # no file can be made there
    running = asyncio.create_task(queue.run())
    for step in (3, 4):
        queue.submit(given_order(wire.Order(order_id=f"run/{step}", step=step, resumes_at=step)))
    async with asyncio.timeout(20.0):
        while len(answers := [word for word in told if isinstance(word, Answer)]) < 2:
            await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [agent_frame(word).answer.order_id for word in answers] == ["run/3", "run/4"]
    lacks = [word.detail for word in told if isinstance(word, SessionEvent)]
    assert len([one for one in lacks if one.startswith("keeping what a resumed run would need: ")]) == 2
    assert len([one for one in lacks if one.startswith("keeping an answer: ")]) == 2
    assert all(str(tmp_path) in one for one in lacks)
