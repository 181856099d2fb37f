"""Words of the contract as messages of the wire, and back: one function each way."""

from __future__ import annotations

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    ExchangeReply,
    GivenOrder,
    IdleOrder,
    LeftOut,
    Order,
    Peer,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    TransferOrder,
    TransferReply,
    UnknownOrder,
    UploadOrder,
    UploadReply,
    UploadReport,
)
from roambench.contract.session import (
    AgentWord,
    ClockEcho,
    ClockProbe,
    ControllerWord,
    DutySchedule,
    Hello,
    KeptAnswer,
    Refusal,
    SessionEvent,
    Silence,
    Stop,
    Welcome,
)
from roambench.wire.v1 import control_pb2 as wire

_STATUS = {
    AnswerStatus.DONE: wire.Answer.DONE,
    AnswerStatus.REFUSED: wire.Answer.REFUSED,
    AnswerStatus.FAILED: wire.Answer.FAILED,
}


# ---- controller to agent ---------------------------------------------------------------------


def controller_frame(word: ControllerWord | Refusal) -> wire.ControllerFrame:
    """A controller's word as a frame; `controller_word` is the inverse."""
    match word:
        case GivenOrder():
            return wire.ControllerFrame(order=_order_message(word))
        case ClockProbe():
            return wire.ControllerFrame(clock_probe=wire.ClockProbe(probe=word.probe))
        case Welcome():
            welcome = wire.Welcome(
                run_id=word.run_id,
                data_address=word.data_address,
                learning_json=word.learning_json,
                exchanges=word.exchanges,
                revoked_serials=word.revoked_serials,
                resumes_at=word.resumes_at,
                part=word.part,
                quiet=word.quiet,
                rest_s=word.rest_s,
                host_period_s=word.host_period_s,
                host_during_phases=word.host_during_phases,
            )
            return wire.ControllerFrame(welcome=welcome)
        case Stop():
            stop = wire.Stop(reason=word.reason, drain_s=word.drain_s, resumes_at=word.resumes_at)
            return wire.ControllerFrame(stop=stop)
        case Silence():
            return wire.ControllerFrame(quiet=wire.Quiet(on=word.on))
        case DutySchedule():
            return wire.ControllerFrame(duty=wire.Duty(levels=word.levels, block_s=word.block_s))
        case Refusal():
            return wire.ControllerFrame(refusal=wire.Refusal(reason=word.reason, final=word.final))


def _order_message(given: GivenOrder) -> wire.Order:
    order = given.order
    message = wire.Order(
        order_id=order.order_id,
        step=order.step,
        device=order.device,
        deadline_s=given.deadline_s,
        resumes_at=given.resumes_at,
    )
    match order:
        case TrainOrder():
            message.train.CopyFrom(
                wire.TrainOrder(
                    ap=order.ap,
                    start_digest=bytes.fromhex(order.start_digest),
                    training=_training_message(order.training),
                    download_mbit_s=order.download_mbit_s,
                    previous_digest=bytes.fromhex(order.previous_digest),
                )
            )
        case UploadOrder():
            message.upload.CopyFrom(
                wire.UploadOrder(
                    ap=order.ap,
                    train_order_id=order.train_order_id,
                    upload_mbit_s=order.upload_mbit_s,
                    keeps_model=order.keeps_model,
                    free=order.free,
                )
            )
        case ExchangeOrder():
            message.exchange.CopyFrom(_exchange_message(order, given.peers))
        case DiscardOrder():
            message.discard.CopyFrom(
                wire.DiscardOrder(
                    train_order_id=order.train_order_id, reason=order.reason, keeps_model=order.keeps_model
                )
            )
        case SyncOrder():
            message.sync.CopyFrom(
                wire.SyncOrder(
                    ap=order.ap,
                    digest=bytes.fromhex(order.digest),
                    download_mbit_s=order.download_mbit_s,
                    free=order.free,
                )
            )
        case TransferOrder():
            message.transfer.CopyFrom(
                wire.TransferOrder(
                    upload=order.direction == "up",
                    total_bytes=order.total_bytes,
                    mbit_s=order.mbit_s,
                    repeats=order.repeats,
                )
            )
        case IdleOrder():
            message.idle.CopyFrom(wire.IdleOrder(present=order.present))
        case UnknownOrder():
            pass  # nobody gives one
    return message


