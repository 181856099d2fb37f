"""A table as a value: text cells under a head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportTable:
    """`head` and every row have the same length.

    Columns from `numeric_from` up to `text_from` are aligned to the right, the others to the left.
    """

    key: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric_from: int = 1
    text_from: int = 999

    def is_numeric(self, column: int) -> bool:
        """Say whether a column holds numbers."""
        return self.numeric_from <= column < self.text_from
