"""Joules that a planned experiment will take, by phase, from its rehearsed event log."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.contract.link_codecs import IDENTITY
from roambench.contract.phases import Phase
from roambench.emulation.electric.power import PORT_MBIT_S, Activity, PiPower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.experiment.link_model_file import load_link_model
from roambench.meters.traits import MeterTraits
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Rehearsed
from roambench.plan.widths import ExpectedPhases
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven
from roambench.runs.event_log import EventLog
from roambench.runs.modelled.accounts import ledger_of_log


@dataclass(frozen=True, slots=True)
class PhaseJoules:
    """One phase over all devices; gross is idle plus net.

    `u_net_j` is the standard uncertainty to expect of the net energy of `count` phases, of which
    `u_lasting_j` does not fall with more of them (the meters' gain); 0 where nothing is measured.
    """

    phase: str
    seconds: float
    idle_j: float
    net_j: float
    count: int = 0
    u_net_j: float = 0.0
    u_lasting_j: float = 0.0

    @property
    def gross_j(self) -> float:
        """All joules of the phase, idling included."""
        return self.idle_j + self.net_j


def simulated_joules(fleet: PlannedFleet, records: EventLog, names: Sequence[str]) -> tuple[PhaseJoules, ...]:
    """Joules of the finished run's modelled ledger, by phase."""
    experiment = fleet.experiment
    section = experiment.simulated
    power = section.power(experiment.seed, len(names))
    model = EnergyModel(load_link_model(experiment.links.model), power, experiment.links.overhead_bytes)
    ledger = ledger_of_log(records, names, model, section.energy_rate, fleet.rest_s)
    last = Phase.EXCHANGE if records.count(ModelsExchanged) else Phase.UPLOAD

    def total_of(column: npt.NDArray[np.float64], phase: Phase) -> float:
        return math.fsum(column[ledger.of_phase(phase)].tolist())

    return tuple(
        PhaseJoules(
            phase.value,
            total_of(ledger.duration_s, phase),
            total_of(ledger.idle_j, phase),
            total_of(ledger.net_j, phase),
        )
        for phase in (
            Phase.DOWNLOAD,
            *([Phase.DECODE] if experiment.links.codec_down != IDENTITY else []),
            Phase.TRAIN,
            *([Phase.ENCODE] if experiment.links.codec_up != IDENTITY else []),
            last,
            *([Phase.REST] if fleet.rest_s else []),
        )
    )


def agents_joules(
    fleet: PlannedFleet, rehearsed: Rehearsed, devices: int, device_s: float
) -> tuple[PhaseJoules, ...]:
    """Joules that the meters of `devices` boards will see in `device_s` seconds, the rest being idle."""
    boards: dict[int, PiPower] = {}
    kinds = {record.order_id: record.kind for record in rehearsed.records.only(OrderGiven)}
    last = Phase.EXCHANGE if rehearsed.exchanging else Phase.UPLOAD
    seconds = dict.fromkeys((Phase.DOWNLOAD, Phase.TRAIN, last), 0.0)
    expected = {phase: defaultdict[MeterTraits, ExpectedPhases](ExpectedPhases) for phase in seconds}
    meters = Counter(fleet.meter(device) for device in range(devices))
    tail_s = fleet.radio_tail_s

    def board_of(device: int) -> PiPower:
        if device not in boards:
            boards[device] = fleet.board(device)
        return boards[device]

    def draw(phase: Phase, device: int, activity: Activity, duration_s: float) -> None:
        board = board_of(device)
        # A radio's tail counts to the transfer that caused it.
        tail_w = board.tx_w if activity.tx_mbit_s else board.rx_w if activity.rx_mbit_s else 0.0
        net_w = board.watts(activity) - board.idle_w
        expected[phase][fleet.meter(device)].add(net_w, duration_s, tail_w * tail_s)

    def add(phase: Phase, device: int, activity: Activity, duration_s: float) -> None:
        seconds[phase] += duration_s
        draw(phase, device, activity, duration_s)

    for record in rehearsed.records.only(ModelsExchanged, OrderAnswered):
        if isinstance(record, ModelsExchanged) and record.downloaded_bytes:
            rate = _mbit_s(record.downloaded_bytes, record.download_s)
            add(Phase.DOWNLOAD, record.device, Activity(rx_mbit_s=rate), record.download_s)
        if not isinstance(record, OrderAnswered) or not (record.transferred_bytes or record.samples):
            continue
        device, kind = record.device, kinds[record.order_id]
        rate = _mbit_s(record.transferred_bytes, record.transfer_s)
        if kind == "exchange":
            seconds[Phase.EXCHANGE] += record.transfer_s
            if air := rehearsed.air.get(record.order_id):
                up_mbit_s = min(fleet.up_mbit_s or PORT_MBIT_S, PORT_MBIT_S)
                draw(Phase.EXCHANGE, device, Activity(tx_mbit_s=up_mbit_s), air.sending_s)
                draw(Phase.EXCHANGE, device, Activity(rx_mbit_s=up_mbit_s), air.receiving_s)
        elif kind == "upload":
            add(Phase.UPLOAD, device, Activity(tx_mbit_s=rate), record.transfer_s)
        else:
            add(Phase.DOWNLOAD, device, Activity(rx_mbit_s=rate), record.transfer_s)
        add(Phase.TRAIN, device, Activity(busy_cores=1.0), record.train_s)
    idle_w = PiPower().idle_w
    rest_s = max(0.0, devices * device_s - math.fsum(seconds.values()))
    active = []
    for phase, by_meter in expected.items():
        own_j, gain_j = [0.0], [0.0]
        for meter, found in by_meter.items() if fleet.rest_s else ():
            own_j.append(found.u_j(fleet.rest_s, meter))
            gain_j.append(meter.u_gain * found.net_j / math.sqrt(meters[meter]))
        active.append(
            PhaseJoules(
                phase.value,
                seconds[phase],
                idle_w * seconds[phase],
                math.fsum(found.net_j for found in by_meter.values()),
                sum(len(found.seconds) for found in by_meter.values()),
                math.hypot(*own_j, *gain_j),
                math.hypot(*gain_j),
            )
        )
    return (*active, PhaseJoules("idle, rest, wait, absent", rest_s, idle_w * rest_s, 0.0))


def _mbit_s(transferred_bytes: int, transfer_s: float) -> float:
    return 8e-6 * transferred_bytes / transfer_s if transfer_s else PORT_MBIT_S
