"""The look of all figures: colours by name (templates/look.css), marks besides colour, one template.

A figure's colours are names, `var(--run-1)`: a page paints them by day, by night or for paper, and what is
drawn without a page takes them from `painted`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import plotly.graph_objects as go

from roambench.contract.phases import Outcome, Phase
from roambench.report.templates.rendering import file

_RULES: Final = re.compile(r":root[^{]*\{([^}]*)\}")
_COLOUR: Final = re.compile(r"(--[\w-]+):(#[0-9a-f]{6}|rgba\([^)]*\))")
_NAME: Final = re.compile(r"var\((--[\w-]+)\)")
#: Colours by name: of the light set and of the dark one.
LIGHT, DARK = (dict(_COLOUR.findall(rules)) for rules in _RULES.findall(file("look.css")))

INK: Final = "var(--ink)"
PAPER: Final = "var(--paper)"
MUTED: Final = "var(--muted)"
#: One colour per run, distinct for people with colour-blindness; lines also differ in dash and symbol.
RUN_COLOURS: Final = tuple(f"var(--run-{number})" for number in range(1, 7))
RUN_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
RUN_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x")
RUN_PATTERNS: Final = ("", "/", "x", "\\", ".", "-")
PHASE_COLOURS: Final = {phase: f"var(--phase-{phase.value})" for phase in Phase}
#: Phases that follow each other differ in more than colour, or as much as black on grey does.
PHASE_PATTERNS: Final[dict[Phase, str]] = {
    Phase.IDLE: ".",
    Phase.ABSENT: "x",
    Phase.REST: "-",
    Phase.WAIT: "/",
    Phase.DOWNLOAD: "",
    Phase.DECODE: "+",
    Phase.TRAIN: "",
    Phase.EVALUATE: ".",
    Phase.ENCODE: "+",
    Phase.UPLOAD: "\\",
    Phase.EXCHANGE: "|",
    Phase.LOST: "+",
    Phase.OFF: "x",
}
OUTCOME_COLOURS: Final = {outcome: f"var(--outcome-{outcome.value})" for outcome in Outcome}
OUTCOME_PATTERNS: Final = {
    Outcome.AGGREGATED: "",
    Outcome.WASTED: "x",
    Outcome.FAILED: "+",
    Outcome.PENDING: ".",
}
_MARKS: Final = {Outcome.PENDING: "?", Outcome.AGGREGATED: "", Outcome.WASTED: "×", Outcome.FAILED: "!"}
#: What became of a device in a step: name, colour, and the mark that its cell bears; `CELL_OF` finds those of
#: a training's outcome.
CELLS: Final = (
    ("absent", "var(--outcome-absent)", ""),
    ("present, not training", "var(--outcome-present)", "·"),
    *(
        ("outstanding" if outcome is Outcome.PENDING else outcome.value, OUTCOME_COLOURS[outcome], mark)
        for outcome, mark in _MARKS.items()
    ),
)
CELL_OF: Final = {outcome: 2 + place for place, outcome in enumerate(_MARKS)}
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_AXIS: Final = {
    "title": {"standoff": 10, "font": {"size": 13}},
    "showgrid": True,
    "gridcolor": "var(--grid)",
    "zeroline": False,
    "zerolinecolor": "var(--axis)",
    "showline": True,
    "linecolor": "var(--axis)",
    "ticks": "outside",
    "tickcolor": "var(--axis)",
    "ticklen": 4,
    "automargin": True,
}
_LAYOUT: Final = {
    "paper_bgcolor": PAPER,
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": _FONT, "size": 13, "color": INK},
    "margin": {"l": 64, "r": 20, "t": 44, "b": 52},
    "legend": {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "yanchor": "bottom",
        "xanchor": "left",
        "traceorder": "normal",
    },
    "modebar": {
        "bgcolor": "rgba(0,0,0,0)",
        "color": "var(--button)",
        "activecolor": "var(--accent)",
    },
    "hovermode": "closest",
    "hoverlabel": {"font": {"family": _FONT, "size": 12}},
    "uirevision": "kept",  # zoom and hidden traces stay when a figure is painted again
    "xaxis": _AXIS,
    "yaxis": _AXIS,
    "annotationdefaults": {
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
    },
    "shapedefaults": {"type": "line", "line": {"color": INK, "width": 1, "dash": "dot"}},
    "updatemenudefaults": {
        "type": "buttons",
        "direction": "right",
        "yanchor": "bottom",
        "bgcolor": PAPER,
        "bordercolor": "var(--border)",
        "font": {"size": 12},
    },
}
#: The common look, as a Plotly template: thin grid, legend above the plot.
LOOK: Final[dict[str, Any]] = go.layout.Template(layout=_LAYOUT).to_plotly_json()


def painted(value: Any, colours: dict[str, str] = LIGHT) -> Any:
    """The same JSON value with every colour that it names. KeyError for a name that look.css has not."""
    if isinstance(value, dict):
        return {key: painted(part, colours) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [painted(part, colours) for part in value]
    return _NAME.sub(lambda name: colours[name[1]], value) if isinstance(value, str) else value


def pattern(shape: str) -> dict[str, Any]:
    """A bar's or an area's pattern in the colour of marks, over its own colour."""
    return {"shape": shape, "fgcolor": "var(--mark)", "fillmode": "overlay", "size": 6, "solidity": 0.22}
