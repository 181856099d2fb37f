"""Runs grouped as the rows of MOHAWK's tables are, and the words for their places and bounds; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import stdev
from typing import Final

from roambench.extras.papers import mohawk as paper
from roambench.extras.papers.bounds import Bounds, mean_of
from roambench.extras.papers.runs import PaperRun, Setting
from roambench.report.numbers import NONE, over_seeds

#: Of the systems as the tables head their columns, in the paper's order.
_TITLES: Final = {"hierfavg": "HierFAVG", "macfl": "MACFL", "mohawk": "MOHAWK"}
NAMES: Final = tuple(_TITLES[system] for system in paper.SYSTEMS)


Groups = dict[Setting, dict[str, list[PaperRun]]]


def groups_of(runs: Sequence[PaperRun]) -> Groups:
    """By setting, IID first and k2 rising, then by system."""

    def place(setting: Setting) -> tuple[object, ...]:
        known = {paper.IID: 0, paper.NON_IID: 1}
        return (setting.dataset, known.get(setting.data, 2), setting.data, setting.k2)

    groups: Groups = {setting: {} for setting in sorted({run.setting for run in runs}, key=place)}
    for run in runs:
        groups[run.setting].setdefault(run.system, []).append(run)
    return groups


def place_of(setting: Setting) -> tuple[str, str, str]:
    """A setting's first cells: data set, distribution, k2."""
    return setting.dataset, setting.data, str(setting.k2)


def bounded(found: Sequence[Bounds], number: Callable[[float], str], open_end: str, unit: str = "") -> str:
    """Mean ± sd of runs; where not all of them are known, how far they came, behind `open_end`."""
    if not found:
        return NONE
    mean = mean_of(found)
    if mean.known:
        sd = f" ± {number(stdev(bounds.low for bounds in found))}" if len(found) > 1 else ""
        return f"{number(mean.low)}{sd}{unit}"
    reached = sum(bounds.known for bounds in found)
    some = f" ({reached} of {len(found)} reached it)" if reached else ""
    return f"{open_end}{number(mean.low)}{unit}{some}"


def seeds_behind(runs: Sequence[PaperRun]) -> str:
    """Say whether a table's figures are means."""
    return over_seeds(len(found) for systems in groups_of(runs).values() for found in systems.values())


def thresholds_of(runs: Sequence[PaperRun]) -> str:
    """All thresholds that the runs had, in percent."""
    found = sorted({run.threshold for run in runs})
    return " and ".join(f"{100.0 * value:g} %" for value in found) or NONE


def paper_thresholds(runs: Sequence[PaperRun]) -> str:
    """A sentence that names the paper's accuracy thresholds where a run used another one; else empty."""
    other = {
        run.setting.dataset: paper.THRESHOLDS[run.setting.dataset]
        for run in runs
        if run.setting.dataset in paper.THRESHOLDS and run.threshold != paper.THRESHOLDS[run.setting.dataset]
    }
    listed = ", ".join(f"{100.0 * value:g} % for {name}" for name, value in sorted(other.items()))
    return f"The paper's threshold is another: {listed}." if listed else ""
