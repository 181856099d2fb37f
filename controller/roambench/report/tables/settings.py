"""Tables of settings: means over seeds with their intervals, pairs of settings, and both as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from roambench.report.latex import latex_text
from roambench.report.numbers import NONE, uncertainty
from roambench.report.quantities import QUANTITIES, Quantity
from roambench.report.settings import Settings
from roambench.report.spread import Interval, Spread, interval_text, places_of
from roambench.report.table import ReportTable

_ARROWS: Final = {"higher": " ↑", "lower": " ↓", "": ""}
#: Intervals of two seeds may end far above it.
_MOST_SHOWN: Final = 1e6


def settings_table(found: Settings) -> ReportTable:
    """A row per setting: runs, and mean ± 95 % interval of every quantity by which they are compared."""
    heads = [f"{_heading(found, quantity)}{_ARROWS[quantity.better]}" for quantity in found.quantities]
    rows = tuple(
        (
            row.name,
            str(len(row.runs))
            if len(row.runs) == row.runs_in_all
            else f"{len(row.runs)} of {row.runs_in_all}",
            *(_mean(row.spread(quantity), quantity) for quantity in found.quantities),
        )
        for row in found.rows
    )
    caption = (
        "Means over the runs of each setting; ±: the 95 % interval of the mean (Student's t); [± ]: what "
        "meters, or models, may have wrong in the mean (k = 2)."
    )
    return ReportTable("settings", "Settings", caption, ("setting", "runs", *heads), rows)


def pairs_table(found: Settings) -> ReportTable | None:
    """The best setting by each quantity beside every other one; None where no seed has both."""
    rows = []
    for best in found.best:
        for other, made in best.beside:
            scale, unit = (100.0, " %") if best.quantity.share else (1.0, "")
            better, of = (made.factor, made.factor_interval), "{:.3f} ×"
            if made.factor is None:
                better, of = (
                    (scale * made.difference, _scaled(made.difference_interval, scale)),
                    "{:+,.4g}" + unit,
                )
            rows.append(
                (
                    _heading(found, best.quantity),
                    best.setting.name,
                    other.name,
                    str(made.pairs),
                    of.format(better[0]),
                    NONE if better[1] is None else f"[{_end(better[1].low)}, {_end(better[1].high)}]",
                    "better" if made.winner == "A" else made.doubt or "not resolved",
                )
            )
    if not rows:
        return None
    caption = (
        "Pairs: runs with one seed. ×: how many times better the best setting is, of costs the other ÷ the "
        "best, of scores the best ÷ the other; without ×, where a value is 0: the other less the best. The "
        "intervals hold with 95 % for all pairs of settings of a quantity together (Student's t with "
        "Bonferroni's correction)."
    )
    head = ("figure", "best", "other", "pairs", "better by", "interval", "verdict")
    return ReportTable("pairs", "The best setting beside each other one", caption, head, tuple(rows), 3, 6)


def settings_csv(found: Settings) -> str:
    """A row per setting: its keys, its runs, and of every quantity mean, ends of the interval, deviation, n
    and u (k = 1)."""
    known = {name for row in found.rows for figures in row.figures for name in figures}
    quantities = [one for one in (*found.quantities, *QUANTITIES.values()) if one.name in known]
    quantities = list({one.name: one for one in quantities}.values())
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    parts = ("mean", "low", "high", "sd", "n", "u")
    writer.writerow([*found.keys, "runs", *(f"{one.name}_{part}" for one in quantities for part in parts)])
    for row in found.rows:
        cells: list[Any] = [*row.values.values(), len(row.runs)]
        for one in quantities:
            mean = row.spread(one)
            ends = mean.interval
            cells += [mean.mean, ends and ends.low, ends and ends.high, mean.sd, mean.n, mean.u]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return lines.getvalue()


def latex(table: ReportTable) -> str:
    """The table for a paper; it needs the package booktabs."""
    columns = "".join("r" if table.is_numeric(column) else "l" for column in range(len(table.head)))
    lines = [" & ".join(map(latex_text, row)) + r" \\" for row in (table.head, *table.rows)]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}", ""])


def _mean(mean: Spread, quantity: Quantity) -> str:
    return interval_text(mean, share=quantity.share) + (f" [± {uncertainty(mean.u)}]" if mean.u else "")


def _heading(found: Settings, quantity: Quantity) -> str:
    basis = next((row.basis for row in found.rows if row.basis is not None), None)
    return quantity.heading(quantity.basis_in(basis))


def _scaled(interval: Interval | None, scale: float) -> Interval | None:
    return None if interval is None else Interval(scale * interval.low, scale * interval.high)


def _end(value: float) -> str:
    return "> 10⁶" if value > _MOST_SHOWN else f"{value:,.{max(3, places_of(value))}f}"
