"""Still pictures have the colours and the lines of the figures that they stand for."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go
import pytest

from roambench.report.figures.figure import Figure, drawn
from roambench.report.figures.still import still

SCALE = [[0.0, "white"], [0.5, "blue"], [1.0, "black"]]


def figure(*traces: Any, **layout: Any) -> Figure:
    return drawn("some", "A title", "A caption.", list(traces), 400, **layout)


def fills(svg: str) -> list[str]:
    return re.findall(r'<(?:rect|path d="M[^"]*z")[^>]* style="fill:(.*?)"/>', svg)


def test_cells_between_two_colours_of_a_scale_have_a_mixture() -> None:
    cells = go.Heatmap(z=[[0.0, 0.25, 0.5, None, 0.9, 1.0]], colorscale=SCALE, zmin=0, zmax=1)
    assert fills(still(figure(cells))) == [
        "white",
        "color-mix(in srgb,blue 50%,white)",
        "blue",
        "none",
        "color-mix(in srgb,black 80%,blue)",
        "black",
    ]


def test_cells_of_states_have_their_own_colours() -> None:
    steps = [[0.0, "red"], [0.5, "red"], [0.5, "green"], [1.0, "green"]]
    cells = go.Heatmap(z=[[0, 1]], colorscale=steps, zmin=-0.5, zmax=1.5)
    assert fills(still(figure(cells))) == ["red", "green"]


def test_marks_have_the_colours_of_their_values_or_those_given() -> None:
    marker = {"color": [0.0, 5.0, 10.0], "cmin": 0, "cmax": 10, "colorscale": SCALE}
    svg = still(figure(go.Scatter(x=[1, 2, 3], y=[1, 2, 3], mode="markers", marker=marker)))
    assert re.findall(r'h0" style="stroke:(\w+)', svg) == ["white", "blue", "black"]
    given = go.Scatter(x=[1, 2], y=[1, 2], mode="markers", marker={"color": ["red", "green"]})
    assert re.findall(r'h0" style="stroke:(\w+)', still(figure(given))) == ["red", "green"]


def test_levels_and_outages_are_drawn() -> None:
    line = go.Scatter(x=[0, 10], y=[0, 1], mode="lines")
    level = {
        "xref": "x domain",
        "x0": 0,
        "x1": 1,
        "y0": 0.8,
        "y1": 0.8,
        "line_color": "red",
        "label": {"text": "80 %"},
    }
    outage = {"type": "rect", "yref": "paper", "x0": 2, "x1": 4, "y0": 0, "y1": 1, "fillcolor": "pink"}
    plain = still(figure(line))
    svg = still(figure(line, shapes=[level, outage]))
    assert fills(svg) == ["pink"]
    assert re.search(r'd="M(\S+) (\S+)L(\S+) \2" style="stroke:red', svg)
    assert ">80 %</text>" in svg
    assert re.findall(r">([\d.]+)</text>", plain) == re.findall(r">([\d.]+)</text>", svg)


def test_cells_by_a_first_place_and_a_step_fill_the_axes_in_the_figure_s_colours() -> None:
    cells = go.Heatmap(x0=10.0, dx=2.0, y0=0.5, dy=1.0, z=[[0, 1], [2, 4]], coloraxis="coloraxis")
    svg = still(figure(cells, coloraxis={"colorscale": SCALE, "cmin": 0, "cmax": 4}))
    assert fills(svg) == ["white", "color-mix(in srgb,blue 50%,white)", "blue", "black"]
    left, right = (float(text) for text in re.search(r'class="axis" d="M(\d+) \d+V\d+H(\d+)"', svg).groups())
    for x, width in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", svg):
        assert left <= float(x) <= float(x) + float(width) <= right
    assert re.findall(r">(1\d(?:\.5)?)</text>", svg)


def test_bars_stay_in_their_frame_and_are_as_high_as_their_logarithm() -> None:
    svg = still(figure(go.Bar(x=[0, 1, 2], y=[10, 100, 1000]), yaxis={"type": "log", "rangemode": "tozero"}))
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    heights = [float(box[3]) for box in boxes]
    assert heights[1] / heights[0] == pytest.approx(2.0, rel=0.01)
    assert heights[2] / heights[0] == pytest.approx(3.0, rel=0.01)
    assert min(float(box[0]) for box in boxes) > 70.0
    assert min(float(box[1]) for box in boxes) > 32.0


def test_bars_of_other_panels_neither_move_nor_flatten_those_of_one() -> None:
    domains = {"xaxis": {"domain": [0.0, 0.4]}, "xaxis2": {"domain": [0.6, 1.0]}, "yaxis2": {"anchor": "x2"}}
    alone = go.Bar(x=[0, 1], y=[1, 2])
    other = go.Bar(x=[0, 1], y=[500, 700], xaxis="x2", yaxis="y2")
    boxes = re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height', still(figure(alone, other, **domains))
    )
    one = re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height', still(figure(alone, **domains))
    )
    assert boxes[:2] == one
