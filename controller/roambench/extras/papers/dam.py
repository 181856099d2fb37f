"""The distribution-aware mobility papers' MNIST results, with the runs of a sweep beside them; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roambench.extras.papers.dam_figures import BOUND, dam_figures
from roambench.extras.papers.peer_runs import DAM_NAMES, PeerRun, differences, known, spread
from roambench.report import numbers
from roambench.report.numbers import over_seeds
from roambench.report.table import ReportTable

#: Table II of Jahani et al. (journal): final test accuracy in %, 20 clients, 3 mobile, R_c = 3, R_m = 5.
#: Mobility model -> Dirichlet α -> figure.
ACCURACY_PERCENT: Final[Mapping[str, Mapping[float, float]]] = {
    "dcm": {0.05: 80.83, 0.1: 89.65},
    "dam": {0.05: 79.85, 0.1: 88.51},
    "random": {0.05: 72.90, 0.1: 86.90},
    "static": {0.05: 47.50, 0.1: 66.84},
}
#: Clients, G, |C_m|, R_c and R_m.
_Place = tuple[int, int, int, float, float]


@dataclass(frozen=True, slots=True)
class GridPaper:
    """The main result of a paper in print: where it stands, its network, final accuracies by movement and
    α, and leads in points by pair and α."""

    item: str
    place: _Place
    accuracy: Mapping[str, Mapping[float, float]]
    leads: Mapping[tuple[str, str], Mapping[float, str]]


def _lead_of(better: str, worse: str) -> dict[float, str]:
    there, beside = ACCURACY_PERCENT[better], ACCURACY_PERCENT[worse]
    return {alpha: f"{value - beside[alpha]:+.2f}" for alpha, value in there.items()}


JOURNAL: Final = GridPaper(
    "the journal's Table II",
    (20, 18, 3, 3.0, 5.0),
    ACCURACY_PERCENT,
    {pair: _lead_of(*pair) for pair in (("dcm", "dam"), ("dam", "random"), ("random", "static"))},
)
#: Section V-B: DAM and DCM "on average"; its curves have no figures in print.
_ON_AVERAGE: Final = {0.05: "about +8 (mean of both)", 0.1: "about +3 (mean of both)"}
WORKSHOP: Final = GridPaper(
    "the workshop's Fig. 2",
    (20, 18, 5, 3.0, 5.0),
    {},
    {
        ("dcm", "dam"): {},
        ("dcm", "random"): _ON_AVERAGE,
        ("dam", "random"): _ON_AVERAGE,
        ("random", "static"): {},
    },
)


def dam_tables(runs: Sequence[PeerRun], paper: GridPaper = JOURNAL) -> list[ReportTable]:
    """[] where no run moved by one of the paper's models. The paper's main result in one setting
    (`of_one_place`): accuracy first, then joules, then the network; then the figures."""
    kept = of_one_place(runs, paper)
    if not kept:
        return []
    alphas = sorted({run.dirichlet for run in kept})
    systems = list(dict.fromkeys(run.system for run in kept))
    return [
        _accuracy(kept, alphas, systems, paper),
        _order(kept, alphas, systems, paper),
        _energy(kept, alphas, systems),
        _network(kept, alphas, systems),
        *dam_figures([run for run in runs if run.mobility in DAM_NAMES], journal=paper is JOURNAL),
    ]


def of_one_place(runs: Sequence[PeerRun], paper: GridPaper = JOURNAL) -> list[PeerRun]:
    """The runs of the paper's main result: those with its network and movement, or where there are none those
    of the setting with the most. Static clients have no movement, so theirs are each seed's once."""
    named = [run for run in runs if run.mobility in DAM_NAMES]
    near = [run for run in named if run.system != BOUND] or named
    places = Counter(_place(run) for run in near if run.mobility != "static") or Counter(map(_place, near))
    if not places:
        return []
    chosen = paper.place if paper.place in places else max(sorted(places), key=lambda place: places[place])
    moving = [run for run in near if run.mobility != "static" and _place(run) == chosen]
    clients, grid, _, radius, _ = chosen
    still = {
        (run.system, run.dirichlet, run.seed): run
        for run in near
        if run.mobility == "static" and (run.clients, run.grid, run.radius) == (clients, grid, radius)
    }
    return [*still.values(), *moving]


def _place(run: PeerRun) -> _Place:
    return run.clients, run.grid, run.mobile, run.radius, run.reach


