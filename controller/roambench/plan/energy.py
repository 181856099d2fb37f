"""Joules that a planned experiment will take, by phase, from its rehearsed event log."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.link_codecs import IDENTITY
from roambench.contract.phases import Phase
from roambench.emulation.electric.power import PORT_MBIT_S, Activity, PiPower
from roambench.energy.energy_value import Energy, total
from roambench.energy.modelled.ledger import EnergyModel
from roambench.energy.uncertainty import with_meter
from roambench.experiment.link_model_file import load_link_model
from roambench.meters.traits import TRAITS
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Rehearsed
from roambench.plan.widths import ExpectedPhases
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven
from roambench.runs.event_log import EventLog
from roambench.runs.modelled.accounts import ledger_of_log

#: The meter that a plan advises where lines come more seldom.
FASTER: Final = TRAITS.load("smartpower2-100ms")


@dataclass(frozen=True, slots=True)
class PhaseJoules:
    """One phase over all devices; gross is idle plus net.

    `u_net_j` is the standard uncertainty to expect of the net energy of `count` phases, of which
    `u_lasting_j` does not fall with more of them (the meters' gain); 0 where nothing is measured.
    `u_faster_j` is that with a line every 100 ms, 0 where no meter is slower.
    """

    phase: str
    seconds: float
    idle_j: float
    net_j: float
    count: int = 0
    u_net_j: float = 0.0
    u_lasting_j: float = 0.0
    u_faster_j: float = 0.0

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
    expected = {phase: defaultdict[int, ExpectedPhases](ExpectedPhases) for phase in seconds}
    tail_s = fleet.radio_tail_s

    def draw(device: int, activity: Activity) -> tuple[float, float]:
        """Net watts of a board, and the joules of its radio's tail, which counts to the transfer before."""
        if device not in boards:
            boards[device] = fleet.board(device)
        board = boards[device]
        tail_w = board.tx_w if activity.tx_mbit_s else board.rx_w if activity.rx_mbit_s else 0.0
        return board.watts(activity) - board.idle_w, tail_w * tail_s

    def add(phase: Phase, device: int, activity: Activity, duration_s: float) -> None:
        seconds[phase] += duration_s
        net_w, after_j = draw(device, activity)
        expected[phase][device].add(net_w, duration_s, after_j)

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
                sending_w, sent_j = draw(device, Activity(tx_mbit_s=up_mbit_s))
                receiving_w, received_j = draw(device, Activity(rx_mbit_s=up_mbit_s))
                air_s = max(air.sending_s, air.receiving_s)
                air_j = sending_w * air.sending_s + receiving_w * air.receiving_s
                expected[Phase.EXCHANGE][device].add(
                    air_j / air_s, air_s, sent_j + received_j, record.transfer_s - air_s
                )
        elif kind == "upload":
            add(Phase.UPLOAD, device, Activity(tx_mbit_s=rate), record.transfer_s)
        else:
            add(Phase.DOWNLOAD, device, Activity(rx_mbit_s=rate), record.transfer_s)
        add(Phase.TRAIN, device, Activity(busy_cores=1.0), record.train_s)
    idle_w = PiPower().idle_w
    rest_s = max(0.0, devices * device_s - math.fsum(seconds.values()))
    active = [
        _measured(fleet, phase, seconds[phase], idle_w * seconds[phase], by_device)
        for phase, by_device in expected.items()
    ]
    return (*active, PhaseJoules("idle, rest, wait, absent", rest_s, idle_w * rest_s, 0.0))


def _measured(
    fleet: PlannedFleet, phase: Phase, seconds: float, idle_j: float, by_device: Mapping[int, ExpectedPhases]
) -> PhaseJoules:
    """One phase with the uncertainty that the ledger of the run will have: each device's sums scatter for
    themselves, and gains add up as `total` adds them. Phases that touch promise nothing."""
    net_j = math.fsum(found.net_j for found in by_device.values())
    count = sum(len(found.seconds) for found in by_device.values())
    if not fleet.rest_s:
        return PhaseJoules(phase.value, seconds, idle_j, net_j, count)
    own_j, faster_j, slow = [0.0], [0.0], False
    for device, found in by_device.items():
        meter = fleet.meter(device)
        own_j.append(found.u_j(fleet.rest_s, meter))
        is_slow = meter.nominal_s > FASTER.nominal_s
        faster_j.append(found.u_j(fleet.rest_s, FASTER) if is_slow else own_j[-1])
        slow |= is_slow
    lasting_j = total(
        with_meter(Energy(found.net_j), fleet.calibration(device), str(device))
        for device, found in by_device.items()
    ).u_joules
    return PhaseJoules(
        phase.value,
        seconds,
        idle_j,
        net_j,
        count,
        math.hypot(*own_j, lasting_j),
        lasting_j,
        math.hypot(*faster_j, lasting_j) if slow else 0.0,
    )


def _mbit_s(transferred_bytes: int, transfer_s: float) -> float:
    return 8e-6 * transferred_bytes / transfer_s if transfer_s else PORT_MBIT_S
