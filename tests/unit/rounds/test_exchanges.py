"""Every model between two devices has a line of its own, however the exchange ended."""

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Answer, AnswerStatus, ExchangeOrder, ExchangeReply, LeftOut
from roambench.rounds.exchanges import PeerTransfer, peer_transfers
from roambench.rounds.peer_plan import settle_exchange
from roambench.rounds.records import MixingPlanned, ModelsExchanged, OrderAnswered
from roambench.rounds.settle import answer_record

#: 0, 1 and 2 meet each other; 3 is alone.
PLAN = MixingPlanned(4, (3, 3, 3, 1), (0, 1, 2, 0, 1, 2, 0, 1, 2, 3), (0.25,) * 9 + (1.0,), None, None)


def order(device: int) -> ExchangeOrder:
    others = tuple(n for n in (0, 1, 2) if n != device)
    return ExchangeOrder(f"run/4/{device}/exchange", device, 4, others, (0.25, 0.25), 0.5, LocalTraining())


def records(
    device: int, reply: ExchangeReply | None, reason: str = ""
) -> list[ModelsExchanged | OrderAnswered]:
    """What the loop writes of the answer."""
    status = AnswerStatus.LOST if reply is None else AnswerStatus.DONE
    answer = Answer(order(device).order_id, device, 4, status, reason, reply)
    told, _ = settle_exchange(order(device), answer)
    return [answer_record(answer), *([] if told is None else [told])]


def reply(**fields: object) -> ExchangeReply:
    return ExchangeReply(60, 1, 1.0, 1.0, "ab" * 32, **fields)  # type: ignore[arg-type]


def test_a_device_that_died_is_told_by_those_who_lived() -> None:
    """2 died: 0 had 300 of its 1,000 bytes and sent it all; 1 sent it 400 and got nothing."""
    log = [
        PLAN,
        *records(
            0,
            reply(
                left_out=(LeftOut(2, "lost: connection reset", 300),),
                sent_bytes=2000,
                received_bytes=1300,
            ),
        ),
        *records(
            1,
            reply(
                left_out=(LeftOut(2, "late: not there within 5.0 s", 0),),
                not_taken=(LeftOut(2, "not taken in time", 400),),
                sent_bytes=1400,
                received_bytes=1000,
            ),
        ),
        *records(2, None, "the agent died while training"),
    ]
    died = "lost: the agent died while training"
    assert list(peer_transfers(log)) == [
        PeerTransfer(4, 1, 0, 1000, "done"),
        PeerTransfer(4, 2, 0, 300, "lost", "connection reset"),
        PeerTransfer(4, 0, 1, 1000, "done"),
        PeerTransfer(4, 2, 1, 0, "late", "not there within 5.0 s"),
        PeerTransfer(4, 0, 2, 1000, "lost", died),
        PeerTransfer(4, 1, 2, 400, "lost", died),
    ]


def test_what_came_adds_up_to_what_devices_tell() -> None:
    told = {
        0: reply(sent_bytes=2000, received_bytes=2000),
        1: reply(left_out=(LeftOut(2, "garbage: NaN", 1000),), sent_bytes=2000, received_bytes=2000),
        2: reply(sent_bytes=2000, received_bytes=2000),
    }
    log = [PLAN, *(record for device in told for record in records(device, told[device]))]
    transfers = list(peer_transfers(log))
    assert len(transfers) == 6
    for device, answer in told.items():
        came = [item for item in transfers if item.receiver == device]
        assert sum(item.transferred_bytes for item in came) == answer.received_bytes
    assert [(item.sender, item.receiver) for item in transfers if item.status != "done"] == [(2, 1)]


def test_two_who_both_died_moved_nothing_that_anybody_knows_of() -> None:
    log = [PLAN, *records(0, reply()), *records(1, None, "no session"), *records(2, None, "no session")]
    between = [item for item in peer_transfers(log) if {item.sender, item.receiver} == {1, 2}]
    assert [(item.transferred_bytes, item.status, item.reason) for item in between] == [
        (0, "lost", "lost: no session"),
        (0, "lost", "lost: no session"),
    ]


def test_what_came_in_vain_over_a_broken_link_makes_no_model_larger() -> None:
    """1 sent 400 of its 1,000 bytes twice. A size that is more than what came is not believed."""
    told = {
        0: reply(sent_bytes=2000, received_bytes=2400, model_bytes=1000),
        1: reply(sent_bytes=2400, received_bytes=2000, model_bytes=10**9),
        2: reply(sent_bytes=2000, received_bytes=2000),
    }
    log = [PLAN, *(record for device in told for record in records(device, told[device]))]
    assert {item.transferred_bytes for item in peer_transfers(log)} == {1000}
