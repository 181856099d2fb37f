"""Orders, answers and words of a session as messages: the fields of both, and the bytes."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest

from roambench.contract.events import EventKind
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import (
    ExchangeOrder,
    ExchangeReply,
    GivenOrder,
    IdleOrder,
    LeftOut,
    Order,
    Peer,
    ProgramOrder,
    Reply,
    SyncReply,
    TrainOrder,
    TrainReply,
    TransferOrder,
    UnknownOrder,
    UploadReply,
)
from roambench.contract.session import (
    AgentWord,
    ClockEcho,
    ControllerWord,
    DutySchedule,
    Hello,
    ModelReply,
    ModelRequest,
    ModelUpload,
    Refusal,
    SessionEvent,
    Silence,
)
from roambench.wire.frames import agent_frame, controller_frame, controller_word, hello_message, hello_of
from roambench.wire.v1 import control_pb2 as wire

DIGEST = "ab" * 32
TRAINING = LocalTraining(0, 2**64 - 1, 0, "", "")
WIRE_TRAINING = wire.LocalTraining(seed=2**64 - 1)
ABOUT = {"order_id": "run/1/2/x", "device": 2, "step": 1}
FROM_CONTROLLER = {
    "train": (
        GivenOrder(TrainOrder("run/1/2/x", 2, 1, 3, DIGEST, TRAINING, 8.5), 60.0, 4, in_session=True),
        wire.ControllerFrame(
            order=wire.Order(
                **ABOUT,
                deadline_s=60.0,
                resumes_at=4,
                in_session=True,
                train=wire.TrainOrder(
                    ap=3, start_digest=b"\xab" * 32, training=WIRE_TRAINING, download_mbit_s=8.5
                ),
            )
        ),
    ),
    "exchange": (
        GivenOrder(
            ExchangeOrder("run/1/2/x", 2, 1, (1, 5), (0.25, -0.5), 1.25, TRAINING, deadline_s=9.0),
            60.0,
            peers=(Peer("pi-01", "10.0.0.1:7"), Peer("pi-05", "")),
        ),
        wire.ControllerFrame(
            order=wire.Order(
                **ABOUT,
                deadline_s=60.0,
                exchange=wire.ExchangeOrder(
                    neighbours=[
                        wire.ExchangeOrder.Neighbour(
                            device=1, name="pi-01", address="10.0.0.1:7", weight=0.25
                        ),
                        wire.ExchangeOrder.Neighbour(device=5, name="pi-05", weight=-0.5),
                    ],
                    own_weight=1.25,
                    training=WIRE_TRAINING,
                    deadline_s=9.0,
                ),
            )
        ),
    ),
    "program": (
        GivenOrder(ProgramOrder("run/1/2/x", 2, 1, 3, DIGEST, True, 8.5, 7.0), 60.0),
        wire.ControllerFrame(
            order=wire.Order(
                **ABOUT,
                deadline_s=60.0,
                program=wire.ProgramOrder(
                    ap=3, digest=b"\xab" * 32, evaluates=True, download_mbit_s=8.5, limit_s=7.0
                ),
            )
        ),
    ),
    "an order without fields of its own": (
        GivenOrder(IdleOrder("run/1/2/x", 2, 1, False), 0.0),
        wire.ControllerFrame(order=wire.Order(**ABOUT, idle=wire.IdleOrder(present=False))),
    ),
    "an order of no kind": (
        GivenOrder(UnknownOrder("run/1/2/x", 2, 1), 0.0),
        wire.ControllerFrame(order=wire.Order(**ABOUT)),
    ),
    "a model": (
        ModelReply("run/1/2/x", DIGEST, "cd" * 32, b"blob"),
        wire.ControllerFrame(
            model_reply=wire.ModelReply(
                order_id="run/1/2/x", digest=b"\xab" * 32, sent_digest=b"\xcd" * 32, blob=b"blob"
            )
        ),
    ),
    "silence": (Silence(False), wire.ControllerFrame(quiet=wire.Silence(on=False))),
    "duty": (
        DutySchedule(("reader", "agent"), 2.5),
        wire.ControllerFrame(duty=wire.DutySchedule(levels=["reader", "agent"], block_s=2.5)),
    ),
}
GIVEN = GivenOrder(UnknownOrder("run/1/2/x", 2, 1), 60.0)
FROM_AGENT = {
    "training": (
        GIVEN.done(TrainReply(5, 6, 1.5, 2.5, DIGEST, late_s=-0.0)),
        wire.Answer(
            status=wire.Answer.DONE,
            train=wire.TrainReply(
                samples=5,
                sgd_steps=6,
                mean_loss=1.5,
                mean_squared_loss=2.5,
                model_digest=b"\xab" * 32,
                late_s=-0.0,
            ),
        ),
    ),
    "a sync without divergence": (
        GIVEN.done(SyncReply()),
        wire.Answer(status=wire.Answer.DONE, sync=wire.SyncReply()),
    ),
    "a sync with divergence 0": (
        GIVEN.done(SyncReply(divergence=0.0)),
        wire.Answer(status=wire.Answer.DONE, sync=wire.SyncReply(divergence=0.0)),
    ),
    "exchange": (
        GIVEN.done(ExchangeReply(5, 6, 1.5, 2.5, "", left_out=(LeftOut(1, "late", 9),))),
        wire.Answer(
            status=wire.Answer.DONE,
            exchange=wire.ExchangeReply(
                samples=5,
                sgd_steps=6,
                mean_loss=1.5,
                mean_squared_loss=2.5,
                left_out=[wire.ExchangeReply.LeftOut(device=1, reason="late", moved_bytes=9)],
            ),
        ),
    ),
    "refused": (GIVEN.refused("no"), wire.Answer(status=wire.Answer.REFUSED, reason="no")),
}


@pytest.mark.parametrize("name", FROM_CONTROLLER)
def test_a_controller_s_word_has_the_bytes_of_its_message_and_comes_back(name: str) -> None:
    word, message = FROM_CONTROLLER[name]
    sent = controller_frame(word).SerializeToString()
    assert sent == message.SerializeToString()
    assert controller_word(wire.ControllerFrame.FromString(sent)) == word


@pytest.mark.parametrize("name", FROM_AGENT)
def test_an_answer_has_the_bytes_of_its_message(name: str) -> None:
    answer, message = FROM_AGENT[name]
    message.order_id = "run/1/2/x"
    assert agent_frame(answer).SerializeToString() == wire.AgentFrame(answer=message).SerializeToString()


def test_an_event_and_a_hello_have_the_bytes_of_their_messages() -> None:
    event = SessionEvent(EventKind.TRAIN_STARTED, -1, "o", "d")
    message = wire.SessionEvent(order_id="o", kind=str(EventKind.TRAIN_STARTED), at_ns=-1, detail="d")
    assert agent_frame(event).SerializeToString() == wire.AgentFrame(event=message).SerializeToString()
    hello = Hello(1, "pi-01", "m", "b", "v", ("a", "b"), "u", ("o",), 7, 8, 9, "10.0.0.1:7", "x")
    assert hello_of(wire.Hello.FromString(hello_message(hello).SerializeToString())) == hello


def test_a_frame_of_an_unknown_kind_is_no_word_and_a_refusal_ends_its_session() -> None:
    assert controller_word(wire.ControllerFrame.FromString(b"\xa2\x1f\x01x")) is None
    assert controller_word(controller_frame(Refusal("no", True))) is None


def words() -> list[type]:
    unions = (Order | TransferOrder, Reply, ControllerWord | Refusal)
    kinds = [kind for union in unions for kind in get_args(union) if kind not in (GivenOrder, UploadReply)]
    return [*kinds, Hello, LocalTraining, SessionEvent, ClockEcho, ModelRequest, ModelUpload]


@pytest.mark.parametrize("kind", words(), ids=lambda kind: kind.__name__)
def test_a_message_and_its_dataclass_have_the_same_fields(kind: type) -> None:
    """But for what every order has, and the weights that travel with an exchange's neighbours."""
    message = getattr(wire, kind.__name__).DESCRIPTOR
    about = {"order_id", "device", "step"} if kind in get_args(Order | TransferOrder) else set()
    about |= {"weights"} if kind is ExchangeOrder else set()
    assert {field.name for field in fields(kind)} - about == {field.name for field in message.fields}


def test_every_kind_of_word_has_a_message_that_holds_it() -> None:
    for frame, union in ((wire.ControllerFrame, ControllerWord | Refusal), (wire.AgentFrame, AgentWord)):
        held = {field.message_type.name for field in frame.DESCRIPTOR.fields}
        kinds = {kind.__name__ for kind in get_args(union)} - {"GivenOrder", "KeptAnswer"}
        assert kinds <= held
