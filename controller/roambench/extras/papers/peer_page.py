"""The results of decentralised sweeps as one Markdown page with curves: our tables beside a paper's."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.extras.papers.alike import refuse_unlike, taken_together
from roambench.extras.papers.dam import JOURNAL, WORKSHOP, GridPaper, dam_tables, of_one_place
from roambench.extras.papers.de_heredia import de_heredia_tables
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.extras.papers.peer_runs import DAM_NAMES, PeerRun
from roambench.extras.papers.results_page import (
    CurvesOf,
    ResultsPage,
    Says,
    accuracy_charts,
    part_of,
    results_page,
    scale_table,
)
from roambench.report import numbers
from roambench.report.figures.chart import Chart
from roambench.report.table import ReportTable

#: Whose clients are on a grid.
_ON_GRID: Final[Mapping[str, GridPaper]] = {"dam": JOURNAL, "workshop": WORKSHOP}
#: What a page says of the scale, and what the paper says where it does.
_SAYS: Final[Says] = (
    ("fleet", lambda run: run.fleet),
    ("mixing", lambda run: run.system),
    ("seeds", lambda run: run.experiment.seed),
    ("clients", lambda run: run.experiment.fleet.agents),
    ("mobility", lambda run: run.experiment.mobility.model),
    ("data set", lambda run: run.experiment.learning.task or run.experiment.learning.dataset),
    ("training images shared out", lambda run: part_of(run.experiment.learning.train_images)),
    ("partition", lambda run: run.experiment.learning.partition),
    ("model", lambda run: run.experiment.learning.model),
    ("half step", lambda run: run.experiment.decentralised.half_step),
    ("step size", lambda run: run.experiment.learning.learning_rate),
    ("momentum", lambda run: run.experiment.learning.momentum),
    ("iterations", lambda run: run.experiment.decentralised.iterations),
    ("scored", lambda run: f"every {run.experiment.decentralised.evaluate_every}"),
    ("test images", lambda run: part_of(run.experiment.learning.test_images)),
    ("contact radius", lambda run: f"{run.experiment.contacts.radius:g}"),
)
_GRID: Final[Says] = (
    ("grid", lambda run: f"{run.experiment.mobility.grid} x {run.experiment.mobility.grid}"),
    ("mobile clients", lambda run: run.experiment.mobility.mobile),
    ("longest move R_m", lambda run: _reach(run.experiment.mobility.reach or math.inf)),
)
_BOX: Final[Says] = (
    (
        "box, m",
        lambda run: f"{run.experiment.mobility.width_m:g} x {run.experiment.mobility.height_m:g}",
    ),
    ("s_max, m per iteration; beta", lambda run: _speeds(run)),
)
_PAPER_SAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "dam": {
        "mixing": "Metropolis-Hastings", "seeds": "6 runs", "clients": "20", "data set": "MNIST",
        "training images shared out": "all", "partition": "Dirichlet 0.05 and 0.1",
        "model": "CNN: two convolutions, two layers", "half step": "full batch", "step size": "0.03",
        "momentum": "not given", "iterations": "1000", "test images": "all", "contact radius": "3",
        "grid": "18 x 18", "mobile clients": "3 in Table II, 5 in the figures", "longest move R_m": "5",
    },
    "workshop": {
        "mixing": "data size", "seeds": "10 runs", "clients": "20", "data set": "MNIST",
        "training images shared out": "all", "partition": "Dirichlet 0.05 and 0.1",
        "model": "CNN: two convolutions, two layers", "half step": "full batch", "step size": "0.3",
        "momentum": "0.9", "iterations": "1000", "scored": "every 10", "test images": "all",
        "contact radius": "3", "grid": "18 x 18", "mobile clients": "5", "longest move R_m": "5, ∞",
    },
    "de-heredia": {
        "mixing": "plain averages; mobility-aware, α 0.1 to 1", "seeds": "3", "clients": "48",
        "data set": "CIFAR-10", "half step": "one mini-batch",
    },
}  # fmt: skip


def peer_page(
    folders: Sequence[Path],
    paper: str,
    *,
    title: str,
    curves_name: str,
    foreword: Sequence[str] = (),
    first: Sequence[ReportTable] = (),
) -> ResultsPage:
    """The page of the finished decentralised runs of these sweeps, beside `paper` ("dam", "workshop",
    "de-heredia"); `first` are tables that stand before the paper's. RunError where none of the runs is like
    the paper's, or runs of one setting differ in more than the seed."""
    runs = taken_together(folders)
    peers = [peer_run(run) for run in runs]
    grid = _ON_GRID.get(paper)
    tables = dam_tables(peers, grid) if grid is not None else de_heredia_tables(peers)
    if not tables:
        raise RunError(
            f"{', '.join(map(str, folders))}: no runs to set beside the paper: expected mobility.model = "
            f"{', '.join(DAM_NAMES) if grid is not None else 'reflected_walk'}"
        )
    refuse_unlike(runs, _dam_cell if grid is not None else _de_heredia_cell)
    return results_page(
        folders,
        runs,
        title=title,
        scale=scale_table(runs, (*_SAYS, *(_GRID if grid is not None else _BOX)), _PAPER_SAYS[paper]),
        tables=[*first, *tables],
        points=_points(peers, paper),
        curves=CurvesOf(
            "Accuracy over iterations",
            _curves(_shown(runs, peers, paper), paper),
            "Mean over the clients, of the first seed.",
        ),
        curves_name=curves_name,
        foreword=foreword,
    )