def controller_word(frame: wire.ControllerFrame) -> ControllerWord | None:
    """The word in a controller's frame; None for a frame of an unknown kind. A refusal is its session's."""
    match frame.WhichOneof("frame"):
        case "order":
            return given_order(frame.order)
        case "welcome":
            welcome = frame.welcome
            return Welcome(
                run_id=welcome.run_id,
                data_address=welcome.data_address,
                learning_json=welcome.learning_json,
                exchanges=welcome.exchanges,
                revoked_serials=tuple(welcome.revoked_serials),
                resumes_at=welcome.resumes_at,
                part=welcome.part,
                quiet=welcome.quiet,
                rest_s=welcome.rest_s,
                host_period_s=welcome.host_period_s,
                host_during_phases=welcome.host_during_phases,
            )
        case "clock_probe":
            return ClockProbe(frame.clock_probe.probe)
        case "stop":
            return Stop(frame.stop.reason, frame.stop.drain_s, frame.stop.resumes_at)
        case "quiet":
            return Silence(frame.quiet.on)
        case "duty":
            return DutySchedule(tuple(frame.duty.levels), frame.duty.block_s)
        case _:
            return None


def given_order(message: wire.Order) -> GivenOrder:
    """An order as its device carries it out; what cannot be right about it says who carries it out."""
    peers = tuple(Peer(near.name, near.address) for near in message.exchange.neighbours)
    return GivenOrder(_order(message), message.deadline_s, message.resumes_at, peers)


def _order(message: wire.Order) -> Order | TransferOrder | UnknownOrder:
    order_id, device, step = message.order_id, message.device, message.step
    match message.WhichOneof("kind"):
        case "train":
            train = message.train
            return TrainOrder(
                order_id,
                device,
                step,
                train.ap,
                train.start_digest.hex(),
                _training(train.training),
                train.download_mbit_s,
                train.previous_digest.hex(),
            )
        case "upload":
            up = message.upload
            return UploadOrder(
                order_id, device, step, up.ap, up.train_order_id, up.upload_mbit_s, up.keeps_model, up.free
            )
        case "exchange":
            exchange = message.exchange
            return ExchangeOrder(
                order_id,
                device,
                step,
                tuple(near.device for near in exchange.neighbours),
                tuple(near.weight for near in exchange.neighbours),
                exchange.own_weight,
                _training(exchange.training),
                exchange.start_digest.hex(),
                exchange.download_mbit_s,
                exchange.exchange_mbit_s,
                exchange.deadline_s,
            )
        case "discard":
            discard = message.discard
            return DiscardOrder(
                order_id, device, step, discard.train_order_id, discard.reason, discard.keeps_model
            )
        case "sync":
            sync = message.sync
            return SyncOrder(
                order_id, device, step, sync.ap, sync.digest.hex(), sync.download_mbit_s, sync.free
            )
        case "transfer":
            transfer = message.transfer
            return TransferOrder(
                order_id,
                device,
                step,
                "up" if transfer.upload else "down",
                transfer.total_bytes,
                transfer.mbit_s,
                transfer.repeats,
            )
        case "idle":
            return IdleOrder(order_id, device, step, message.idle.present)
        case _:
            return UnknownOrder(order_id, device, step)


def _exchange_message(order: ExchangeOrder, peers: tuple[Peer, ...]) -> wire.ExchangeOrder:
    """With everything that its device needs to find its neighbours and to know them."""
    return wire.ExchangeOrder(
        neighbours=[
            wire.ExchangeOrder.Neighbour(device=device, name=peer.name, address=peer.address, weight=weight)
            for device, peer, weight in zip(order.neighbours, peers, order.weights, strict=True)
        ],
        own_weight=order.own_weight,
        training=_training_message(order.training),
        start_digest=bytes.fromhex(order.start_digest),
        download_mbit_s=order.download_mbit_s,
        exchange_mbit_s=order.exchange_mbit_s,
        deadline_s=order.deadline_s,
    )


def _training_message(training: LocalTraining) -> wire.LocalTraining:
    return wire.LocalTraining(
        epochs=training.epochs,
        seed=training.seed,
        steps=training.steps,
        objective=training.objective,
        start_rule=training.start_rule,
    )


def _training(message: wire.LocalTraining) -> LocalTraining:
    """Whoever trains says what cannot be right about it."""
    return LocalTraining(message.epochs, message.seed, message.steps, message.objective, message.start_rule)


# ---- agent to controller ---------------------------------------------------------------------


def hello_message(hello: Hello) -> wire.Hello:
    """The first frame of a session; `hello_of` is the inverse."""
    return wire.Hello(
        protocol_version=hello.protocol_version,
        device=hello.device,
        machine_id=hello.machine_id,
        boot_id=hello.boot_id,
        agent_version=hello.agent_version,
        build=hello.build,
        capabilities=hello.capabilities,
        spool_uuid=hello.spool_uuid,
        trained_order_ids=hello.trained_order_ids,
        rss_bytes=hello.rss_bytes,
        trainer_rss_bytes=hello.trainer_rss_bytes,
        started_monotonic_ns=hello.started_ns,
        peer_address=hello.peer_address,
    )


