"""Page of who holds which data: a heat map of classes by devices, bars of sizes, distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go

from roambench.report.figures.figure import Figure, drawn, safe
from roambench.report.pages.page import document, folded
from roambench.report.summaries.data_shares import DataShares, spread
from roambench.report.table import ReportTable

#: Bars with more segments than these can no longer be distinguished.
_MOST_BARS: Final = 80
_MOST_COLOURS: Final = 26
#: Twenty-six colours, neighbours far apart; the first ten read well for people with colour-blindness.
_COLOURS: Final = (
    *("#1f5fbf", "#d9622b", "#1a8f6a", "#8250c4", "#e0b400", "#4ea3d8", "#b8397a", "#5f6b7a", "#93c13e"),
    *("#7a4a21", "#9fb8e8", "#f2b28f", "#8fd0b8", "#c9b1ea", "#f3e08a", "#176087", "#e08ab4", "#b4bcc6"),
    *("#4c6b12", "#c99f78", "#0b3475", "#8a2f0c", "#07523b", "#4a2583", "#7d6400", "#6b0f3f"),
)
_SCALE: Final = [[at, f"var(--scale-{number})"] for number, at in enumerate((0, 0.02, 0.25, 0.6, 1), 1)]


def data_page(title: str, facts: Sequence[str], shares: DataShares) -> str:
    """The whole document, self-contained: `title` and one line per fact above the figures and the table."""
    sections = [
        ("Classes by device", "classes", [("figure", heat_map(shares)), ("figure", bars(shares))]),
        ("Distance from the whole", "distance", [("figure", distance_figure(shares))]),
        ("Devices", "devices", folded([device_table(shares)])),
    ]
    return document(f"roambench: {title}", title, sections, facts=facts)


def heat_map(shares: DataShares) -> Figure:
    """Classes (rows) by devices (columns): the share of a device's images that a class is."""
    mixes = shares.counts / np.maximum(shares.sizes, 1)[:, None]
    classes = shares.counts.shape[1]
    names = [safe(name) for name in shares.devices]
    cells = go.Heatmap(
        x=names,
        y=[str(label) for label in range(classes)],
        z=np.round(100.0 * mixes.T, 3).tolist(),
        customdata=shares.counts.T.tolist(),
        zmin=0,
        zmax=max(1.0, float(100.0 * mixes.max())),
        colorscale=_SCALE,
        colorbar={"title": "% of the<br>device's images", "thickness": 14},
        hovertemplate="%{x}, class %{y}: %{customdata} images, %{z:.1f} %<extra></extra>",
        # Gaps between cells are grid lines while there are few of them, and moiré when there are many.
        xgap=1 if len(names) <= _MOST_BARS else 0,
        ygap=1 if classes <= _MOST_COLOURS else 0,
    )
    return drawn(
        "data-classes",
        "What each device holds",
        "Each column is a device, each row a class of the data set; the colour is the share of the device's "
        "images that are of that class.",
        [cells],
        max(320, min(900, 140 + 18 * classes)),
        xaxis={"title": "device", "type": "category", "showgrid": False, "nticks": 24},
        yaxis={"title": "class", "type": "category", "showgrid": False, "nticks": 30},
    )


def bars(shares: DataShares) -> Figure:
    """Images per device; stacked by class where the segments can still be distinguished."""
    names = [safe(name) for name in shares.devices]
    classes = shares.counts.shape[1]
    stacked = len(names) <= _MOST_BARS and classes <= _MOST_COLOURS
    if stacked:
        traces = [
            go.Bar(
                name=f"class {label}",
                x=names,
                y=shares.counts[:, label].tolist(),
                marker_color=_COLOURS[label],
                hovertemplate=f"%{{x}}, class {label}: %{{y}} images<extra></extra>",
            )
            for label in range(classes)
        ]
        caption = "One bar per device, one colour per class."
    else:
        sizes = np.sort(shares.sizes)[::-1]
        traces = [
            go.Bar(
                x=list(range(1, len(sizes) + 1)),
                y=sizes.tolist(),
                marker_color=_COLOURS[0],
                hovertemplate="%{y} images<extra></extra>",
                showlegend=False,
            )
        ]
        caption = "Devices in the order of their sizes, the largest first."
    across = {"title": "device", "type": "category"} if stacked else {"title": "rank"}
    return drawn(
        "data-bars",
        "Images per device",
        caption,
        traces,
        400,
        barmode="stack",
        bargap=0.15 if stacked else 0,
        xaxis=across | {"showgrid": False, "nticks": 24},
        yaxis={"title": "images", "rangemode": "tozero"},
        # Twenty-six names above the plot take four lines; at the side they take none of its height.
        legend={"orientation": "v", "x": 1.02, "y": 1, "yanchor": "top"},
        narrow={"height": 420, "legend": {"orientation": "h"}},
    )


def distance_figure(shares: DataShares) -> Figure:
    """The number of devices by their distance from the training set's class mix."""
    edges = np.linspace(0.0, 1.0, 21)
    counts, _ = np.histogram(shares.distances, bins=edges)
    bins = go.Bar(
        x=((edges[:-1] + edges[1:]) / 2).round(3).tolist(),
        y=counts.tolist(),
        width=0.048,
        marker_color=_COLOURS[0],
        hovertemplate="%{y} devices around %{x}<extra></extra>",
        showlegend=False,
    )
    found = spread(shares.distances)
    return drawn(
        "data-distance",
        "Distance of a device's label distribution from the training set's",
        f"Half the sum of the absolute differences of the class shares: 0 is the same distribution, 1 no "
        f"class in common. Mean {found.mean:.3f}.",
        [bins],
        320,
        xaxis={"title": "total variation distance", "range": [0, 1]},
        yaxis={"title": "devices", "rangemode": "tozero"},
    )


def device_table(shares: DataShares) -> ReportTable:
    """One row per device: size, classes, distance, largest class."""
    rows = tuple(
        (
            name,
            str(int(size)),
            str(int(held)),
            f"{distance:.3f}",
            f"{int(counts.argmax())}",
            f"{100.0 * counts.max() / max(1, size):.1f} %",
        )
        for name, size, held, distance, counts in zip(
            shares.devices, shares.sizes, shares.classes_held, shares.distances, shares.counts, strict=True
        )
    )
    return ReportTable(
        "data-devices",
        "Devices",
        "The distance is the total variation distance of the label distribution from the training set's.",
        ("device", "images", "classes", "distance", "largest class", "its share"),
        rows,
    )