def peer_run(run: FinishedRun) -> PeerRun:
    """The run as a row of the papers' tables."""
    experiment = run.experiment
    return PeerRun(
        system=run.system,
        mobility=experiment.mobility.model,
        partition=experiment.learning.partition,
        dirichlet=experiment.learning.alpha,
        fast_share=experiment.mobility.fast_share,
        mixing_alpha=experiment.decentralised.alpha,
        seed=experiment.seed,
        clients=experiment.fleet.agents,
        grid=experiment.mobility.grid,
        mobile=experiment.mobility.mobile,
        radius=math.inf if experiment.contacts.everybody else experiment.contacts.radius,
        reach=experiment.mobility.reach or math.inf,
        figures=run.outcome.figures,
    )


def _dam_cell(run: FinishedRun) -> Hashable | None:
    """The settings that the tables keep apart."""
    found = peer_run(run)
    place = found.clients, found.grid, found.mobile, found.radius, found.reach
    return (run.system, found.mobility, found.dirichlet, *place) if found.mobility in DAM_NAMES else None


def _de_heredia_cell(run: FinishedRun) -> Hashable | None:
    """The settings that de Heredia's tables keep apart."""
    experiment = run.experiment
    if experiment.mobility.model != "reflected_walk":
        return None
    alpha = experiment.decentralised.alpha if run.system == "mobility_aware" else None
    return run.system, experiment.learning.partition == "iid", experiment.mobility.fast_share, alpha


def _speeds(run: FinishedRun) -> str:
    return f"{run.experiment.mobility.speed_max_m:g}; {run.experiment.mobility.beta:g}"


def _shown(runs: Sequence[FinishedRun], peers: Sequence[PeerRun], paper: str) -> list[FinishedRun]:
    """The runs whose curves are drawn: one of a kind."""
    grid = _ON_GRID.get(paper)
    chosen = of_one_place(peers, grid) if grid is not None else list(peers)
    return [run for run, peer in zip(runs, peers, strict=True) if any(peer is one for one in chosen)]


def _curves(runs: Sequence[FinishedRun], paper: str) -> tuple[Chart, ...]:
    first = min(run.experiment.seed for run in runs)
    curves = []
    for run in runs:
        if run.experiment.seed == first and run.outcome.scored:
            learning, mobility = run.experiment.learning, run.experiment.mobility
            if paper in _ON_GRID:
                panel, name = f"{run.system}, α = {learning.alpha:g}", DAM_NAMES.get(mobility.model, "")
            else:
                panel, name = f"{run.system}, {learning.partition}", f"p = {mobility.fast_share:g}"
                if run.system == "mobility_aware":
                    panel += f", α = {run.experiment.decentralised.alpha:g}"
            curves.append((panel, name, run.outcome.scored))
    return accuracy_charts(curves, "iterations")


def _points(runs: Sequence[PeerRun], paper: str) -> ReportTable:
    on_grid = paper in _ON_GRID
    return ReportTable(
        "peer-points",
        "Every run",
        "α: of the data's Dirichlet split. Accuracies after the last iteration.",
        (
            "mixing", "mobility", "partition", "α", "p", "mixing α",
            *(("clients", "G", "mobile", "R_c", "R_m") if on_grid else ()), "seed", "iterations", "accuracy",
            "mean model", "high - low", "neighbours", "B", "consumed",
        ),
        tuple(_row(run, on_grid) for run in runs),
        numeric_from=3,
    )  # fmt: skip


def _row(run: PeerRun, on_grid: bool) -> tuple[str, ...]:
    walks, aware = run.mobility == "reflected_walk", run.system == "mobility_aware"
    figures, gap = run.figures, run.figures["mobility_gap"]
    return (
        run.system,
        run.mobility,
        run.partition,
        f"{run.dirichlet:g}" if run.partition.startswith("dirichlet") else numbers.NONE,
        f"{run.fast_share:g}" if walks else numbers.NONE,
        f"{run.mixing_alpha:g}" if aware else numbers.NONE,
        *(_on_grid(run) if on_grid else ()),
        str(run.seed),
        f"{int(figures['steps'] or 0):,}",
        numbers.percent(figures["final_accuracy"], 2),
        numbers.percent(figures["average_accuracy"], 2),
        numbers.NONE if gap is None else f"{100.0 * gap:+.2f}",
        numbers.number(figures["neighbours"]),
        numbers.number(figures["connected_within"], 0),
        numbers.joules(figures["consumed_j"]),
    )


def _on_grid(run: PeerRun) -> tuple[str, ...]:
    still = run.mobility == "static"
    mobile = (numbers.NONE, numbers.NONE) if still else (str(run.mobile), _reach(run.reach))
    return str(run.clients), str(run.grid), mobile[0], f"{run.radius:g}", mobile[1]


def _reach(reach: float) -> str:
    return "∞" if reach == math.inf else f"{reach:g}"
