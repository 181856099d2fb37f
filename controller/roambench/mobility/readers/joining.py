"""Sources of several files that belong together: which file is which, and positions looked up by id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from roambench.mobility.readers.account import KEPT_MALFORMED, RowAccount
from roambench.mobility.readers.documents import Document, numbered_rows
from roambench.mobility.readers.fixes import Fixes


class Joined:
    """Positions (latitude, longitude) by id, and the account of the file they come from."""

    def __init__(self) -> None:
        self.positions: dict[str, tuple[float, float]] = {}
        self.account = RowAccount("-")

    def reject(self, file: str, line: int, reason: str) -> None:
        """Count a malformed row of one file."""
        self.account.reject(line, reason, file)


def with_rejected(fixes: Fixes, account: RowAccount) -> Fixes:
    """The fixes with the malformed rows of another file in their account, those first."""
    return replace(
        fixes,
        rows=fixes.rows + account.malformed,
        malformed=fixes.malformed + account.malformed,
        malformed_rows=(*account.malformed_rows, *fixes.malformed_rows)[:KEPT_MALFORMED],
    )


def kinds_of(
    documents: Sequence[Document], patterns: Mapping[str, re.Pattern[str]], max_line: int = 64 * 1024
) -> Mapping[str, list[Document]]:
    """The documents by the first pattern that one of their first ten rows matches as a whole."""
    found: dict[str, list[Document]] = {kind: [] for kind in patterns}
    for document in documents:
        with closing(document.lines(max_line)) as lines:
            rows = [row for _, (_, row) in zip(range(10), numbered_rows(lines, comment="\n"), strict=False)]
        for kind, pattern in patterns.items():
            if any(pattern.fullmatch(row) for row in rows):
                found[kind].append(document)
                break
    return found
