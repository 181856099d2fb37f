"""The modelled energy of a run on virtual devices, from its event log and what it was told of the devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from roambench.contract.errors import RunError
from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import Fate, Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.link_models import MOHAWK, LinkModel
from roambench.energy.modelled import EnergyModel, ModelledRow, Served
from roambench.rounds.fates import training_fates
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.database import naming
from roambench.runs.folder import RunFolder

SIMULATED: Final = "simulated"
#: Beside the event log, where the experiment names another link model than the built-in one.
LINK_MODEL_FILE: Final = "link_model.json"
Rate = Literal["distance", "transfer"]


@dataclass(frozen=True, slots=True)
class ModelledEnergy:
    """All rows of a run in the order of its event log, and what they were modelled with."""

    rows: tuple[ModelledRow, ...]
    links: LinkModel
    power: DevicePower
    rate: Rate


def modelled_account(folder: RunFolder, records: Sequence[RoundRecord]) -> ModelledEnergy | None:
    """The account of a simulated run; None for any other, whose joules are measured or not known."""
    if folder.info.fleet != SIMULATED:
        return None
    section = folder.config.get("simulated")
    section = section if isinstance(section, dict) else {}

    def number(key: str, default: float) -> float:
        value = section.get(key, default)
        return float(value) if isinstance(value, int | float) else default

    power = DevicePower(
        number("idle_w", 1.9), number("train_w", 0.8), number("power_spread", 0.0), folder.info.seed
    )
    rate: Rate = "transfer" if section.get("energy_rate") == "transfer" else "distance"
    links = read_link_model_json(folder.path)
    names = folder.info.device_names
    return ModelledEnergy(
        tuple(modelled_rows(records, names, EnergyModel(links, power), rate)), links, power, rate
    )


def modelled_rows(
    records: Sequence[RoundRecord], names: Sequence[str], model: EnergyModel, rate: Rate = "distance"
) -> list[ModelledRow]:
    """A row for every transfer and training that was done, by the event log.

    With "distance" a transfer runs at the throughput that Eq. 2 gives its placement, with "transfer" at the
    one it was simulated with; where one of them is not known, the other counts.
    """
    trainings = training_fates(records)
    given = {record.order_id: record for record in records if isinstance(record, OrderGiven)}
    rows = []
    for answer in records:
        if not isinstance(answer, OrderAnswered) or answer.status != AnswerStatus.DONE:
            continue
        order = given.get(answer.order_id)
        if order is None or order.kind not in ("train", "upload", "sync"):
            continue
        training = "" if order.kind == "sync" else order.train_order_id or order.order_id
        known = trainings.get(training)
        fate = None if not training else Fate.PENDING if known is None else known.fate
        served = Served(
            number=order.device,
            device=names[order.device] if order.device < len(names) else f"device {order.device}",
            step=order.step if known is None else known.step,
            at_step=order.step,
            fate=fate,
            order_id=order.order_id,
            train_order_id=training,
        )
        mbit_s = _mbit_s(order, answer, rate)
        if answer.transferred_bytes > 0 and mbit_s > 0.0:
            phase = Phase.UPLOAD if order.kind == "upload" else Phase.DOWNLOAD
            size = answer.transferred_bytes
            rows.append(model.transfer(served, phase, size, mbit_s, order.link, order.distance_m))
        if order.kind == "train":
            rows.append(model.training(served, answer.train_s))
    return rows


def save_link_model_json(folder: Path, links: LinkModel) -> None:
    """Keep the link model with the run, which then stands alone; the built-in one needs no file."""
    if links.name != MOHAWK.name:
        with naming(folder / LINK_MODEL_FILE):
            (folder / LINK_MODEL_FILE).write_text(json.dumps(asdict(links), indent=2) + "\n")


def read_link_model_json(folder: Path) -> LinkModel:
    """What `save_link_model_json` kept. RunError names the file and what is wrong with it."""
    path = folder / LINK_MODEL_FILE
    if not path.is_file():
        return MOHAWK
    try:
        return TypeAdapter(LinkModel).validate_python(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read as a link model: {error}") from None


def _mbit_s(order: OrderGiven, answer: OrderAnswered, rate: Rate) -> float:
    simulated = 8e-6 * answer.transferred_bytes / answer.transfer_s if answer.transfer_s > 0.0 else 0.0
    if rate == "transfer":
        return simulated or order.throughput_mbit_s
    return order.throughput_mbit_s or simulated
