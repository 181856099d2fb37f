"""The frame of all pages: one self-contained file that loads nothing; opens from a disk ten years later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from roambench.contract.json_values import without_nan
from roambench.contract.phases import Phase
from roambench.report.figures.figure import Figure
from roambench.report.figures.half_runs import half_run_charts
from roambench.report.figures.look import LOOK, PHASE_COLOURS, PHASE_PATTERNS, pattern
from roambench.report.figures.plotly_charts import page_figure
from roambench.report.figures.still import still
from roambench.report.half_runs import HalfRun
from roambench.report.summaries.flag import grave
from roambench.report.summaries.report_flags import SaidBy, shared_flags
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable
from roambench.report.tables.half_runs import half_run_table
from roambench.report.templates.rendering import packed, rendered

#: Longer tables fold away.
_OPEN_ROWS: Final = 30
#: More rows than this make a page that no browser likes to show.
MOST_ROWS: Final = 2000

#: What stands in a section: the name of a macro in `blocks.html`, and what that shows.
Block = tuple[str, Any]


class Parts(dict[str, Block]):
    """Tables and figures by key."""

    def __init__(self, tables: Iterable[ReportTable], figures: Iterable[Figure | None]) -> None:
        super().__init__({table.key: ("table", table) for table in tables})
        self.update({figure.key: ("figure", figure) for figure in figures if figure is not None})

    def at(self, *keys: str) -> list[Block]:
        """The blocks of these keys, those that there are."""
        return [self[key] for key in keys if key in self]

    def like(self, prefix: str) -> list[Block]:
        """The blocks whose keys begin so."""
        return [block for key, block in self.items() if key.startswith(prefix)]


def folded(tables: Iterable[ReportTable]) -> list[Block]:
    """Tables that open on a click, the long ones closed."""
    return [("folded", table) for table in tables]


def warnings(runs: Iterable[RunSummary], common: Iterable[str] = ()) -> list[Block]:
    """Warnings for the reader: about the comparison, then about runs."""
    return noted([*(("", flag) for flag in grave(common)), *shared_flags(list(runs))])


def noted(flags: Iterable[SaidBy]) -> list[Block]:
    """Warnings for the reader, and folded below them routine notes."""
    kinds: dict[str, list[tuple[str, str]]] = {"flags": [], "routine": []}
    for labels, flag in flags:
        kinds["routine" if flag.routine else "flags"].append((labels, flag.sentence))
    return [(kind, said) for kind, said in kinds.items() if said]


def half_runs(halves: Sequence[HalfRun]) -> list[Block]:
    """Reasons why runs are in no other table or figure, and the figures and scores that their ends wrote."""
    said: list[Block] = [("flags", [("", half.sentence) for half in halves])] if halves else []
    table = half_run_table(halves)
    said += [("table", table)] if table is not None else []
    return [*said, *(("figure", page_figure(chart)) for chart in half_run_charts(halves))]


def document(
    title: str,
    heading: str,
    sections: Sequence[tuple[str, str, Sequence[Block]]],
    *,
    lead: str = "",
    facts: Sequence[str] = (),
    footer: str = "",
    kind: str = "",
) -> str:
    """One page: `sections` are (title, key, blocks), those without blocks are left out; `kind` styles it."""
    shown = [section for section in sections if section[2]]
    found: dict[str, list[Any]] = {"figure": [], "power": []}
    for _, _, blocks in shown:
        for macro, value in blocks:
            found.setdefault(macro, []).append(value)
    data = {
        "figures": [
            {"key": it.key, "data": it.data, "layout": it.layout, "narrow": it.narrow}
            for it in found["figure"]
        ],
        "template": LOOK,
        "power": next(iter(found["power"]), None),
        "phases": {
            phase.value: {"colour": PHASE_COLOURS[phase], "pattern": pattern(PHASE_PATTERNS[phase])}
            for phase in Phase
        },
    }
    return rendered(
        "page.html",
        title=title,
        heading=heading,
        sections=shown,
        lead=lead,
        facts=facts,
        footer=footer,
        kind=kind,
        data=packed(without_nan(data)),
        still=still,
        still_power=_still_power,
        most_rows=MOST_ROWS,
        open_rows=_OPEN_ROWS,
    )


def _still_power(power: dict[str, Any]) -> str:
    """The picture of the first board's power."""
    run = power["runs"][0]
    device = run["devices"][0]
    seconds = {"s": 1, "min": 60, "h": 3600}[power["unit"]]
    times_s = [milliseconds / 1000 for milliseconds in accumulate(device["t"])]
    watts = [None if milliwatts is None else milliwatts / 1000 for milliwatts in device["w"]]
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": f"{run['label']}, {device['name']}",
        "x": [at / seconds for at in times_s],
        "y": watts,
        "line": {"color": "var(--ink)", "width": 1.3},
    }
    layout = {
        "height": 420,
        "xaxis": {"title": f"device time since the start of the run, {power['unit']}"},
        "yaxis": {"title": "power, W", "rangemode": "tozero"},
    }
    return still(Figure("power", "", "", [line], layout))


def footer_of(runs: Sequence[RunSummary]) -> str:
    """The page's footer: when the runs began, the first and the last of more than two, and their versions."""
    versions = {f"{name} {version}" for run in runs for name, version in run.info.versions.items()}
    made = ", ".join(sorted(versions)) or "versions not recorded"
    began = sorted({run.info.created_utc for run in runs if run.info.created_utc})
    when = ", ".join(began) if len(began) <= 2 else f"{began[0]} to {began[-1]}"
    return f"Runs of {when or 'unknown date'}. {made}."
