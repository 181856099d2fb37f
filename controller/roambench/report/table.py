"""A table as a value: text cells under a head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """`head` and every row have the same length. Columns from `numeric_from` on are aligned to the right."""

    key: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric_from: int = 1
