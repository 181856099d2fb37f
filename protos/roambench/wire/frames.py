"""Words of the contract as messages of the wire, and back.

A word and its message have one name, and fields of the same names (`wire.fields`). Only orders and answers
differ: an order's message holds what every order has and, inside, what its kind alone has; an exchange's
neighbours travel with their weights and addresses; an answer's status travels by its name.
"""

from __future__ import annotations

from typing import Any, Final

from roambench.contract.orders import (
    Answer,
    ExchangeOrder,
    GivenOrder,
    Order,
    Peer,
    Reply,
    TransferOrder,
    UnknownOrder,
)
from roambench.contract.session import AgentWord, ControllerWord, Hello, KeptAnswer, Refusal
from roambench.wire.fields import OneOf, message_of, word_of
from roambench.wire.v1 import control_pb2 as wire

_ORDERS: Final = OneOf(wire.Order, Order | TransferOrder)
_REPLIES: Final = OneOf(wire.Answer, Reply)
_TO_AGENTS: Final = OneOf(wire.ControllerFrame, ControllerWord | Refusal)
_TO_CONTROLLERS: Final = OneOf(wire.AgentFrame, AgentWord)


def controller_frame(word: ControllerWord | Refusal) -> wire.ControllerFrame:
    """A controller's word as a frame; `controller_word` is the inverse."""
    if isinstance(word, GivenOrder):
        return wire.ControllerFrame(order=_order_message(word))
    return wire.ControllerFrame(**_TO_AGENTS.holding(word))


def _order_message(given: GivenOrder) -> wire.Order:
    order = given.order
    kind: dict[str, Any] = {}
    if isinstance(order, ExchangeOrder):
        neighbours = [
            message_of(peer, wire.ExchangeOrder.Neighbour, device=device, weight=weight)
            for device, peer, weight in zip(order.neighbours, given.peers, order.weights, strict=True)
        ]
        kind = _ORDERS.holding(order, neighbours=neighbours)
    elif not isinstance(order, UnknownOrder):
        kind = _ORDERS.holding(order)
    return message_of(
        given, wire.Order, order_id=order.order_id, device=order.device, step=order.step, **kind
    )


def controller_word(frame: wire.ControllerFrame) -> ControllerWord | None:
    """The word in a controller's frame; None for a frame of an unknown kind. A refusal ends its session."""
    name = frame.WhichOneof("frame")
    if name == "order":
        return given_order(frame.order)
    if name is None or name == "refusal":
        return None
    word: ControllerWord = word_of(_TO_AGENTS.kinds[name], getattr(frame, name))
    return word


def given_order(message: wire.Order) -> GivenOrder:
    """An order as its device gets it, unchecked."""
    about: dict[str, Any] = {
        "order_id": message.order_id,
        "device": message.device,
        "step": message.step,
    }
    name = message.WhichOneof("kind")
    if name is None:
        return word_of(GivenOrder, message, order=UnknownOrder(**about), peers=())
    inside = getattr(message, name)
    neighbours = inside.neighbours if name == "exchange" else ()
    if name == "exchange":
        about["neighbours"] = tuple(neighbour.device for neighbour in neighbours)
        about["weights"] = tuple(neighbour.weight for neighbour in neighbours)
    order = word_of(_ORDERS.kinds[name], inside, **about)
    return word_of(GivenOrder, message, order=order, peers=tuple(word_of(Peer, near) for near in neighbours))


def hello_message(hello: Hello) -> wire.Hello:
    """The first frame of a session; `hello_of` is the inverse."""
    return message_of(hello, wire.Hello)


def hello_of(message: wire.Hello) -> Hello:
    """A hello as it came; nothing in it is checked."""
    return word_of(Hello, message)


def agent_frame(word: AgentWord) -> wire.AgentFrame:
    """An agent's word as a frame."""
    match word:
        case KeptAnswer():
            return wire.AgentFrame(answer=wire.Answer.FromString(word.serialised))
        case Answer():
            return wire.AgentFrame(answer=_answer_message(word))
        case _:
            return wire.AgentFrame(**_TO_CONTROLLERS.holding(word))


def serialised(answer: Answer) -> bytes:
    """An answer of a device as it is written down and sent."""
    return _answer_message(answer).SerializeToString()


def _answer_message(answer: Answer) -> wire.Answer:
    """A device answers DONE, REFUSED, FAILED or TIMEOUT."""
    reply = {} if answer.reply is None else _REPLIES.holding(answer.reply)
    return message_of(answer, wire.Answer, status=answer.status.name, **reply)
