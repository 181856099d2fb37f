"""Joules that a planned experiment will take, by phase, from its rehearsed event log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roambench.contract.phases import Phase
from roambench.controller.plans.fleet import PlannedFleet
from roambench.controller.plans.rehearsed import Rehearsed
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.experiment.link_model_file import load_link_model
from roambench.meters.emulator.electric.power import PORT_MBIT_S, Activity, PiPower
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.modelled.accounts import ledger_of_log


@dataclass(frozen=True, slots=True)
class PhaseJoules:
    """One phase over all devices; gross is idle plus net."""

    phase: str
    seconds: float
    idle_j: float
    net_j: float

    @property
    def gross_j(self) -> float:
        """All joules of the phase, idling included."""
        return self.idle_j + self.net_j


def simulated_joules(
    fleet: PlannedFleet, records: Sequence[RoundRecord], names: Sequence[str]
) -> tuple[PhaseJoules, ...]:
    """Joules of the finished run's modelled ledger, by phase."""
    experiment = fleet.experiment
    section = experiment.simulated
    power = DevicePower(section.idle_w, section.train_w, section.power_spread, experiment.seed)
    model = EnergyModel(load_link_model(experiment.links.model), power, experiment.links.overhead_bytes)
    ledger = ledger_of_log(records, names, model, section.energy_rate, fleet.rest_s)
    exchanging = any(isinstance(record, ModelsExchanged) for record in records)
    last = Phase.EXCHANGE if exchanging else Phase.UPLOAD
    columns = ledger.duration_s, ledger.idle_j, ledger.net_j
    return tuple(
        PhaseJoules(phase.value, *(math.fsum(column[ledger.of_phase(phase)].tolist()) for column in columns))
        for phase in (Phase.DOWNLOAD, Phase.TRAIN, last, *([Phase.REST] if fleet.rest_s else []))
    )


def agents_joules(
    fleet: PlannedFleet, rehearsed: Rehearsed, devices: int, device_s: float
) -> tuple[PhaseJoules, ...]:
    """Joules that the meters of `devices` boards will see in `device_s` seconds, the rest being idle."""
    boards: dict[int, PiPower] = {}
    kinds = {record.order_id: record.kind for record in rehearsed.records if isinstance(record, OrderGiven)}
    last = Phase.EXCHANGE if rehearsed.exchanging else Phase.UPLOAD
    seconds = dict.fromkeys((Phase.DOWNLOAD, Phase.TRAIN, last), 0.0)
    net_j = dict(seconds)

    def board_of(device: int) -> PiPower:
        if device not in boards:
            boards[device] = fleet.board(device)
        return boards[device]

    def draw(phase: Phase, board: PiPower, activity: Activity, duration_s: float) -> None:
        net_j[phase] += (board.watts(activity) - board.idle_w) * duration_s

    def add(phase: Phase, board: PiPower, activity: Activity, duration_s: float) -> None:
        seconds[phase] += duration_s
        draw(phase, board, activity, duration_s)

    for record in rehearsed.records:
        if isinstance(record, ModelsExchanged) and record.downloaded_bytes:
            rate = _mbit_s(record.downloaded_bytes, record.download_s)
            add(Phase.DOWNLOAD, board_of(record.device), Activity(rx_mbit_s=rate), record.download_s)
        if not isinstance(record, OrderAnswered) or not (record.transferred_bytes or record.samples):
            continue
        board, kind = board_of(record.device), kinds[record.order_id]
        rate = _mbit_s(record.transferred_bytes, record.transfer_s)
        if kind == "exchange":
            seconds[Phase.EXCHANGE] += record.transfer_s
            if air := rehearsed.air.get(record.order_id):
                up_mbit_s = min(fleet.up_mbit_s or PORT_MBIT_S, PORT_MBIT_S)
                draw(Phase.EXCHANGE, board, Activity(tx_mbit_s=up_mbit_s), air.sending_s)
                draw(Phase.EXCHANGE, board, Activity(rx_mbit_s=up_mbit_s), air.receiving_s)
        elif kind == "upload":
            add(Phase.UPLOAD, board, Activity(tx_mbit_s=rate), record.transfer_s)
        else:
            add(Phase.DOWNLOAD, board, Activity(rx_mbit_s=rate), record.transfer_s)
        add(Phase.TRAIN, board, Activity(busy_cores=1.0), record.train_s)
    idle_w = PiPower().idle_w
    rest_s = max(0.0, devices * device_s - math.fsum(seconds.values()))
    active = tuple(PhaseJoules(p.value, seconds[p], idle_w * seconds[p], net_j[p]) for p in seconds)
    return (*active, PhaseJoules("idle, rest, wait, absent", rest_s, idle_w * rest_s, 0.0))


def _mbit_s(transferred_bytes: int, transfer_s: float) -> float:
    return 8e-6 * transferred_bytes / transfer_s if transfer_s else PORT_MBIT_S
