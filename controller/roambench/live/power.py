"""Power over a whole run in a bounded number of means: as time goes on they become longer; pure."""

from __future__ import annotations

from typing import Final

#: Means of one board; more would not fit on a screen.
MOST_MEANS: Final = 600


class MeanPowers:
    """Means of watts over equal intervals from the run's begin on; None where nothing was read."""

    def __init__(self, width_s: float = 2.0, most: int = MOST_MEANS) -> None:
        self.width_s = width_s
        self._most = most
        self._sums: list[float] = []
        self._counts: list[int] = []
        self._changed_from = 0

    def add(self, at_s: float, watts: float) -> None:
        """A reading at `at_s` after the begin; earlier ones do not count."""
        if at_s < 0:
            return
        while at_s >= self.width_s * self._most:
            self._halve()
        place = int(at_s / self.width_s)
        while len(self._sums) <= place:
            self._sums.append(0.0)
            self._counts.append(0)
        self._sums[place] += watts
        self._counts[place] += 1
        self._changed_from = min(self._changed_from, place)

    def means(self, start: int = 0) -> list[float | None]:
        """The means from place `start` on, to the milliwatt."""
        pairs = zip(self._sums[start:], self._counts[start:], strict=True)
        return [round(total / count, 3) if count else None for total, count in pairs]

    def taken(self) -> tuple[int, list[float | None]] | None:
        """(first place that changed, the means from there on) since it was called last; None: nothing did."""
        start, self._changed_from = self._changed_from, len(self._sums)
        return (start, self.means(start)) if start < len(self._sums) else None

    def _halve(self) -> None:
        if len(self._sums) % 2:
            self._sums.append(0.0)
            self._counts.append(0)
        self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self._counts = [a + b for a, b in zip(self._counts[::2], self._counts[1::2], strict=True)]
        self.width_s *= 2
        self._changed_from = 0
