"""The figures of the distribution-aware mobility papers as tables: accuracy over one setting at a time; pure.

Journal (Jahani et al.) and workshop paper (Reza et al.). Neither prints the points of its curves: what stands
beside ours is what the journal's section V-B5 says of its thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from roambench.extras.papers.peer_runs import DAM_NAMES, PeerRun, known, spread
from roambench.report import numbers
from roambench.report.table import ReportTable

#: The mixing that needs no contact: the upper bound of the figures.
BOUND: Final = "fully_connected"
_SHARE: Final = 0.9  # of the bound's accuracy
_NEVER: Final = "none"
#: The settings in which runs differ, and the columns' names of them.
_SETTINGS: Final[Mapping[str, str]] = {
    "system": "mixing",
    "clients": "clients",
    "grid": "grid",
    "dirichlet": "α",
    "mobile": "mobile",
    "radius": "R_c",
    "reach": "R_m",
}
#: Without meaning where no device moves.
_OF_MOVEMENT: Final = frozenset({"mobile", "reach"})


@dataclass(frozen=True, slots=True)
class _Axis:
    """A setting that figures have on their axis. `thresholds`: the least values that the journal names for
    20 clients, by `beside` (another setting's value) and movement; for which R_m, it does not tell."""

    name: str
    title: str
    where: str
    beside: str = ""
    thresholds: Mapping[tuple[float, str], str] = field(default_factory=dict)


_AXES: Final = (
    _Axis("dirichlet", "α", "Fig. 2 of both papers"),
    _Axis(
        "mobile",
        "mobile clients",
        "journal: Fig. 3(a), 5, 8(c, d); workshop: 3(a)",
        "radius",
        {(3.0, "dcm"): "4", (3.0, "random"): _NEVER},
    ),
    _Axis(
        "radius",
        "R_c",
        "journal: Fig. 3(b), 4, 8(a, b); workshop: 3(b)",
        "mobile",
        {(3, "dcm"): "4", (3, "random"): "5", (5, "dcm"): "3", (5, "random"): "4"},
    ),
    _Axis("reach", "R_m", "journal: Fig. 3(c), 6; workshop: 2, 3(c), 4"),
)


def dam_figures(runs: Sequence[PeerRun], *, journal: bool = True) -> list[ReportTable]:
    """A table for every setting that was varied while all others stayed; the journal's thresholds only where
    it is the paper that stands beside."""
    axes = _AXES if journal else [replace(axis, thresholds={}) for axis in _AXES]
    return [table for axis in axes if (table := _figure(runs, axis)) is not None]


def _figure(runs: Sequence[PeerRun], axis: _Axis) -> ReportTable | None:
    near = [run for run in runs if run.system != BOUND]
    moving = [run for run in near if run.mobility != "static"]
    names = [name for name in _SETTINGS if name != axis.name]
    values_at: dict[tuple[Any, ...], set[float]] = {}
    for run in moving or near:
        place = tuple(getattr(run, name) for name in names)
        values_at.setdefault(place, set()).add(getattr(run, axis.name))
    varied = sorted(place for place, values in values_at.items() if len(values) > 1)
    columns = sorted({value for place in varied for value in values_at[place]})
    rows, seeds = [], set[int]()
    for place in varied:
        setting = dict(zip(names, place, strict=True))
        for movement, title in DAM_NAMES.items():
            if movement == "static" and axis.name in _OF_MOVEMENT:
                continue
            there = [run for run in near if run.mobility == movement and _is_at(run, setting)]
            found = [_best(run for run in there if getattr(run, axis.name) == value) for value in columns]
            if any(found):
                cells = [spread(values, scale=100.0, places=1) for values in found]
                cells += _threshold(runs, axis, setting, movement, columns, found) if axis.beside else []
                rows.append((*map(_shown, place), title, *cells))
                seeds |= set(map(len, found))
    if not rows:
        return None
    caption = f"Best accuracy of a run in %, mean over the clients, {numbers.over_seeds(seeds)}."
    head = [_SETTINGS[name] for name in names] + ["movement"]
    head += [f"{axis.title} = {_shown(value)}" for value in columns]
    if axis.beside:
        head += ["everybody connected", "90 % of it from", "paper"]
        caption += (
            " Everybody connected: the same clients and data without need of contacts. 90 % of it: the least "
            f"{axis.title} that was run whose accuracy is nine tenths of that, as in the journal's section "
            "V-B5 (MNIST, a CNN, all training images)."
        )
    table = f"Accuracy over {axis.title} ({axis.where})"
    return ReportTable(f"dam-over-{axis.name}", table, caption, tuple(head), tuple(rows), len(names) + 1)


def _is_at(run: PeerRun, setting: Mapping[str, Any]) -> bool:
    free = _OF_MOVEMENT if run.mobility == "static" else frozenset()
    return all(getattr(run, name) == value for name, value in setting.items() if name not in free)


def _threshold(
    runs: Sequence[PeerRun],
    axis: _Axis,
    setting: Mapping[str, Any],
    movement: str,
    columns: Sequence[float],
    found: Sequence[Sequence[float]],
) -> list[str]:
    """The bound, the least value of the axis at nine tenths of it, and what the journal says of that."""
    papers = {"clients": 20, "grid": 18, "dirichlet": 0.05, "reach": 5.0}
    printed = numbers.NONE
    if all(setting[name] == value for name, value in papers.items()):
        printed = axis.thresholds.get((setting[axis.beside], movement), numbers.NONE)
    bound = _best(
        run
        for run in runs
        if run.system == BOUND and (run.clients, run.dirichlet) == (setting["clients"], setting["dirichlet"])
    )
    if not bound:
        return [numbers.NONE, numbers.NONE, printed]
    enough = _SHARE * math.fsum(bound) / len(bound)
    reached = (
        _shown(value)
        for value, values in zip(columns, found, strict=True)
        if values and math.fsum(values) / len(values) >= enough
    )
    return [spread(bound, scale=100.0, places=1), next(reached, _NEVER), printed]


def _best(runs: Iterable[PeerRun]) -> list[float]:
    """Best accuracies, each seed's once: static clients are the same for every movement of the others."""
    return known({run.seed: run for run in runs}.values(), "best_accuracy")


def _shown(value: object) -> str:
    if value == math.inf:
        return "∞"
    return f"{value:g}" if isinstance(value, float) else str(value)
