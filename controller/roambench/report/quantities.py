"""Every figure of a run, once: its name, title, unit, direction, and where it comes from.

Sweeps, comparisons, exports, the report's JSON and its tables are loops over `QUANTITIES`. A measured and a
modelled energy are one quantity: the basis of a run says which of the two it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from roambench.contract.metric import ACCURACY, Better
from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import KINDS, Basis, Kind
from roambench.report import numbers
from roambench.report.joule_names import BOARDS, FAILED, LEARNING, WASTED
from roambench.rounds.records import LOCAL_DIVERGENCE

if TYPE_CHECKING:  # a sweep need not load what makes a report; its points do
    from roambench.report.summaries.run import RunSummary

#: A figure of one run; energies have their uncertainty. None where the run has none.
Value = Energy | float | int | None


@dataclass(frozen=True, slots=True)
class Quantity:
    """The name of a figure and its place in a run.

    `name`: in sweeps, comparisons and Python. `of`: the path to it in a `RunSummary`, or what makes it.
    `unit`: a share is 0..1 and printed in percent. `better`: "" where more is neither better nor worse, and
    of a task's own, whose direction its runs know. `basis`: of joules; "either": measured where the run has
    meters, else modelled. `tracked`: its name in experiment trackers, "" where they do not get it.
    """

    name: str
    title: str
    of: str | Callable[[RunSummary], Value]
    unit: Literal["", "J", "s", "m", "km", "share"] = ""
    better: Better | Literal[""] = ""
    tracked: str = ""
    places: int = 2  # printed behind the point; one digit more of the standard deviation would say nothing
    basis: Basis | Literal["either"] | None = None

    @property
    def share(self) -> bool:
        """True for what is printed in percent."""
        return self.unit == "share"

    def figure(self, run: RunSummary) -> Value:
        """The figure of a run."""
        return self.of(run) if callable(self.of) else _at(run, self.of)

    def text(self, run: RunSummary) -> str:
        """The figure of a run as tables have it, energies ± k = 2; a dash for none."""
        figure = self.figure(run)
        if isinstance(figure, Energy):
            return numbers.energy(figure, zero="0 J")
        if isinstance(figure, int):
            return f"{figure:,}"
        return numbers.percent(figure) if self.share else numbers.number(figure, self.places)

    def basis_in(self, of_run: Basis | None) -> Basis | None:
        """Its basis in a run with this one; None for what is not joules."""
        return of_run if self.basis == "either" else self.basis

    def heading(self, basis: Basis | None = None) -> str:
        """Title, basis and unit: wasted (modelled), J."""
        unit = f", {self.unit}" if self.unit and not self.share else ""
        return f"{self.title}{f' ({basis})' if basis else ''}{unit}"


def number_of(figure: Value) -> float | None:
    """The figure without its uncertainty."""
    return figure.joules if isinstance(figure, Energy) else figure


def figures_of(run: RunSummary) -> dict[str, Energy | float]:
    """The figures by which a run is compared: every quantity that it has and that is a finite number.

    There are no joules of boards where one of them is left out of the sums: those of two runs would be of
    different boards.
    """
    left_out = run.measured is not None and bool(run.measured.without)
    found = {}
    for name, quantity in QUANTITIES.items():
        figure = quantity.figure(run)
        of_boards = quantity.unit == "J" and quantity.basis_in(run.basis) != "modelled"
        if figure is not None and math.isfinite(number_of(figure) or 0.0) and not (left_out and of_boards):
            found[name] = figure
    return found


def part_of(run: RunSummary, part: str) -> dict[str, float | None]:
    """The figures of one part of a run's summary, by their names there: "learning", "trainings"."""
    return {
        quantity.of.rpartition(".")[2]: number_of(quantity.figure(run))
        for quantity in QUANTITIES.values()
        if isinstance(quantity.of, str) and quantity.of.startswith(f"{part}.")
    }


def _at(run: RunSummary, path: str) -> Any:
    """None where a part of the path is."""
    found: Any = run
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return found


def _joules(
    name: str,
    title: str,
    of: str | Callable[[RunSummary], Value],
    kind: Kind = "gross",
    better: Better | Literal[""] = "lower",
    tracked: str = "{basis}_{kind}_{name}_j",
) -> Quantity:
    """Measured or modelled. `of` and `tracked` may hold `{kind}`."""
    net, title = ("", title) if kind == "gross" else ("_net", f"{title}, net")
    if isinstance(of, str):
        of = of.format(kind=kind)
    tracked = tracked.format(basis="{basis}", kind=kind, name=name)
    return Quantity(f"{name}{net}_j", title, of, "J", better, tracked, 1, "either")