def _named_place(runs: Sequence[PeerRun]) -> str:
    clients, grid, mobile, radius, reach = _place(runs[-1])
    limit = "∞" if reach == math.inf else f"{reach:g}"
    return f"{clients} clients on {grid} x {grid} points, {mobile} mobile, R_c = {radius:g}, R_m = {limit}"


def _of(runs: Sequence[PeerRun], mobility: str, alpha: float, system: str) -> list[PeerRun]:
    return [run for run in runs if (run.mobility, run.dirichlet, run.system) == (mobility, alpha, system)]


def _keys(runs: Sequence[PeerRun]) -> set[tuple[str, float, str]]:
    return {(run.mobility, run.dirichlet, run.system) for run in runs}


def _models(runs: Sequence[PeerRun]) -> list[str]:
    return [model for model in DAM_NAMES if any(run.mobility == model for run in runs)]


def _accuracy(
    runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str], paper: GridPaper
) -> ReportTable:
    rows = []
    for system in systems:
        for model in _models(runs):
            cells = [system, DAM_NAMES[model]]
            for alpha in alphas:
                found = known(_of(runs, model, alpha, system), "final_accuracy")
                cells.append(spread(found, scale=100.0, unit=" %"))
                if paper.accuracy:
                    cells.append(_percent(paper.accuracy[model].get(alpha)))
            rows.append(tuple(cells))
    return ReportTable(
        "dam-accuracy",
        f"Final accuracy ({paper.item})",
        f"{_named_place(runs)}. Mean over the clients on the test set after the last iteration, "
        f"{over_seeds(len(_of(runs, *key)) for key in _keys(runs))}.",
        (
            "mixing",
            "movement",
            *(c for alpha in alphas for c in (f"α = {alpha:g}", *(["paper"] if paper.accuracy else []))),
        ),
        tuple(rows),
        numeric_from=2,
    )


def _order(
    runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str], paper: GridPaper
) -> ReportTable:
    """The paper's ordering, pair by pair and seed by seed: means can hide that seeds disagree."""
    rows = []
    for system in systems:
        for (better, worse), leads in paper.leads.items():
            cells = [system, f"{DAM_NAMES[better]} - {DAM_NAMES[worse]}"]
            for alpha in alphas:
                found = differences(_of(runs, better, alpha, system), _of(runs, worse, alpha, system))
                ahead = sum(difference > 0.0 for difference in found)
                cells += [
                    f"{spread(found, scale=100.0)} ({ahead} of {len(found)})" if found else numbers.NONE,
                    leads.get(alpha, numbers.NONE),
                ]
            rows.append(tuple(cells))
    return ReportTable(
        "dam-order",
        "Is the order the paper's? DCM ≥ DAM > random > static",
        "Differences of final accuracy in percentage points between runs of the same seed, "
        f"{over_seeds(len(_of(runs, *key)) for key in _keys(runs))}; in brackets, for how many seeds the "
        "first one is ahead.",
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
                    yield (system, f"{alpha:g}", DAM_NAMES[model]), found


def _energy(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> ReportTable:
    rows = [
        (
            *place,
            spread(known(found, "consumed_j"), places=0, unit=" J"),
            spread(known(found, "final_accuracy"), scale=100.0, places=1, unit=" %"),
            spread(known(found, "joules_per_point"), places=2, unit=" J"),
        )
        for place, found in _rows(runs, alphas, systems)
    ]
    return ReportTable(
        "dam-energy",
        "Joules per point of accuracy (in no paper)",
        "All that the clients are modelled to draw in half steps and exchanges (sent and received bytes by "
        "Eq. 1, idle draw included), and that by percentage points of final accuracy. Moving itself is free "
        "here: the carrier of a device pays for it. Waiting for others is not counted.",
        ("mixing", "α", "movement", "consumed", "final accuracy", "per point"),
        tuple(rows),
        numeric_from=3,
    )


def _network(runs: Sequence[PeerRun], alphas: Sequence[float], systems: Sequence[str]) -> ReportTable:
    rows = []
    for place, found in _rows(runs, alphas, systems):
        mean_models = known(found, "average_accuracy")
        connected = known(found, "connected_within")
        rows.append(
            (
                *place,
                spread(known(found, "neighbours")),
                f"{spread(connected, places=0)} ({len(connected)} of {len(found)})",
                spread(known(found, "distribution_distance"), places=3),
                spread(mean_models, scale=100.0, places=1, unit=" %"),
            )
        )
    return ReportTable(
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
