"""One run summed up: everything that tables, figures and JSON say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roambench.contract.phases import Phase
from roambench.energy.comparison.comparison import TransferComparison
from roambench.energy.ledger import Basis
from roambench.energy.links.models import LinkModel
from roambench.energy.links.throughput import Direction
from roambench.experiment.sections import Experiment
from roambench.mobility.trace import MADE_UP
from roambench.report.joule_names import DIFFERENT_SITES
from roambench.report.summaries.batteries import BatterySummary, battery_summary
from roambench.report.summaries.board_state import BoardState, board_states
from roambench.report.summaries.energy import EnergySummary, energy_summary, modelled_from_log_j
from roambench.report.summaries.evidence import RunEvidence
from roambench.report.summaries.failures import failure_flags
from roambench.report.summaries.fitness import Unfit, unfitness
from roambench.report.summaries.flag import Flag, gravest_first
from roambench.report.summaries.flags import flags_of
from roambench.report.summaries.instrument import InstrumentCost
from roambench.report.summaries.learned import learned_flags
from roambench.report.summaries.modelled import ModelledSummary, modelled_summary
from roambench.report.summaries.orders import Incident, OrderSummary, incidents, order_summary
from roambench.report.summaries.peers import PeerSummary, peer_summary
from roambench.report.table10 import factors_between
from roambench.runs.info import RunInfo, RunState
from roambench.runs.learning import (
    DistanceSummary,
    LearningSummary,
    TrainingSummary,
    distance_summary,
    learning_summary,
    training_summary,
)


@dataclass(frozen=True)
class RunSummary:
    """One run. `energy` is None when the run holds neither readings nor phases (a rehearsal)."""

    label: str
    info: RunInfo
    learning: LearningSummary
    trainings: TrainingSummary
    orders: OrderSummary
    incidents: tuple[Incident, ...]
    distance: DistanceSummary | None
    energy: EnergySummary | None
    modelled_from_log_j: Mapping[Direction, float]
    boards: tuple[BoardState, ...]
    instrument: InstrumentCost | None
    link_model: str  # the named link model held against the transfers, "" for none
    doubts: tuple[Flag, ...]  # the gravest first
    experiment: Experiment
    unfit: tuple[Unfit, ...] = ()  # why it should be measured again
    modelled: ModelledSummary | None = None  # of a run on virtual devices; never mixed with `energy`
    peers: PeerSummary | None = None  # of a decentralised run
    batteries: BatterySummary | None = None  # of devices that had some
    lost: str = ""  # as `RunEvidence.lost`

    @property
    def flags(self) -> tuple[str, ...]:
        """The sentences of its `doubts`."""
        return tuple(flag.sentence for flag in self.doubts)

    @property
    def measured(self) -> EnergySummary | None:
        """The energy when a meter saw anything, else None: 0 J over no time is no measurement."""
        return self.energy if self.energy is not None and self.energy.measured else None

    @property
    def spent(self) -> EnergySummary | ModelledSummary | None:
        """The energy that it is judged by: measured where a meter saw anything, else modelled."""
        return self.measured or self.modelled

    @property
    def basis(self) -> Basis | None:
        """The basis of `spent`; None where nothing drew power."""
        return None if self.spent is None else self.spent.gross.basis

    @property
    def made_up_places(self) -> bool:
        """True where its access points stand nowhere, so that its distances mean nothing."""
        return _are_made_up(self.info)

    @property
    def comparison(self) -> TransferComparison | None:
        """Measured against modelled transfers, when a meter was there and there was any transfer."""
        found = self.measured.comparison if self.measured is not None else None
        return found if found is not None and found.transfers else None


def summarise(run: RunEvidence, named: LinkModel | None = None) -> RunSummary:
    """Sum up a run; `named` is one more link model to hold against its transfers."""
    names = run.info.device_names
    finished = run.info.state is RunState.FINISHED
    learning = learning_summary(run.records, run.experiment.rounds.threshold_of)
    orders = order_summary(run.records, names)
    energy = energy_summary(
        run.energy,
        run.records,
        rounds=len(learning.points),
        finished=finished,
        named=named,
        by_round=bool(run.experiment.program.name),
    )
    boards = board_states(names, run.records, run.energy, run.host)
    trainings = training_summary(run.records)
    peers = peer_summary(run.records)
    untrained = peers is None and not trainings.reached_cloud and not run.experiment.program.name
    return RunSummary(
        label=run.label,
        info=run.info,
        learning=learning,
        trainings=trainings,
        orders=orders,
        incidents=incidents(run.records, names),
        distance=None if _are_made_up(run.info) else distance_summary(run.records),
        energy=energy,
        modelled_from_log_j=modelled_from_log_j(run.records),
        boards=boards,
        instrument=run.instrument,
        link_model="" if named is None else named.name,
        doubts=gravest_first(
            [
                *failure_flags(trainings, names, run.experiment, _longest_training_s(run)),
                *learned_flags(run.info, learning, run.experiment, untrained=untrained),
                *flags_of(run, orders, energy, boards),
            ]
        ),
        modelled=modelled_summary(
            run.modelled,
            names,
            steps=len(learning.points),
            threshold_step=learning.threshold_step,
            finished=finished,
            by_round=bool(run.experiment.program.name),
            model_bytes=run.info.model_bytes,
        ),
        peers=peers,
        batteries=battery_summary(run.records, names),
        experiment=run.experiment,
        unfit=unfitness(run.info, energy, boards),
        lost=run.lost,
    )


def _longest_training_s(run: RunEvidence) -> float:
    """Device time, as boards stamped it; 0 where none did."""
    spans = [span for device in (run.energy.devices if run.energy else ()) for span in device.spans]
    return max((span.duration_s for span in spans if span.phase is Phase.TRAIN), default=0.0)


def _are_made_up(info: RunInfo) -> bool:
    return any(doubt.startswith(MADE_UP) for doubt in info.doubts)


def reference_of(summaries: Sequence[RunSummary]) -> RunSummary:
    """The run that the others are compared with: the first of MOHAWK, else the first."""
    return next((run for run in summaries if run.info.system.startswith("mohawk")), summaries[0])


def improvements(summaries: Sequence[RunSummary]) -> dict[str, dict[str, dict[str, float]]]:
    """The factors by which each run spends more than the reference: label -> "gross" or "net" -> row ->
    factor.

    Runs that were not measured are left out, and so is the reference itself.
    """
    reference = reference_of(summaries).measured
    factors: dict[str, dict[str, dict[str, float]]] = {}
    if reference is None:
        return factors
    for run in summaries:
        if run.measured is not None and run.measured is not reference:
            factors[run.label] = {
                "gross": factors_between(run.measured.gross, reference.gross),
                "net": factors_between(run.measured.net, reference.net),
            }
    return factors


def comparison_flags(summaries: Sequence[RunSummary]) -> tuple[str, ...]:
    """The reasons why the runs of a report should not be compared."""
    flags = []
    for what, values in (
        ("traces", {run.info.trace_hash for run in summaries}),
        ("fleets", {run.info.fleet for run in summaries}),
        ("numbers of devices", {len(run.info.device_names) for run in summaries}),
        ("time scales", {run.info.time_scale for run in summaries}),
        (
            "boards left out of their sums",
            {frozenset(run.measured.without) for run in summaries if run.measured},
        ),
        ("sites of meters", {frozenset(run.measured.sites) for run in summaries if run.measured}),
    ):
        if len(values) > 1:
            flags.append(f"the runs have different {what}: their differences are not the systems' alone")
    flags += world_flags(summaries)
    unfinished = [run.label for run in summaries if run.info.state is not RunState.FINISHED]
    if unfinished and len(summaries) > 1:
        flags.append(f"not finished, so its sums are over a shorter time: {', '.join(unfinished)}")
    return tuple(flags)


def world_flags(summaries: Sequence[RunSummary]) -> tuple[str, ...]:
    """The answer where the hashes of the traces do not say whether runs saw the same devices at the same
    APs."""
    flags = []
    worlds = [run for run in summaries if run.info.assignment_hash]
    for trace, rule in sorted({(run.info.trace_hash, run.info.association) for run in worlds}):
        alike = [run for run in worlds if (run.info.trace_hash, run.info.association) == (trace, rule)]
        if len({run.info.assignment_hash for run in alike}) > 1:
            labels = ", ".join(run.label for run in alike)
            flags.append(
                f"{labels}: the same trace and rule ({rule}), but devices were at different APs: their "
                "worlds differ (a seed that draws them, or another number of steps)"
            )
    for found in sorted({run.info.assignment_hash for run in worlds}):
        same = [run for run in worlds if run.info.assignment_hash == found]
        if len({run.info.trace_hash for run in same}) > 1:
            labels = ", ".join(run.label for run in same)
            flags.append(
                f"{labels}: different traces, but the same devices at the same APs at every step; distances "
                "or names differ"
            )
    return tuple(flags)


def scope_of(runs: Sequence[RunSummary]) -> str:
    """The part of boards that the measured joules of these runs are of: "" for whole boards."""
    scopes = {run.measured.scope for run in runs if run.measured}
    return next(iter(scopes), "") if len(scopes) < 2 else DIFFERENT_SITES


def boards_left_out(runs: Sequence[RunSummary]) -> str:
    """Sentences for under every table of sums: what they are of where not of whole boards, and which boards
    are in none of them; "" where they are of all."""
    texts = [(run.label, run.measured.scope_text) for run in runs if run.measured]
    return "".join(f" {label} is {text}." for label, text in texts if text)
