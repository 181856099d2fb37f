"""Doubts about a run whose programs answered metrics that are not finite."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from roambench.contract.printable import printable
from roambench.runs.folder import RunFolder

_MOST_DOUBTS: Final = 4  # more would bury the others


class LostMetrics:
    """Lets every report of a run say which metrics are in no mean."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._count = 0

    def say(self, sentences: Iterable[str]) -> None:
        """Let every report say the run's first sentences before its numbers."""
        for sentence in islice(sentences, max(0, _MOST_DOUBTS - self._count)):
            self._folder.doubt(f"{printable(sentence[:200])}, which is in no mean")
            self._count += 1
