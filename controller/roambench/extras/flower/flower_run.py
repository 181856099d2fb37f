"""A ServerApp's run on a fleet: each batch of messages is a step of orders, and their answers its replies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from roambench.agent.orders.program_host import REFUSAL
from roambench.agent.orders.program_process import ProgramEnded, ProgramProcess
from roambench.contract.errors import PluginError
from roambench.contract.json_values import json_or_none
from roambench.contract.metric import name_of_foreign_metric
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    Order,
    ProgramOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    order_id,
)
from roambench.contract.phases import Outcome
from roambench.contract.printable import printable
from roambench.experiment.sections import Experiment
from roambench.extras.flower.app import FlowerApp
from roambench.extras.flower.server_app import server_app
from roambench.mobility.association import Association, NearestAp
from roambench.rounds import plan, settle
from roambench.rounds.ports import Fleet, Journal
from roambench.rounds.presence import Presence
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    MetricsScored,
    OutcomeDecided,
    RoundRecord,
    RunEnded,
    StepClosed,
)
from roambench.rounds.run import Pace, RunSettings, Throughput
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds
from roambench.runner.world import Movement
from roambench.runs.folder import RunFolder
from roambench.runs.lost_metrics import LostMetrics

#: In the run folder: the ServerApp's current folder, and what it printed.
SERVER_FOLDER: Final = "server-app"
SERVER_LOG: Final = "server-app.log"
#: Flower's codes of errors, by what an order came to.
_NODE_UNAVAILABLE: Final = 5
_CODES: Final[Mapping[AnswerStatus, int]] = {
    AnswerStatus.LOST: _NODE_UNAVAILABLE,
    AnswerStatus.TIMEOUT: 4,
    AnswerStatus.FAILED: 8,
    AnswerStatus.REFUSED: 8,
    AnswerStatus.GARBAGE: 8,
}
_MOST_HEADER_BYTES: Final = 4096
#: What a message counts for beside its own bytes: it bounds how many are kept.
_MESSAGE_BYTES: Final = 4096
#: What has no more time is late; 0 would be no limit.
_LEAST_TTL_S: Final = 1e-3
_MOST_METRICS: Final = 64


@dataclass(frozen=True, slots=True)
class Header:
    """All that the controller reads of a message."""

    id: str
    node: int
    type: str
    ttl_s: float

    @property
    def evaluates(self) -> bool:
        """Return whether a device that answers it does not train, by the category that types begin with."""
        return self.type.partition(".")[0] != "train"


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the nodes that are reachable; `waited`: the app has slept since its last one."""

    waited: bool


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A summary of a batch's replies, by the app's own process."""

    failed: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # a sentence about each metric that is in no mean


@dataclass(slots=True)
class FlowerRun:
    """`SystemRun` of a Flower app. A step is a batch of messages; steps pass while the app waits."""

    experiment: Experiment
    app: FlowerApp
    movement: Movement
    run_id: str
    first_node: int
    flower_run_id: int
    throughput: Throughput  # Eq. 2, where the trace's distances mean something

    @property
    def needs(self) -> FleetNeeds:
        """Devices with a program each."""
        trace = self.movement.trace
        devices = len(trace.device_names)
        return FleetNeeds((0,) * devices, aps=len(trace.ap_names), peak_models=2 * devices, entries=0)

    def restore(self, fleet: ReadyFleet, checkpoints: Checkpoints) -> None:
        """Nothing: runs of a ServerApp are not resumed."""

    def notes(self, folder: RunFolder, *, on_agents: bool) -> Sequence[str]:
        """The places of the app's files."""
        return [
            f"what the ServerApp wrote and printed: {folder.path / SERVER_FOLDER}, {folder.path / SERVER_LOG}"
        ]

    async def perform(
        self,
        fleet: ReadyFleet,
        folder: RunFolder,
        journal: Journal,
        pace: Pace,
        checkpoints: Checkpoints | None,
    ) -> None:
        """Run the app to its end. PluginError says how it failed."""
        section = self.experiment.program
        settings = {
            "folder": str(self.app.folder),
            "serverapp": self.app.serverapp,
            "run_config": dict(self.app.run_config),
            "run_id": self.flower_run_id,
            "seed": self.experiment.seed,
        }
        places = folder.path / SERVER_FOLDER, folder.path / SERVER_LOG
        server = await server_app(section, json.dumps(settings), *places, _MOST_HEADER_BYTES)
        steps = _Steps(self, fleet, journal, pace, LostMetrics(folder))
        try:
            await self._serve(server, steps)
        except ProgramEnded as error:
            raise PluginError(f"ServerApp of {self.app.name}: {printable(str(error))}") from None
        finally:
            await server.end()
        if 0 < steps.step < self.movement.trace.steps:
            journal.append(RunEnded(steps.step - 1, "the ServerApp is done"))

    async def _serve(self, server: ProgramProcess, steps: _Steps) -> None:
        batch: list[tuple[Header, bytes]] = []
        devices, message_mib = len(self.movement.trace.device_names), self.experiment.program.message_mib
        left_bytes = most_bytes = devices * (message_mib * 2**20 + _MOST_HEADER_BYTES)
        while True:
            letter, body = await server.receive()
            match letter:
                case b"N":
                    nodes = await steps.nodes(_read(Question, body).waited)
                    await server.send(b"N", json.dumps(nodes).encode())
                case b"M":
                    left_bytes -= len(body) + _MESSAGE_BYTES
                    if left_bytes < 0:
                        raise PluginError(
                            f"ServerApp of {self.app.name}: sends more at once than a message of "
                            f"program.message_mib = {message_mib} to each of {devices} nodes"
                        )
                    header, _, message = body.partition(b"\n")
                    batch.append((_read(Header, header), message))
                case b"B":
                    for frame in await steps.carry(batch):
                        await server.send(*frame)
                    batch, left_bytes = [], most_bytes
                    await server.send(b"B", b"")
                case b"V":
                    await steps.close(_read(BatchReport, body))
                    await server.send(b"V", b"")
                case b"R":
                    return
                case _ if letter == REFUSAL:
                    raise PluginError(
                        f"ServerApp of {self.app.name}: {printable(body.decode(errors='replace'))}"
                    )
                case _:
                    raise PluginError(f"ServerApp of {self.app.name}: sent what is no frame")