def _of_phase(phase: Phase, kind: Kind) -> Quantity:
    def energy(run: RunSummary) -> Energy | None:
        sums = () if run.spent is None else run.spent.phases
        found = next((row for row in sums if row.phase is phase), None)
        return None if found is None else found.gross if kind == "gross" else found.net

    better: Better | Literal[""] = "lower" if phase in ACTIVE_PHASES else ""
    return _joules(phase.value, phase.value, energy, kind, better)


def _to_threshold(run: RunSummary) -> Energy | None:
    """The errors of the meters are those of the whole in proportion."""
    step = run.learning.threshold_step
    if run.spent is None or step is None or run.spent.gross.cumulative_consumed.joules <= 0.0:
        return None
    consumed = run.spent.gross.cumulative_consumed
    joules = math.fsum(j for at, j in run.spent.consumed_by_step.items() if at <= step)
    return replace(consumed.times(joules / consumed.joules), joules=joules)


def _per_point(run: RunSummary) -> Energy | None:
    """Joules by percentage points of the final accuracy."""
    share = None if run.peers is None else run.peers.joules_per_point(1.0)
    return None if run.spent is None or share is None else run.spent.gross.cumulative_consumed.times(share)


_CODED_UPLOADS: Final = {Phase.UPLOAD, Phase.ENCODE}


def _coding_saves(run: RunSummary) -> float | None:
    """The joules that uploads of whole models would have drawn more, less what the encoding drew. None where
    nothing was encoded."""
    rows = {} if run.modelled is None else {row.phase: row.gross.joules for row in run.modelled.phases}
    if run.modelled is None or run.modelled.whole_uploads_j is None or not rows.keys() >= _CODED_UPLOADS:
        return None
    return run.modelled.whole_uploads_j - rows[Phase.UPLOAD] - rows[Phase.ENCODE]


def _transfers(run: RunSummary) -> float | None:
    """No figure where no transfer had a size (a rehearsal)."""
    return math.fsum(run.modelled_from_log_j.values()) or None


def _per_client_to_threshold(run: RunSummary) -> float | None:
    """Table 6; no figure where the threshold was not reached."""
    if run.modelled is None or not run.modelled.to_threshold.reached:
        return None
    return run.modelled.to_threshold.joules_per_client


def _rounds_to_threshold(run: RunSummary) -> float | None:
    """The round as the papers count: t of the cloud aggregation whose model first reached the threshold."""
    step = run.learning.threshold_step
    return None if step is None else step + run.learning.first_round


def _rounds(run: RunSummary) -> int:
    return len(run.learning.points) - 1 + run.learning.first_round


def _local_divergence(run: RunSummary) -> float | None:
    """MIDDLE's Eq. 23 at the last cloud aggregation."""
    return run.learning.final_metrics.get(LOCAL_DIVERGENCE)


def _kilometres(path: str) -> Callable[[RunSummary], float | None]:
    def figure(run: RunSummary) -> float | None:
        metres = _at(run, path)
        return None if metres is None else metres / 1000.0

    return figure


def _accuracy_of_peers(path: str) -> Callable[[RunSummary], float | None]:
    """None where peers are judged by something else."""
    return lambda run: _at(run, path) if run.peers and run.peers.metric == ACCURACY else None


