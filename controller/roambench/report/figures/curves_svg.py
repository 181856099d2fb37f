"""Accuracy over rounds as one small SVG: a panel per setting, a line per run, a colour per system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from roambench.report.templates.rendering import rendered

_COLOURS: Final = ("#0b6e99", "#c2571a", "#5a8f29", "#8a4fbf", "#b0892a", "#444c56")


@dataclass(frozen=True, slots=True)
class Curve:
    """`points`: (rounds played, accuracy 0..1), rising in rounds."""

    panel: str
    name: str
    points: tuple[tuple[int, float], ...]


def curves_svg(curves: Sequence[Curve], threshold: float | None = None) -> str:
    """Panels and colours in the order in which they first come; all panels have the same axes. `threshold`
    is a dashed line. The same curves give the same text."""
    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        panels.setdefault(curve.panel, []).append(curve)
    most = max((rounds for curve in curves for rounds, _ in curve.points), default=1)
    names = dict.fromkeys(curve.name for curve in curves)
    colours = dict(zip(names, cycle(_COLOURS), strict=False))
    return rendered("curves.svg", panels=panels, colours=colours, most=max(1, most), threshold=threshold)