def _read(kind: type[Any], body: bytes) -> Any:
    found = json_or_none(kind, body, finite=False)
    if found is None:
        raise PluginError("a ServerApp's process sent a frame that cannot be read")
    return found


@dataclass(slots=True)
class _Carried:
    """A message of the step: its order, its answer, and the bytes that came back."""

    header: Header
    order: ProgramOrder | None = None
    status: AnswerStatus = AnswerStatus.LOST
    reason: str = "the node is not reachable"
    message: bytes = b""


class _Steps:
    """Carries batches out, step by step."""

    def __init__(
        self, run: FlowerRun, fleet: ReadyFleet, journal: Journal, pace: Pace, lost_metrics: LostMetrics
    ) -> None:
        self._run, self._ready, self._journal, self._pace = run, fleet, journal, pace
        self._lost_metrics = lost_metrics
        self._fleet: Fleet = fleet.fleet
        self._association: Association = NearestAp(run.movement.trace)
        trace, experiment = run.movement.trace, run.experiment
        self._devices = len(trace.device_names)
        self._settings = RunSettings(
            run_id=run.run_id,
            seed=experiment.seed,
            steps=trace.steps,
            aps=len(trace.ap_names),
            samples=(0,) * self._devices,
            pace_links=experiment.links.link == "modelled",
            orders_to_absent=fleet.orders_to_absent,
            port_mbit_s=experiment.links.port_mbit_s,
        )
        self._here: Presence | None = None
        self._given = 0  # groups of orders in this step
        self._carried: list[_Carried] = []
        self.step = 0

    async def nodes(self, waited: bool) -> list[int]:
        """The nodes that are reachable now; where the app `waited` for others, a step has passed first."""
        if waited and self._run.experiment.program.reachable == "trace":
            here = self._open()
            await self._perform(here, [], opening=True)
            await self._close([])
        return [self._run.first_node + device for device in self._open().aps]

    def _open(self) -> Presence:
        if self._here is None:
            trace = self._run.movement.trace
            if self.step >= trace.steps:
                raise PluginError(
                    f"ServerApp of {self._run.app.name}: asks for more than the {trace.steps} steps of the "
                    "trace; trace.steps and trace.repeat make it longer"
                )
            here = Presence.of(self._association.placement(self.step))
            if self._run.experiment.program.reachable == "everybody":
                everybody = range(self._devices)
                here = replace(
                    here,
                    aps={device: here.aps.get(device, 0) for device in everybody},
                    distances_m={device: here.distances_m.get(device, 0.0) for device in everybody},
                )
            self._here = here
        return self._here

    async def carry(self, batch: Sequence[tuple[Header, bytes]]) -> list[tuple[bytes, bytes]]:
        """The frames of a batch's replies. Messages to one node are answered one after the other."""
        here = self._open()
        self._carried = [_Carried(header) for header, _ in batch]
        waiting = [
            (carried, message)
            for carried, (header, message) in zip(self._carried, batch, strict=True)
            if header.node - self._run.first_node in here.aps
        ]
        opening = True
        while waiting or opening:
            first: dict[int, tuple[_Carried, bytes]] = {}
            for carried, message in waiting:
                first.setdefault(carried.header.node, (carried, message))
            taken = [first[node] for node in sorted(first)]
            waiting = [one for one in waiting if one not in taken]
            await self._answer(here, taken, opening=opening)
            opening = False
        self._fleet.retain(())
        return [self._frame(carried) for carried in self._carried]

    async def _answer(
        self, here: Presence, taken: Sequence[tuple[_Carried, bytes]], *, opening: bool
    ) -> None:
        orders: list[ProgramOrder] = []
        for carried, message in taken:
            device, evaluates = carried.header.node - self._run.first_node, carried.header.evaluates
            kind = "evaluate" if evaluates else "train"
            carried.order = ProgramOrder(
                self._name(device, kind, opening),
                device,
                here.step,
                here.aps[device],
                self._fleet.publish(message),
                evaluates,
                plan.paced_mbit_s(self._settings, self._run.throughput, here.distances_m[device], "down"),
                max(_LEAST_TTL_S, carried.header.ttl_s),
            )
            orders.append(carried.order)
        answers = await self._perform(here, orders, opening=opening)
        uploads: list[UploadOrder] = []
        asked: dict[str, _Carried] = {}
        for carried, _ in taken:
            assert carried.order is not None
            order, answer = carried.order, answers[carried.order.order_id]
            carried.status, carried.reason = answer.status, answer.reason
            if answer.status is AnswerStatus.DONE and isinstance(answer.reply, TrainReply):
                left_s = order.limit_s - answer.reply.download_s - answer.reply.device_s
                upload = UploadOrder(
                    self._name(order.device, "upload", opening),
                    order.device,
                    here.step,
                    order.ap,
                    order.order_id,
                    plan.paced_mbit_s(
                        self._settings, self._run.throughput, here.distances_m[order.device], "up"
                    ),
                    message_bytes=self._run.experiment.program.message_mib * 2**20,
                    evaluates=order.evaluates,
                    limit_s=max(_LEAST_TTL_S, left_s),
                )
                uploads.append(upload)
                asked[upload.order_id] = carried
        answers = await self._perform(here, uploads, opening=False)
        for name, carried in asked.items():
            answer = answers[name]
            carried.status, carried.reason = answer.status, answer.reason
            if answer.status is AnswerStatus.DONE and isinstance(answer.reply, UploadReply):
                carried.message = answer.reply.message

    def _name(self, device: int, kind: str, opening: bool) -> str:
        if opening and kind != "upload":
            self._given = 0
        elif kind != "upload":
            self._given += 1
        more = f"-{self._given}" if self._given else ""
        return order_id(self._run.run_id, self.step, device, f"{kind}{more}")

    async def _perform(
        self, here: Presence, orders: Sequence[ProgramOrder | UploadOrder], *, opening: bool
    ) -> Mapping[str, Answer]:
        if opening:
            self._journal.append(here.record())
        busy = {order.device for order in orders}
        given: list[Order] = [*(plan.plan_background(self._settings, here, busy) if opening else ()), *orders]
        self._journal.extend([plan.order_record(order, here, self._run.throughput) for order in given])
        answers = settle.answers_by_order(given, await self._fleet.perform(given) if given else [])
        self._journal.extend([settle.answer_record(answer) for answer in answers.values()])
        return answers

    def _frame(self, carried: _Carried) -> tuple[bytes, bytes]:
        if carried.status is AnswerStatus.DONE:
            return b"M", json.dumps({"id": carried.header.id}).encode() + b"\n" + carried.message
        error = {
            "id": carried.header.id,
            "code": _CODES[carried.status],
            "reason": carried.reason or carried.status.value,
        }
        return b"X", json.dumps(error).encode()

    async def close(self, report: BatchReport) -> None:
        """End the step of the batch that was carried out, as the app's process judges its replies."""
        records: list[RoundRecord] = []
        used: list[tuple[ProgramOrder, float]] = []
        for carried in self._carried:
            order = carried.order
            if order is None or order.evaluates:
                continue
            name, reason = carried.header.id, ""
            if carried.status is not AnswerStatus.DONE:
                reason = ": ".join(text for text in (carried.status.value, carried.reason) if text)
            elif name in report.failed:
                reason = f"its ClientApp failed: {printable(report.failed[name])}"
            if reason:
                records.append(
                    OutcomeDecided(order.step, order.device, order.order_id, Outcome.FAILED, reason)
                )
            else:
                examples = report.examples.get(name, 1.0)
                used.append((order, examples if 0.0 < examples < math.inf else 0.0))
        records += _aggregations(self.step, used)
        self._lost_metrics.say(report.left_out)
        await self._close(records, report.metrics, len(used))

    async def _close(
        self, records: Iterable[RoundRecord], metrics: Mapping[str, float] | None = None, aggregated: int = 0
    ) -> None:
        self._journal.extend(list(records))
        finite = [(name, value) for name, value in (metrics or {}).items() if math.isfinite(value)]
        metrics = dict(finite[:_MOST_METRICS])
        evaluated = bool(self._carried) and all(one.header.evaluates for one in self._carried)
        accuracy, loss = _score(metrics) if evaluated else (None, None)
        if metrics:
            names = tuple(name_of_foreign_metric(name) for name in metrics)
            better = tuple[Literal["higher", "lower", ""], ...]("" for _ in names)
            self._journal.append(MetricsScored(self.step, names, tuple(metrics.values()), better))
        await self._pace(self.step)
        self._journal.append(StepClosed(self.step, aggregated, (), (), accuracy, loss, 0.0))
        self._carried, self._here = [], None
        self.step += 1


