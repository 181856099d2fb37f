"""Energy of a run: whole runs, phases, Table 10, measured against modelled communication; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.orders import AnswerStatus
from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.contract.records import ReadingFlag
from roambench.energy.account import Split
from roambench.energy.comparison.compare import compare_transfers
from roambench.energy.comparison.comparison import TransferComparison
from roambench.energy.comparison.transfer import LinkUse
from roambench.energy.energy_value import Energy
from roambench.energy.idle.baseline import IdleBaselines, NoBaselines
from roambench.energy.ledger import Ledger, running_sum
from roambench.energy.links.models import LinkModel
from roambench.energy.links.radio_work import PAPER
from roambench.energy.links.throughput import Direction, megabits
from roambench.energy.readings.frozen import Frozen
from roambench.report.joule_names import DIFFERENT_SITES
from roambench.report.summaries.rounds import RoundEnergy, rounds_of
from roambench.report.summaries.truth_checks import TruthByKind, TruthCheck, truth_by_phase, truth_of_phase
from roambench.report.summaries.truth_checks import together as all_boards
from roambench.report.table10 import Table10, table10
from roambench.rounds.records import ModelsExchanged, OrderAnswered, OrderGiven, RoundRecord
from roambench.runs.event_log import EventLog
from roambench.runs.measured.accounts import DeviceEnergy, RunEnergy
from roambench.runs.measured.meters import DeviceMeter


@dataclass(frozen=True, slots=True)
class PhaseSum:
    """All rows of one phase over all devices, measured or modelled."""

    phase: Phase
    count: int
    duration_s: float
    gross: Energy
    net: Energy

    @property
    def idle_j(self) -> float:
        """Joules that idling would have drawn anyway: gross less net."""
        return self.gross.joules - self.net.joules


@dataclass(frozen=True, slots=True)
class PhaseEnergy(PhaseSum):
    """All spans of one phase over all boards. `naive_j` is the trapezoid.

    `truth` is None unless all boards are emulated.
    """

    naive_j: float
    truth: TruthByKind | None


@dataclass(frozen=True, slots=True)
class BoardEnergy:
    """One board's line. `truth` is of its whole run, `truth_by_phase` of its split; empty where unknown."""

    device: str
    whole_run: Energy  # with the meter's uncertainty
    net: Energy  # of all phases
    idle_w: float | None
    baselines: IdleBaselines | NoBaselines  # of idling before and after the work
    consumed: Energy
    wasted: Energy
    failed: Energy
    lost_s: float
    readings: int
    inconsistent: int
    undervoltage: int
    saturated: int
    frozen: tuple[Frozen, ...]  # stretches of lines that the meter repeated
    split: Split  # the method that separated its phases, and the evidence against it
    truth: TruthCheck | None
    truth_by_phase: Mapping[Phase, TruthByKind]
    meter: DeviceMeter

    @property
    def site(self) -> str:
        """The part that its meter sees, "" for the whole board."""
        return "" if self.meter.description is None else self.meter.description.site