#: In the order of tables: joules, what was learned, what peers did.
_ROWS: Final = (
    Quantity(
        "whole_run_j", BOARDS, "measured.whole_run", "J", "lower", "measured_whole_run_j", 1, "measured"
    ),
    Quantity(
        "whole_run_net_j", f"{BOARDS}, net", "measured.whole_run_net", "J", "lower",
        "measured_whole_run_net_j", 1, "measured",
    ),
    *(_joules("consumed", LEARNING, "spent.{kind}.cumulative_consumed", kind) for kind in KINDS),
    *(_joules("wasted", WASTED, "spent.{kind}.cumulative_wasted", kind) for kind in KINDS),
    *(_joules("failed", FAILED, "spent.{kind}.cumulative_failed", kind) for kind in KINDS),
    *(
        _joules(
            f"{name}_per_{each}", f"{title} per {each}", f"spent.gross.per_{each}_{name}.mean", tracked=""
        )
        for each in ("training", "round")
        for name, title in (("consumed", LEARNING), ("wasted", WASTED))
    ),
    _joules("to_threshold", f"{LEARNING} up to the threshold", _to_threshold, tracked=""),
    *(_of_phase(phase, kind) for phase in Phase for kind in KINDS),
    Quantity("coding_saves_j", "saved by coding uploads", _coding_saves, "J", "higher", "", 1, "modelled"),
    Quantity("modelled_j", "transfers by Eq. 1", _transfers, "J", "lower", "", 1, "modelled"),
    *(
        Quantity(f"communication_j_{name}", f"transfers {title}", of, "J", "lower", "", 1, "modelled")
        for name, title, of in (
            ("to_threshold", "per client to the threshold", _per_client_to_threshold),
            ("per_client", "per client", "modelled.to_threshold.joules_per_client"),
            ("per_participant", "per participant", "modelled.to_threshold.joules_per_participant"),
        )
    ),
    Quantity("joules_per_point", "per point of accuracy", _per_point, "J", "lower", basis="either"),
    Quantity("coverage", "coverage", "measured.whole_run.coverage", "share", "", "coverage"),
    Quantity(
        "emulator_true_j", "true energy of the emulated boards", "measured.truth.true_j", "J", "",
        "emulator_true_j", 1,
    ),
    Quantity("duration_s", "duration", "measured.duration_s", "s", "lower"),
    Quantity("final_accuracy", "final accuracy", "learning.final_accuracy", "share", "higher", "accuracy"),
    Quantity("best_accuracy", "best accuracy", "learning.best_accuracy", "share", "higher", "best_accuracy"),
    Quantity("final_loss", "final loss", "learning.final_loss", "", "lower", "loss", 3),
    Quantity("threshold_step", "threshold step", "learning.threshold_step", tracked="threshold_step"),
    Quantity("rounds_to_threshold", "rounds to threshold", _rounds_to_threshold, "", "lower", places=1),
    Quantity(
        "aggregated_per_step", "aggregated per step", "learning.aggregated_per_step", "", "higher",
        "aggregated_per_step",
    ),
    Quantity("trainings", "trainings", "trainings.ordered", "", "", "trainings", 1),
    Quantity("aggregated_trainings", "aggregated trainings", "trainings.aggregated", places=1),
    Quantity("wasted_trainings", "wasted trainings", "trainings.wasted", "", "", "wasted_trainings", 1),
    Quantity("wasted_share", "trainings wasted", "trainings.wasted_share", "share", "lower", "wasted_share"),
    Quantity("failed_trainings", "failed trainings", "trainings.failed", "", "", "failed_trainings", 1),
    Quantity("failed_share", "trainings failed", "trainings.failed_share", "share", "lower", "failed_share"),
    Quantity("computed_trainings", "trainings computed", "orders.computed", places=1),
    Quantity("deaths", "devices that went off", "batteries.count", "", "lower"),
    Quantity("dead_share", "time without charge", "batteries.dead_share", "share", "lower"),
    Quantity("lowest_charge", "lowest charge", "batteries.lowest_charge", "share", "higher"),
    Quantity("died_trainings", "models lost without charge", "batteries.lost", "", "lower"),
    Quantity("cloud_aggregations", "cloud aggregations", "learning.cloud_aggregations"),
    Quantity("local_divergence", "divergence of local models", _local_divergence, places=4),
    Quantity("distance_m", "device to AP", "distance.mean_m", "m", places=0),
    Quantity("distance_km", "device to AP", _kilometres("distance.mean_m"), "km"),
    Quantity("distance_sd_km", "its sd", _kilometres("distance.sd_m"), "km"),
    Quantity("steps", "steps played", lambda run: len(run.learning.points), places=0),
    Quantity("rounds", "rounds played", _rounds, places=0),
    Quantity(
        "average_accuracy", "accuracy of the mean model", _accuracy_of_peers("peers.final_average"), "share",
        "higher",
    ),
    Quantity("mobility_gap", "high - low mobility", _accuracy_of_peers("peers.mean_gap"), "share"),
    Quantity("left_out", "models left out", "peers.left_out_models", "", "lower", places=1),
    Quantity("neighbours", "neighbours per exchange", "peers.mean_neighbours"),
    Quantity("spectral_gap", "spectral gap", "peers.mean_spectral_gap", places=4),
    Quantity("connected_within", "iterations to connect, B", "peers.connected_within", places=1),
    Quantity("distribution_distance", "distance of classes", "peers.mean_distribution_distance", places=3),
)  # fmt: skip
#: By name.
QUANTITIES: Final[Mapping[str, Quantity]] = MappingProxyType({row.name: row for row in _ROWS})
#: Costs until the threshold, by name: a run that never reached it has none, or what all of its rounds cost.
UP_TO_THRESHOLD: Final = frozenset(
    {
        "rounds_to_threshold",
        "to_threshold_j",
        "communication_j_to_threshold",
        "communication_j_per_client",
        "communication_j_per_participant",
    }
)
