"""Tables of `roambench data`, as rich tables and JSON values made of a partition's own numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.table import Table

from roambench.report.summaries.data_shares import DataShares, spread

Counts = npt.NDArray[np.int64]

_SIDES: Final = ("images", "held", "dist.")


def class_table(shares: DataShares, shown: int, width: int) -> Table:
    """Class by device: the first `shown` devices, then all of them together and the training set.

    At most `width` characters wide: classes that do not fit stand together in a last column.
    """
    total = shares.counts.sum(axis=0)
    hidden = len(shares.devices) - shown
    rows = [(name, shares.counts[index]) for index, name in enumerate(shares.devices[:shown])]
    sides = [
        (str(shares.sizes[index]), str(shares.classes_held[index]), f"{shares.distances[index]:.3f}")
        for index in range(len(rows))
    ]
    rows += [("together", total), ("whole set", shares.held)]
    sides += [(str(int(counts.sum())), str(int((counts > 0).sum())), "") for _, counts in rows[-2:]]
    names = [name for name, _ in rows] + ([f"+ {hidden} more"] if hidden > 0 else [])
    ends = [max(len(text) for text in column) for column in zip(_SIDES, *sides, strict=True)]
    room = width - max(len(name) for name in names) - sum(end + 1 for end in ends)
    columns = _columns([counts for _, counts in rows], room)

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("device", no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in _SIDES:
        table.add_column(heading, justify="right", no_wrap=True)
    for index, ((name, _), side) in enumerate(zip(rows, sides, strict=True)):
        if index == len(rows) - 2:
            if hidden > 0:
                table.add_row(names[-1], style="dim")
            table.add_section()
        table.add_row(name, *(cells[index] for _, cells in columns), *side)
    return table


def _columns(rows: list[Counts], room: int) -> list[tuple[str, list[str]]]:
    """(heading, cells) of as many classes as fit into `room`, the others added up in one more column."""
    classes = len(rows[0])

    def column(first: int, last: int) -> tuple[str, list[str]]:
        sums = [int(counts[first : last + 1].sum()) for counts in rows]
        heading = str(first) if first == last else f"{first}-{last}"
        return heading, [str(count) if count else "." for count in sums]

    def wide(found: tuple[str, list[str]]) -> int:
        return 1 + max(len(found[0]), *(len(cell) for cell in found[1]))

    single = [column(label, label) for label in range(classes)]
    for fitting in range(classes, 0, -1):
        chosen = single[:fitting] + ([column(fitting, classes - 1)] if fitting < classes else [])
        if sum(wide(found) for found in chosen) <= room:
            return chosen
    return [column(0, classes - 1)]


def spread_table(shares: DataShares) -> Table:
    """Sizes, classes and distances over the devices."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("per device")
    for name in ("min", "median", "mean", "max"):
        table.add_column(name, justify="right")
    for name, values, digits in (
        ("images", shares.sizes, 1),
        ("classes held", shares.classes_held, 1),
        ("distance from the whole set's mix", shares.distances, 3),
    ):
        found = spread(values)
        figures = (found.least, found.median, found.mean, found.most)
        table.add_row(name, *(f"{value:.{digits}f}" for value in figures))
    return table


def aps_sentence(distances: npt.NDArray[np.float64]) -> str:
    """The mean distance of the access points' mixes in the first, fifth and tenth step and the last."""
    steps = [step for step in (1, 5, 10, len(distances)) if step <= len(distances)]
    parts = [f"{distances[step - 1]:.2f} in step {step}" for step in dict.fromkeys(steps)]
    return f"An access point's devices together are this far from the whole set's mix: {', '.join(parts)}."


def shares_document(shares: DataShares) -> dict[str, Any]:
    """The same in JSON types, every device and class."""

    def values(found: Any) -> dict[str, float]:
        summary = spread(found)
        return {
            "min": summary.least,
            "median": summary.median,
            "mean": summary.mean,
            "max": summary.most,
        }

    return {
        "images": values(shares.sizes),
        "classes_per_device": values(shares.classes_held),
        "distance": values(shares.distances),
        "distinct_images": shares.distinct,
        "training_set": shares.held.tolist(),
        "devices": [
            {"name": name, "counts": counts.tolist(), "distance": float(distance)}
            for name, counts, distance in zip(shares.devices, shares.counts, shares.distances, strict=True)
        ],
    }
