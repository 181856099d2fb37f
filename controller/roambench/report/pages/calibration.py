"""A calibration as a page: the lines through the points, what they leave over, the parameters."""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go

from roambench.energy.links.models import PARAMETERS, UNITS, KnownLink
from roambench.report.figures.chart import run_colour
from roambench.report.figures.figure import Figure, drawn, hover, safe
from roambench.report.pages.page import document, warnings
from roambench.report.summaries.calibration import Calibration, DeviceCalibration
from roambench.report.table import ReportTable

_SYMBOLS = {"up": "triangle-up", "down": "triangle-down"}
_DASHES = {"up": "solid", "down": "dash"}
_MARKS = "Triangles that point up are of sending, those that point down of receiving."
_ROW_OF_NAMES = 8  # boards in a row of the legend, on a wide screen


def calibration_page(calibration: Calibration) -> str:
    """The whole document, self-contained."""
    about = calibration.model.about
    tables = [("table", parameter_table(calibration)), ("table", fit_table(calibration))]
    sections = [
        ("Parameters", "parameters", [*warnings((), calibration.flags()), *tables]),
        ("Power and rate", "power", [("figure", power_figure(calibration))]),
        ("Residuals", "residuals", [("figure", residual_figure(calibration))]),
    ]
    title = f"Link model {calibration.model.name}"
    lead = f"{about.source}, {about.date}, meter {about.meter}, run {about.run}. {about.method}."
    return document(title, title, sections, lead=lead)


def power_figure(calibration: Calibration) -> Figure:
    """Net power by rate with the fitted lines; bars are 2 u."""
    traces = []
    for index, device in enumerate(calibration.devices):
        power = device.fit.known.power
        for direction, alpha in (
            ("up", power.alpha_up_mw_per_mbit_s),
            ("down", power.alpha_down_mw_per_mbit_s),
        ):
            points = [point for point in device.fit.points if point.direction == direction]
            name = f"{device.device} {direction}"
            common = _of_board(device, direction)
            ends = [0.0, max(point.mbit_s for point in points)]
            traces += [
                go.Scatter(
                    common,
                    mode="markers",
                    x=[point.mbit_s for point in points],
                    y=[1e3 * point.net_w for point in points],
                    error_y={"array": [2e3 * point.u_net_w for point in points], "thickness": 1},
                    marker={"color": run_colour(index), "symbol": _SYMBOLS[direction], "size": 8},
                    hovertemplate=hover("%{x:.2f} Mbit/s: %{y:.1f} mW", name),
                ),
                go.Scatter(
                    common | {"showlegend": False},
                    mode="lines",
                    hoverinfo="skip",
                    x=ends,
                    y=[power.beta_mw + alpha * rate for rate in ends],
                    line={"color": run_colour(index), "width": 1.5, "dash": _DASHES[direction]},
                ),
            ]
    return drawn(
        "power",
        "Net power by rate",
        f"Medians of windows with 2 u; lines are the fit, solid up and dashed down. {_MARKS}",
        traces,
        _height(calibration),
        xaxis={"title": "rate, Mbit/s"},
        yaxis={"title": "net power, mW", "rangemode": "tozero"},
    )


def residual_figure(calibration: Calibration) -> Figure:
    """Measured minus fitted by rate: a pattern here says that Eq. 1 is not the whole truth."""
    traces = []
    for index, device in enumerate(calibration.devices):
        for direction, symbol in _SYMBOLS.items():
            chosen = [
                (point, residual)
                for point, residual in zip(device.fit.points, device.fit.residual_w.tolist(), strict=True)
                if point.direction == direction
            ]
            name = f"{device.device} {direction}"
            traces.append(
                go.Scatter(
                    _of_board(device, direction),
                    mode="markers",
                    x=[point.mbit_s for point, _ in chosen],
                    y=[1e3 * residual for _, residual in chosen],
                    error_y={"array": [2e3 * point.u_net_w for point, _ in chosen], "thickness": 1},
                    customdata=[point.size_mbit for point, _ in chosen],
                    marker={"color": run_colour(index), "symbol": symbol, "size": 8},
                    hovertemplate=hover("%{x:.2f} Mbit/s, %{customdata:.0f} Mbit: %{y:+.1f} mW", name),
                )
            )
    return drawn(
        "residuals",
        "What the fit leaves over",
        "Bars are 2 u of the points; the meter's gain moves all of them together and is not in them. "
        + _MARKS,
        traces,
        _height(calibration),
        xaxis={"title": "rate, Mbit/s"},
        yaxis={"title": "measured - fitted, mW", "zeroline": True},
    )


def _of_board(device: DeviceCalibration, direction: str) -> dict[str, Any]:
    """The properties that traces of one board share: a name in the legend once, which hides and shows all of
    them."""
    name = safe(device.device)
    return {"legendgroup": name, "name": name, "showlegend": direction == "up"}


def _height(calibration: Calibration) -> int:
    """Pixels: the plot keeps its height, however many boards the legend names."""
    return 360 + 19 * ((len(calibration.devices) - 1) // _ROW_OF_NAMES)


def parameter_table(calibration: Calibration) -> ReportTable:
    """Every device's parameters and those of their mean, with 95 % half-widths, and the truth where known."""
    truths = any(device.truth is not None for device in calibration.devices)
    head = ("device", *(f"{name}, {unit}" for name, unit in zip(PARAMETERS, UNITS, strict=True)))
    rows = [
        (device.device, *cells(device.fit.known), *([_inside(device)] if truths else []))
        for device in calibration.devices
    ]
    caption = "± is the half-width of the 95 % interval, the meter's gain included."
    if len(rows) > 1:
        caption += " The mean is that of these devices; others differ as these do among themselves."
        rows.append(("mean of these", *cells(calibration.mean), *([""] if truths else [])))
    if truths:
        head += ("truth inside",)
        caption += " Truth inside: how many of the intervals hold what the emulated radio was drawn as."
    return ReportTable("parameters", "Parameters", caption, head, tuple(rows))


def fit_table(calibration: Calibration) -> ReportTable:
    """The quality of the lines' fit."""
    head = ("device", "windows", "chi2/dof", "R²", "beta up - beta down, mW")
    caption = "Eq. 1 has one beta for both directions: the difference should be 0 within its 95 % interval."
    rows = tuple(_fit_row(device) for device in calibration.devices)
    return ReportTable("fits", "Goodness of fit", caption, head, rows)


def cells(known: KnownLink) -> tuple[str, ...]:
    """value ± half-width of each parameter."""
    pairs = zip(known.values.tolist(), known.half_widths().tolist(), strict=True)
    return tuple(f"{value:.2f} ± {half:.2f}" for value, half in pairs)


def _inside(device: DeviceCalibration) -> str:
    return "" if device.truth is None else f"{device.inside} of 3"


def _fit_row(device: DeviceCalibration) -> tuple[str, ...]:
    fit = device.fit
    half = fit.half_width_beta_difference_mw
    return (
        device.device,
        f"{device.windows} of {device.planned}",
        f"{fit.chi2_per_dof:.2f}",
        f"{fit.r_squared:.4f}",
        f"{fit.beta_difference_mw:+.1f} ± {half:.1f}" if math.isfinite(half) else "",
    )
