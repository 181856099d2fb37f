"""Joules that a planned experiment will take, by phase, from its rehearsed event log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roambench.contract.phases import Phase
from roambench.controller.config.link_model_file import load_link_model
from roambench.controller.config.sections import Experiment
from roambench.energy.device_power import DevicePower
from roambench.energy.modelled import EnergyModel
from roambench.meters.emulator.power import PORT_MBIT_S, Activity, PiPower
from roambench.rounds.records import OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.modelled_accounts import modelled_rows


@dataclass(frozen=True, slots=True)
class PhaseJoules:
    """One phase over all devices; gross is idle plus net."""

    phase: str
    seconds: float
    idle_j: float
    net_j: float

    @property
    def gross_j(self) -> float:
        return self.idle_j + self.net_j


def simulated_joules(
    experiment: Experiment, records: Sequence[RoundRecord], names: Sequence[str]
) -> tuple[PhaseJoules, ...]:
    """What the finished run's modelled ledger will say."""
    section = experiment.simulated
    power = DevicePower(section.idle_w, section.train_w, section.power_spread, experiment.seed)
    model = EnergyModel(load_link_model(experiment.links.model), power, experiment.links.overhead_bytes)
    rows = modelled_rows(records, names, model, section.energy_rate)
    return tuple(
        PhaseJoules(
            phase.value,
            math.fsum(row.duration_s for row in rows if row.phase is phase),
            math.fsum(row.idle_j for row in rows if row.phase is phase),
            math.fsum(row.net_j for row in rows if row.phase is phase),
        )
        for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
    )


def local_joules(
    experiment: Experiment, records: Sequence[RoundRecord], devices: int, device_s: float
) -> tuple[PhaseJoules, ...]:
    """What the meters of `devices` emulated boards will see in `device_s` seconds, the rest being idle."""
    boards: dict[int, PiPower] = {}
    kinds = {record.order_id: record.kind for record in records if isinstance(record, OrderGiven)}
    seconds = dict.fromkeys((Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD), 0.0)
    net_j = dict(seconds)

    def add(phase: Phase, board: PiPower, activity: Activity, duration_s: float) -> None:
        seconds[phase] += duration_s
        net_j[phase] += (board.watts(activity) - board.idle_w) * duration_s

    for record in records:
        if not isinstance(record, OrderAnswered) or not (record.transferred_bytes or record.samples):
            continue
        if record.device not in boards:
            boards[record.device] = _board(experiment, record.device)
        board = boards[record.device]
        rate = 8e-6 * record.transferred_bytes / record.transfer_s if record.transfer_s else PORT_MBIT_S
        if kinds[record.order_id] == "upload":
            add(Phase.UPLOAD, board, Activity(tx_mbit_s=rate), record.transfer_s)
        else:
            add(Phase.DOWNLOAD, board, Activity(rx_mbit_s=rate), record.transfer_s)
        add(Phase.TRAIN, board, Activity(busy_cores=1.0), record.train_s)
    idle_w = PiPower().idle_w
    rest_s = max(0.0, devices * device_s - math.fsum(seconds.values()))
    active = tuple(PhaseJoules(p.value, seconds[p], idle_w * seconds[p], net_j[p]) for p in seconds)
    return (*active, PhaseJoules("idle, wait, absent", rest_s, idle_w * rest_s, 0.0))


def _board(experiment: Experiment, device: int) -> PiPower:
    spread = experiment.local.radio_spread
    return PiPower().with_drawn_radio(experiment.seed, device, spread) if spread > 0 else PiPower()
