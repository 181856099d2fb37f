"""Accuracy over rounds as one small SVG: a panel per setting, a line per run, a colour per system."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_COLOURS: Final = ("#0b6e99", "#c2571a", "#5a8f29", "#8a4fbf", "#b0892a", "#444c56")
_WIDTH, _HEIGHT = 340, 220  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 30, 34
_LEGEND = 28
_ACROSS = 2


@dataclass(frozen=True, slots=True)
class Curve:
    """`points`: (rounds played, accuracy 0..1), rising in rounds."""

    panel: str
    name: str
    points: tuple[tuple[int, float], ...]


def curves_svg(curves: Sequence[Curve], threshold: float | None = None) -> str:
    """Panels and colours in the order in which they first come; all panels have the same axes. `threshold`
    is a dashed line. The same curves give the same text."""
    panels, names = list(dict.fromkeys(c.panel for c in curves)), list(dict.fromkeys(c.name for c in curves))
    most = max((rounds for curve in curves for rounds, _ in curve.points), default=1)
    down = -(-len(panels) // _ACROSS)
    width, height = _WIDTH * min(_ACROSS, max(1, len(panels))), _LEGEND + _HEIGHT * max(1, down)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, name in enumerate(names):
        x = _LEFT + 100 * number
        drawn.append(f'<path d="M{x} 16h18" stroke="{_colour(number)}" stroke-width="2.5"/>')
        drawn.append(f'<text x="{x + 23}" y="20">{html.escape(name)}</text>')
    for place, panel in enumerate(panels):
        row, column = divmod(place, _ACROSS)
        drawn.append(f'<g transform="translate({_WIDTH * column} {_LEGEND + _HEIGHT * row})">')
        drawn += _axes(panel, most, threshold)
        for curve in curves:
            if curve.panel == panel and curve.points:
                spots = " ".join(
                    f"{_x(rounds, most):.1f},{_y(reached):.1f}" for rounds, reached in curve.points
                )
                colour = _colour(names.index(curve.name))
                drawn.append(
                    f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="1.6" '
                    'stroke-linejoin="round" opacity="0.85"/>'
                )
        drawn.append("</g>")
    return "\n".join([*drawn, "</svg>", ""])


def _axes(panel: str, most: int, threshold: float | None) -> list[str]:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    drawn = [f'<text x="{left}" y="{_TOP - 10}" font-weight="bold">{html.escape(panel)}</text>']
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100.0)
        drawn.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#e2e6ea"/>')
        drawn.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for share in (0.0, 0.5, 1.0):
        rounds = round(share * most)
        anchor = "end" if share == 1.0 else "middle"
        drawn.append(
            f'<text x="{_x(rounds, most):.1f}" y="{bottom + 16}" text-anchor="{anchor}">{rounds:,}</text>'
        )
    drawn.append(f'<text x="{(left + right) / 2:.1f}" y="{bottom + 28}" text-anchor="middle">rounds</text>')
    if threshold is not None:
        y = _y(threshold)
        drawn.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#6b7683" stroke-dasharray="4 3"/>')
    return drawn


def _x(rounds: int, most: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * rounds / max(1, most)


def _y(accuracy: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * accuracy


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
