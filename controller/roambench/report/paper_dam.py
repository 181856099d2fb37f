"""The distribution-aware mobility papers' MNIST table, with the runs of a sweep beside it; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from roambench.report import numbers
from roambench.report.paper_peer_runs import PeerRun, figures, spread
from roambench.report.table import Table

#: Table II of Jahani et al. (journal): final test accuracy in %, 20 clients, 3 mobile, R_c = 3, R_m = 5.
#: Mobility model -> Dirichlet α -> figure.
ACCURACY_PERCENT: Final[Mapping[str, Mapping[float, float]]] = {
    "dcm": {0.05: 80.83, 0.1: 89.65},
    "dam": {0.05: 79.85, 0.1: 88.51},
    "random": {0.05: 72.90, 0.1: 86.90},
    "static": {0.05: 47.50, 0.1: 66.84},
}
NAMES: Final = {"dcm": "DCM", "dam": "DAM", "random": "Random", "static": "Static"}


def dam_tables(runs: Sequence[PeerRun]) -> list[Table]:
    """[] where no run moved by one of the paper's models. Accuracy first, then joules, then the network."""
    kept = [run for run in runs if run.mobility in NAMES]
    alphas = sorted({run.dirichlet for run in kept})
    systems = list(dict.fromkeys(run.system for run in kept))
    if not kept:
        return []
    return [
        _accuracy(kept, alphas, systems),
        _order(kept, alphas, systems),
        _energy(kept, alphas, systems),
        _network(kept, alphas, systems),
    ]


def _of(runs: Sequence[PeerRun], mobility: str, alpha: float, system: str) -> list[PeerRun]:
    return [run for run in runs if (run.mobility, run.dirichlet, run.system) == (mobility, alpha, system)]


def _models(runs: Sequence[PeerRun]) -> list[str]:
    return [model for model in NAMES if any(run.mobility == model for run in runs)]


def _accuracy(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> Table:
    rows = []
    for system in systems:
        for model in _models(runs):
            cells = [system, NAMES[model]]
            for alpha in alphas:
                found = figures(run.final_accuracy for run in _of(runs, model, alpha, system))
                paper = ACCURACY_PERCENT[model].get(alpha)
                cells += [spread(found, scale=100.0, unit=" %"), _percent(paper)]
            rows.append(tuple(cells))
    return Table(
        "dam-accuracy",
        "Final accuracy (the journal's Table II)",
        "Mean over the clients on the test set after the last iteration, mean ± sd over the seeds.",
        ("mixing", "movement", *(cell for alpha in alphas for cell in (f"α = {alpha:g}", "paper"))),
        tuple(rows),
        numeric_from=2,
    )


def _order(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> Table:
    """The paper's ordering, pair by pair and seed by seed: means can hide that seeds disagree."""
    pairs = (("dcm", "dam"), ("dam", "random"), ("random", "static"))
    rows = []
    for system in systems:
        for better, worse in pairs:
            cells = [system, f"{NAMES[better]} - {NAMES[worse]}"]
            for alpha in alphas:
                other = {run.seed: run.final_accuracy for run in _of(runs, worse, alpha, system)}
                found = [
                    run.final_accuracy - beside
                    for run in _of(runs, better, alpha, system)
                    if run.final_accuracy is not None and (beside := other.get(run.seed)) is not None
                ]
                ahead = sum(difference > 0.0 for difference in found)
                paper = ACCURACY_PERCENT[better].get(alpha), ACCURACY_PERCENT[worse].get(alpha)
                known = None if None in paper else (paper[0] or 0.0) - (paper[1] or 0.0)
                cells += [
                    f"{spread(found, scale=100.0)} ({ahead} of {len(found)})" if found else numbers.NONE,
                    numbers.NONE if known is None else f"{known:+.2f}",
                ]
            rows.append(tuple(cells))
    return Table(
        "dam-order",
        "Is the order the paper's? DCM ≥ DAM > random > static",
        "Differences of final accuracy in percentage points between runs of the same seed, mean ± sd; in "
        "brackets, for how many seeds the first one is ahead.",
        ("mixing", "difference", *(cell for alpha in alphas for cell in (f"α = {alpha:g}", "paper"))),
        tuple(rows),
        numeric_from=2,
    )


#: The first cells of a row, and its runs.
_Row = tuple[tuple[str, str, str], list[PeerRun]]


def _rows(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> Iterator[_Row]:
    """A row for every mixing, split and movement that was run."""
    for system in systems:
        for alpha in alphas:
            for model in _models(runs):
                if found := _of(runs, model, alpha, system):
                    yield (system, f"{alpha:g}", NAMES[model]), found


def _energy(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> Table:
    rows = [
        (
            *place,
            spread(figures(run.consumed_j for run in found), places=0, unit=" J"),
            spread(figures(run.final_accuracy for run in found), scale=100.0, places=1, unit=" %"),
            spread(figures(run.joules_per_point for run in found), places=2, unit=" J"),
        )
        for place, found in _rows(runs, alphas, systems)
    ]
    return Table(
        "dam-energy",
        "Joules per point of accuracy (in no paper)",
        "All that the clients are modelled to draw in half steps and exchanges (sent and received bytes by "
        "Eq. 1, idle draw included), and that by percentage points of final accuracy. Moving itself is free "
        "here: whoever carries a device pays for it. Waiting for others is not counted.",
        ("mixing", "α", "movement", "consumed", "final accuracy", "per point"),
        tuple(rows),
        numeric_from=3,
    )


def _network(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> Table:
    rows = []
    for place, found in _rows(runs, alphas, systems):
        mean_models = figures(run.average_accuracy for run in found)
        connected = figures(run.connected_within for run in found)
        rows.append(
            (
                *place,
                spread(figures(run.neighbours for run in found)),
                f"{spread(connected, places=0)} ({len(connected)} of {len(found)})",
                spread(figures(run.distribution_distance for run in found), places=3),
                spread(mean_models, scale=100.0, places=1, unit=" %"),
            )
        )
    return Table(
        "dam-network",
        "The network",
        "Neighbours per client and iteration; B of B-strong connectivity (in brackets, for how many seeds "
        "there is one); mean distance of a neighbourhood's classes to everybody's; accuracy of the mean of "
        "all models.",
        ("mixing", "α", "movement", "neighbours", "B", "distance of classes", "mean model"),
        tuple(rows),
        numeric_from=3,
    )


def _percent(value: float | None) -> str:
    return numbers.NONE if value is None else f"{value:.2f} %"
