"""Tables of pages, and the rows of runs that are kept beside them."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from scipy import stats

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
Row = dict[str, str]


def rows_of(page: str, before: str) -> dict[str, list[str]]:
    """The rows of the first table behind the text `before`, by their first cells."""
    table = page[page.index(before) :].partition("|---|")[2].split("\n\n")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines()[1:]]
    return {name.strip(): [cell.strip() for cell in rest] for name, *rest in lines}


def runs_of(file: str, wanted: Mapping[str, str]) -> dict[str, Row]:
    """The rows in docs/evidence of a setting, by their seeds. `wanted`: its keys, by their last parts."""
    with (EVIDENCE / file).open(encoding="utf-8") as kept:
        every = list(csv.DictReader(kept))
    columns = {key.rpartition(".")[2]: key for key in every[0]}
    asked = {columns[name]: value for name, value in wanted.items()}
    found = [row for row in every if asked.items() <= row.items()]
    by_seed = {row["seed"]: row for row in found}
    assert len(by_seed) == len(found), "several settings"
    return by_seed


def column(runs: Mapping[str, Row], name: str) -> list[float]:
    """A metric of the runs that have it."""
    return [float(row[name]) for row in runs.values() if row[name]]


def with_sd(values: Sequence[float], places: int) -> str:
    """12.3 ± 0.4, the standard deviation; 0 where all are."""
    return f"{mean(values):,.{places}f} ± {stdev(values):.{places}f}" if any(values) else "0"


def with_interval(values: Sequence[float], places: int) -> str:
    """12.3 ± 0.4, half of the 95 % interval of the mean."""
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return f"{mean(values):.{places}f} ± {(high - low) / 2:.{places}f}"


def factor(pairs: Sequence[tuple[float, float]]) -> str:
    """54 [48, 62], the mean ratio in % by the paired t-test's own interval on logarithms; or a dash."""
    if len(pairs) < 2 or not all(map(all, pairs)):
        return "–"
    logs = [(math.log(one), math.log(other)) for one, other in pairs]
    if all(one == other for one, other in logs):
        return "100"
    low, high = stats.ttest_rel(*zip(*logs, strict=True)).confidence_interval(0.95)
    found = 100 * math.exp(mean(one - other for one, other in logs))
    return f"{found:.0f} [{100 * math.exp(low):.0f}, {100 * math.exp(high):.0f}]"