def _aggregations(step: int, used: Sequence[tuple[ProgramOrder, float]]) -> list[RoundRecord]:
    """All trainings whose replies the app has got; it says nothing of what it does with them. Weights are its
    numbers of examples, by which strategies weigh by default."""
    records: list[RoundRecord] = []
    aps = sorted({order.ap for order, _ in used})
    for ap in aps:
        mine = [(order, weight) for order, weight in used if order.ap == ap]
        total = sum(weight for _, weight in mine)
        weights = tuple(weight / total if total else 1.0 / len(mine) for _, weight in mine)
        devices = tuple(order.device for order, _ in mine)
        trainings = tuple(order.order_id for order, _ in mine)
        records.append(EdgeAggregated(step, ap, devices, trainings, weights, ""))
    if used:
        everything = sum(weight for _, weight in used)
        shares = tuple(
            sum(weight for order, weight in used if order.ap == ap) / everything
            if everything
            else 1.0 / len(aps)
            for ap in aps
        )
        records.append(CloudAggregated(step, tuple(aps), shares, ""))
    for order, _ in used:
        records.append(OutcomeDecided(step, order.device, order.order_id, Outcome.AGGREGATED))
    return records


def _score(metrics: Mapping[str, float]) -> tuple[float | None, float | None]:
    """The accuracy and the loss among an evaluation's metrics, by their names."""
    accuracies = [value for name, value in metrics.items() if "acc" in name.lower() and 0.0 <= value <= 1.0]
    losses = [value for name, value in metrics.items() if "loss" in name.lower()]
    return next(iter(accuracies), None), next(iter(losses), None)