@dataclass(frozen=True)
class EnergySummary:
    """Energy of one run. Joules are gross unless said otherwise; `measured` False: no meter saw anything.

    `without` names the boards that are in no sum, and why.
    """

    measured: bool
    duration_s: float
    whole_run: Energy
    whole_run_net: Energy
    gross: Table10
    net: Table10
    phases: tuple[PhaseEnergy, ...]
    wasted_by_phase: Mapping[Phase, float]
    consumed_by_step: Mapping[int, float]  # by the round of the training
    wasted_by_step: Mapping[int, float]
    rounds: tuple[RoundEnergy, ...]  # of an app's run
    comparison: TransferComparison
    truth: TruthCheck | None
    wasted_truth: TruthCheck | None  # of what was wasted
    boards: tuple[BoardEnergy, ...]
    without: Mapping[str, str]

    @property
    def sites(self) -> dict[str, list[str]]:
        """The parts that meters saw, "" for whole boards, and the boards in the sums that they saw there."""
        found: dict[str, list[str]] = {}
        for board in self.boards:
            if board.device not in self.without:
                found.setdefault(board.site, []).append(board.device)
        return found

    @property
    def scope(self) -> str:
        """The part of boards that the sums are of: "" for whole boards."""
        sites = list(self.sites) or [""]
        return sites[0] if len(sites) == 1 else DIFFERENT_SITES

    @property
    def scope_text(self) -> str:
        """For beside a sum: what it is of, and without which boards (why); "" for all of all boards."""
        boards = ", ".join(f"{device} ({why})" for device, why in self.without.items())
        parts = [f"without {boards}"] if boards else []
        if self.scope == DIFFERENT_SITES:
            seen = [f"{site or 'whole board'} of {', '.join(who)}" for site, who in self.sites.items()]
            parts.insert(0, f"a sum over different sites ({'; '.join(seen)})")
        elif self.scope:
            parts.insert(0, f"of the {self.scope}, not of whole boards")
        return ", ".join(parts)

    @property
    def reading_w(self) -> float:
        """Watts that reading its own sensor costs a board, the mean of those that do; 0 where none does."""
        described = [board.meter.description for board in self.boards if board.device not in self.without]
        costs = [one.reading_w for one in described if one is not None and one.reading_w > 0.0]
        return math.fsum(costs) / len(costs) if costs else 0.0


def energy_summary(
    energy: RunEnergy | None,
    records: Sequence[RoundRecord],
    *,
    rounds: int,
    finished: bool,
    named: LinkModel | None = None,
    by_round: bool = False,
) -> EnergySummary | None:
    """Sum up a run's energy; None for a run that has none. `finished`: pending models count as wasted.

    `named` is one more link model to hold against the transfers; `by_round`: with its `rounds`.
    """
    if energy is None:
        return None
    ledger = energy.ledger
    names = [device.device for device in energy.counted]
    active = ledger.of_phase(*ACTIVE_PHASES)
    wasted = active & ledger.wasted(finished=finished)
    links = _links(records)
    true_net_j = [device.truth.net_j for device in energy.counted if device.truth is not None]
    boards = tuple(_board(device, finished) for device in energy.devices)
    return EnergySummary(
        measured=energy.measured,
        duration_s=(energy.end_ns - energy.start_ns) * 1e-9,
        whole_run=energy.whole_run,
        whole_run_net=ledger.total("net"),
        gross=table10(ledger, "gross", rounds=rounds, devices=names, finished=finished),
        net=table10(ledger, "net", rounds=rounds, devices=names, finished=finished),
        phases=_phases(ledger, energy.counted, boards),
        wasted_by_phase={
            phase: running_sum(ledger.gross_j[wasted & ledger.of_phase(phase)])
            for phase in ledger.phases(wasted)
        },
        consumed_by_step=ledger.by_step("gross", active),
        wasted_by_step=ledger.by_step("gross", wasted),
        rounds=rounds_of(ledger) if by_round else (),
        comparison=compare_transfers(
            energy.rows,
            energy.spans,
            links,
            named=named,
            meters={device.device: device.meter.identity for device in energy.counted},
            true_net_j=np.concatenate(true_net_j) if 0 < len(true_net_j) == len(energy.counted) else None,
        ),
        truth=all_boards([board.truth for board in boards if board.truth is not None], energy.whole_run),
        wasted_truth=_wasted_truth(energy.counted, ledger.total("gross", wasted), finished=finished),
        boards=boards,
        without={device.device: device.doubt for device in energy.doubted},
    )


