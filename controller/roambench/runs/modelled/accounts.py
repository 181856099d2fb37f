"""The modelled energy of a run on virtual devices, from its event log and its experiment's assumptions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Phase
from roambench.energy.ledger import NONE, PHASES, Codes, Numbers
from roambench.energy.links.models import MOHAWK, LinkModel
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel, ModelledLedger, ModelledWork, modelled_ledger
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.event_log import EventLog, TextColumn, places
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.exchange_work import exchange_work
from roambench.runs.modelled.rests import with_rests
from roambench.runs.training_columns import PENDING, TrainingColumns
from roambench.runs.whole_file import read_whole, write_whole

#: Beside the event log, where the experiment names another link model than the built-in one.
LINK_MODEL_FILE: Final = "link_model.json"
Rate = Literal["distance", "transfer"]


@dataclass(frozen=True, slots=True)
class ModelledEnergy:
    """The ledger of a run in the order of its event log, and what it was modelled with."""

    ledger: ModelledLedger
    links: LinkModel
    power: DevicePower
    rate: Rate
    overhead_bytes: int = 0

    def uploads_j(self, model_bytes: int) -> float:
        """The gross joules of the uploads, had each been of `model_bytes`: Eq. 1's are in proportion to those
        and its Delta together."""
        rows = self.ledger.of_phase(Phase.UPLOAD)
        sent = self.ledger.work.transferred_bytes[rows] + self.overhead_bytes
        return float((self.ledger.gross_j[rows] * ((model_bytes + self.overhead_bytes) / sent)).sum())


def modelled_account(folder: RunFolder, records: Sequence[RoundRecord]) -> ModelledEnergy | None:
    """The account of a simulated run; None for any other, whose joules are measured or not known."""
    if not folder.info.kind.is_virtual:
        return None
    model, rate = energy_model(folder)
    ledger = ledger_of_log(records, folder.info.device_names, model, rate, folder.info.rest_s)
    return ModelledEnergy(ledger, model.links, model.power, rate, model.overhead_bytes)


def energy_model(folder: RunFolder) -> tuple[EnergyModel, Rate]:
    """Return what models the energy of a simulated run, and the throughput that its transfers are taken to
    have."""
    experiment = folder.experiment
    section = experiment.simulated
    power = section.power(folder.info.seed, len(folder.info.device_names))
    links = read_link_model_json(folder.path)
    return EnergyModel(links, power, experiment.links.overhead_bytes), section.energy_rate


def ledger_of_log(
    records: Sequence[RoundRecord],
    names: Sequence[str],
    model: EnergyModel,
    rate: Rate = "distance",
    rest_s: float = 0.0,
) -> ModelledLedger:
    """A row for every transfer and training that was done, by the event log, and for those of trainings that
    made no model; and with `rest_s` of an order's rests.

    With "distance" a transfer runs at the throughput that Eq. 2 gives its placement, with "transfer" at the
    one it was simulated with; where one of them is not known, the other counts.
    """
    log = EventLog.of(records)
    done = log.codes(OrderAnswered, "status", [AnswerStatus.DONE.value]) == 0
    refused = log.codes(OrderAnswered, "status", [AnswerStatus.REFUSED.value]) == 0
    done |= refused & (log.array(OrderAnswered, "train_s") > 0.0)
    order = log.answered
    kinds = log.codes(OrderGiven, "kind", ["train", "upload", "sync", "evaluate"])
    answer = np.flatnonzero(done & (order != NONE))
    answer = answer[kinds[order[answer]] != NONE]
    computes, evaluates, upload = (np.isin(kinds[order[answer]], codes) for codes in ((0, 3), (3,), (1,)))
    mbit_s = _mbit_s(log, order[answer], answer, rate)
    size = log.array(OrderAnswered, "transferred_bytes")[answer]
    coding_s = log.array(OrderAnswered, "coding_s")[answer]
    # One answer may be three rows: an upload and the coding before it; a download, the decoding after it, and
    # the training or evaluation that it is for.
    moves, codes = (size > 0) & (mbit_s > 0.0), coding_s > 0.0
    parts = np.column_stack((codes & upload, moves, codes & ~upload, computes))
    of_answer, part = np.nonzero(parts)
    answer, upload, evaluates = answer[of_answer], upload[of_answer], evaluates[of_answer]
    mbit_s, size, coding_s = mbit_s[of_answer], size[of_answer], coding_s[of_answer]
    order, transfer, coding = order[answer], part == 1, np.isin(part, (0, 2))
    down, decoded, trained, evaluated, encoded, up = (
        PHASES.index(phase)
        for phase in (
            Phase.DOWNLOAD,
            Phase.DECODE,
            Phase.TRAIN,
            Phase.EVALUATE,
            Phase.ENCODE,
            Phase.UPLOAD,
        )
    )
    computing = np.select((part == 0, part == 2, evaluates), (encoded, decoded, evaluated), default=trained)
    computed_s = np.where(coding, coding_s, log.array(OrderAnswered, "train_s")[answer])
    links = sorted(set(log.texts(OrderGiven, "link").unique().to_pylist()))
    served = _Served.of(log, order)
    device = log.array(OrderGiven, "device")[order]
    known, place = _named(names, device)
    if (log.codes(OrderGiven, "kind", ["exchange"]) == 0).any():
        return modelled_ledger(exchange_work(log, names, links, rest_s), model)
    work = ModelledWork(
        names=known,
        links=links,
        device=place,
        step=served.step,
        at_step=log.array(OrderGiven, "step")[order],
        phase=np.where(transfer, np.where(upload, up, down), computing),
        outcome=served.outcome,
        training=served.training,
        order_ids=TextColumn(log.texts(OrderGiven, "order_id").take(pa.array(order))),
        train_order_ids=TextColumn(served.train_order_ids),
        train_s=np.where(transfer, 0.0, computed_s),
        transferred_bytes=np.where(transfer, size, 0),
        mbit_s=np.where(transfer, mbit_s, 0.0),
        link=log.codes(OrderGiven, "link", links)[order],
        distance_m=np.where(transfer, log.array(OrderGiven, "distance_m")[order], 0.0),
    )
    return modelled_ledger(with_rests(work, answer, rest_s), model)


@dataclass(frozen=True, slots=True)
class _Served:
    """The training that each order serves: its round and outcome; NONE and its own step where it serves
    none."""

    step: Codes
    outcome: Codes
    training: Codes
    train_order_ids: pa.StringArray

    @classmethod
    def of(cls, log: EventLog, order: Codes) -> _Served:
        kind = log.codes(OrderGiven, "kind", ["sync", "evaluate", "upload"])[order]
        named, own = (
            log.texts(OrderGiven, name).take(pa.array(order)) for name in ("train_order_id", "order_id")
        )
        texts = pc.if_else(pc.equal(named, ""), own, named)
        unserving = np.isin(kind, (0, 1))  # nor does the upload of an evaluation's answer
        unserving |= (kind == 2) & pc.equal(named, "").to_numpy(zero_copy_only=False)
        texts = pc.if_else(pa.array(unserving), "", texts)
        trainings = TrainingColumns.of(log)
        found = places(texts, trainings.orders)
        # A training that was never ordered is still one: its rows belong together.
        unknown = places(texts, pc.unique(texts)) + len(trainings)
        nothing = pc.equal(texts, "").to_numpy(zero_copy_only=False)
        step = log.array(OrderGiven, "step")[order]
        known = found != NONE
        outcome = np.full(len(order), PENDING)
        outcome[known] = trainings.outcome[found[known]]
        step[known] = trainings.step[found[known]]
        outcome[nothing] = NONE
        return cls(step, outcome, np.where(nothing, NONE, np.where(known, found, unknown)), texts)


def _named(names: Sequence[str], device: Codes) -> tuple[list[str], Codes]:
    """All names, with those of devices that the run does not list after them, and each device's place."""
    strange = np.unique(device[(device < 0) | (device >= len(names))])
    place = np.where(np.isin(device, strange), len(names) + np.searchsorted(strange, device), device)
    return [*names, *(f"device {number}" for number in strange.tolist())], place


def save_link_model_json(folder: Path, links: LinkModel) -> None:
    """Keep the link model with the run, which then stands alone; the built-in one needs no file."""
    if links.name != MOHAWK.name:
        write_whole(folder / LINK_MODEL_FILE, json.dumps(asdict(links), indent=2) + "\n")


def read_link_model_json(folder: Path) -> LinkModel:
    """Read the link model that `save_link_model_json` kept. RunError names the file and what is wrong with
    it."""
    path = folder / LINK_MODEL_FILE
    return read_whole(LinkModel, path, finite=False) if path.is_file() else MOHAWK


def _mbit_s(log: EventLog, order: Codes, answer: Codes, rate: Rate) -> Numbers:
    seconds = log.array(OrderAnswered, "transfer_s")[answer]
    mbit = 8e-6 * log.array(OrderAnswered, "transferred_bytes")[answer]
    simulated = np.divide(mbit, seconds, out=np.zeros(len(answer)), where=seconds > 0.0)
    placement = log.array(OrderGiven, "throughput_mbit_s")[order]
    first, second = (simulated, placement) if rate == "transfer" else (placement, simulated)
    return np.where(first != 0.0, first, second)