def hello_of(message: wire.Hello) -> Hello:
    """A hello as it came; nothing in it is checked."""
    return Hello(
        protocol_version=message.protocol_version,
        device=message.device,
        machine_id=message.machine_id,
        boot_id=message.boot_id,
        agent_version=message.agent_version,
        build=message.build,
        capabilities=tuple(message.capabilities),
        spool_uuid=message.spool_uuid,
        trained_order_ids=tuple(message.trained_order_ids),
        rss_bytes=message.rss_bytes,
        trainer_rss_bytes=message.trainer_rss_bytes,
        started_ns=message.started_monotonic_ns,
        peer_address=message.peer_address,
    )


def agent_frame(word: AgentWord) -> wire.AgentFrame:
    """An agent's word as a frame."""
    match word:
        case SessionEvent():
            event = wire.Event(
                order_id=word.order_id, kind=word.kind, monotonic_ns=word.at_ns, detail=word.detail
            )
            return wire.AgentFrame(event=event)
        case ClockEcho():
            echo = wire.ClockEcho(
                probe=word.probe, received_monotonic_ns=word.received_ns, sent_monotonic_ns=word.sent_ns
            )
            return wire.AgentFrame(clock_echo=echo)
        case KeptAnswer():
            return wire.AgentFrame(answer=wire.Answer.FromString(word.serialised))
        case Answer():
            return wire.AgentFrame(answer=_answer_message(word))


def serialised(answer: Answer) -> bytes:
    """An answer of a device as it is written down and sent."""
    return _answer_message(answer).SerializeToString()


def _answer_message(answer: Answer) -> wire.Answer:
    """A device answers DONE, REFUSED or FAILED."""
    message = wire.Answer(order_id=answer.order_id, status=_STATUS[answer.status], reason=answer.reason)
    match answer.reply:
        case TrainReply() as reply:
            message.train.CopyFrom(
                wire.TrainReport(
                    samples=reply.samples,
                    sgd_steps=reply.sgd_steps,
                    mean_loss=reply.mean_loss,
                    mean_squared_loss=reply.mean_squared_loss,
                    cpu_s=reply.cpu_s,
                    device_s=reply.device_s,
                    late_s=reply.late_s,
                    model_digest=bytes.fromhex(reply.model_digest),
                    downloaded_bytes=reply.downloaded_bytes,
                    download_s=reply.download_s,
                )
            )
        case UploadReport() | UploadReply() as reply:
            message.upload.CopyFrom(
                wire.UploadReport(
                    uploaded_bytes=reply.uploaded_bytes,
                    upload_s=reply.upload_s,
                    model_digest=bytes.fromhex(reply.model_digest),
                )
            )
        case SyncReply() as reply:
            message.sync.CopyFrom(
                wire.SyncReport(
                    downloaded_bytes=reply.downloaded_bytes,
                    download_s=reply.download_s,
                    divergence=reply.divergence,
                )
            )
        case TransferReply() as reply:
            message.transfer.CopyFrom(
                wire.TransferReport(
                    transfers=reply.transfers,
                    transferred_bytes=reply.transferred_bytes,
                    transfer_s=reply.transfer_s,
                )
            )
        case ExchangeReply() as reply:
            message.exchange.CopyFrom(_exchange_report(reply))
        case None:
            pass
    return message


def _exchange_report(reply: ExchangeReply) -> wire.ExchangeReport:
    return wire.ExchangeReport(
        samples=reply.samples,
        sgd_steps=reply.sgd_steps,
        mean_loss=reply.mean_loss,
        mean_squared_loss=reply.mean_squared_loss,
        model_digest=bytes.fromhex(reply.model_digest),
        left_out=[_shortfall(short) for short in reply.left_out],
        not_taken=[_shortfall(short) for short in reply.not_taken],
        sent_bytes=reply.sent_bytes,
        received_bytes=reply.received_bytes,
        exchange_s=reply.exchange_s,
        cpu_s=reply.cpu_s,
        device_s=reply.device_s,
        late_s=reply.late_s,
        downloaded_bytes=reply.downloaded_bytes,
        download_s=reply.download_s,
        model_bytes=reply.model_bytes,
    )


def _shortfall(short: LeftOut) -> wire.ExchangeReport.Shortfall:
    return wire.ExchangeReport.Shortfall(
        device=short.device, reason=short.reason, moved_bytes=short.moved_bytes
    )