def modelled_from_log_j(records: Sequence[RoundRecord]) -> dict[Direction, float]:
    """Eq. 1 with Eq. 2's throughput over every transfer that the event log says was done, measured or not;
    also over downloads for trainings that made no model."""
    log = EventLog.of(records)
    done = log.codes(OrderAnswered, "status", [AnswerStatus.DONE.value]) == 0
    refused = log.codes(OrderAnswered, "status", [AnswerStatus.REFUSED.value]) == 0
    done |= refused & (log.array(OrderAnswered, "train_s") > 0.0)
    links = list(PAPER.links)
    answer = np.flatnonzero(done & (log.answered >= 0))
    order = log.answered[answer]
    link = log.codes(OrderGiven, "link", links)[order]
    mbit_s = log.array(OrderGiven, "throughput_mbit_s")[order]
    chosen = (link >= 0) & (mbit_s > 0.0)
    answer, order, link, mbit_s = (column[chosen] for column in (answer, order, link, mbit_s))
    up = log.codes(OrderGiven, "kind", ["upload"])[order] == 0
    mbit = megabits(log.array(OrderAnswered, "transferred_bytes")[answer])
    parameters = np.array([PAPER.of(name).values for name in links])[link]
    alpha = np.where(up, parameters[:, 0], parameters[:, 1])
    joules = 1e-3 * (alpha * mbit + parameters[:, 2] * (mbit / mbit_s))
    return {"down": math.fsum(joules[~up].tolist()), "up": math.fsum(joules[up].tolist())}


def _links(records: Sequence[RoundRecord]) -> dict[str, LinkUse]:
    """Link and Eq. 2's throughput of every order that names a link (a rehearsal's do not)."""
    sent = {record.order_id: record.sent_bytes for record in records if isinstance(record, ModelsExchanged)}
    return {
        record.order_id: LinkUse(record.link, record.throughput_mbit_s, sent.get(record.order_id, 0))
        for record in records
        if isinstance(record, OrderGiven) and record.link
    }


def _phases(
    ledger: Ledger, devices: Sequence[DeviceEnergy], boards: Sequence[BoardEnergy]
) -> tuple[PhaseEnergy, ...]:
    rows = [row for device in devices for row in device.rows]
    gross, net = ledger.by_phase("gross"), ledger.by_phase("net")
    found = []
    for phase in Phase:
        of_phase = [row for row in rows if row.phase is phase]
        if of_phase:
            found.append(
                PhaseEnergy(
                    phase=phase,
                    count=len(of_phase),
                    duration_s=math.fsum(row.duration_s for row in of_phase),
                    gross=gross[phase],
                    net=net[phase],
                    naive_j=math.fsum(row.naive_j for row in of_phase),
                    truth=truth_of_phase(
                        [board.truth_by_phase[phase] for board in boards if phase in board.truth_by_phase],
                        gross[phase],
                        net[phase],
                    ),
                )
            )
    return tuple(found)


def _wasted_truth(devices: Sequence[DeviceEnergy], measured: Energy, *, finished: bool) -> TruthCheck | None:
    """The joules that boards wasted beside their truth; None where that of a board is not known."""
    checks = []
    for device in devices:
        wasted = device.ledger.of_phase(*ACTIVE_PHASES) & device.ledger.wasted(finished=finished)
        if device.truth is None or not math.isfinite(true_j := float(device.truth.gross_j[wasted].sum())):
            return None
        measured_j = device.ledger.total("gross", wasted)
        checks.append(TruthCheck.of(measured_j, true_j, device.rounding))
    return all_boards(checks, measured)


def _board(device: DeviceEnergy, finished: bool) -> BoardEnergy:
    ledger = device.ledger
    active = ledger.of_phase(*ACTIVE_PHASES)
    split = device.account.split
    return BoardEnergy(
        device=device.device,
        whole_run=device.whole_run,
        net=ledger.total("net"),
        idle_w=split.idle_w if math.isfinite(split.idle_w) else None,
        baselines=device.account.idle,
        consumed=ledger.total("gross", active),
        wasted=ledger.total("gross", active & ledger.wasted(finished=finished)),
        failed=ledger.total("gross", active & ledger.failed()),
        lost_s=math.fsum(span.duration_s for span in device.spans if span.phase is Phase.LOST),
        readings=device.lines.count,
        inconsistent=device.flagged(ReadingFlag.INCONSISTENT),
        undervoltage=device.flagged(ReadingFlag.UNDERVOLTAGE),
        saturated=device.flagged(ReadingFlag.SATURATED),
        frozen=device.frozen,
        split=split,
        truth=None
        if device.truth is None or not device.whole_run.covered_s
        else TruthCheck.of(device.whole_run, device.truth.whole_j, device.rounding),
        truth_by_phase=truth_by_phase(device),
        meter=device.meter,
    )
