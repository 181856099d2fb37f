"""Joules while a run goes on, for the display; the ledger is computed afterwards from the same readings."""

from __future__ import annotations

from collections.abc import Sequence

from roambench.contract.records import Reading, RecordKind

_LONGEST_STEP_NS = 2_500_000_000  # a longer distance between two readings is a gap (rule R4)


class RunningJoules:
    """Joules so far, summed over devices by trapezoid; for the display only, gaps are left out."""

    def __init__(self) -> None:
        self.total_j = 0.0
        self._last: dict[str, Reading] = {}

    def add(self, device: str, records: Sequence[tuple[int, int, bytes]]) -> None:
        """Add the joules of a device's newly arrived readings."""
        for _, kind, payload in records:
            if kind != RecordKind.READING:
                continue
            try:
                reading = Reading.from_bytes(payload)
            except ValueError:
                continue  # the record store keeps it as a dead letter
            last = self._last.get(device)
            if last is not None and 0 < reading.monotonic_ns - last.monotonic_ns <= _LONGEST_STEP_NS:
                seconds = (reading.monotonic_ns - last.monotonic_ns) * 1e-9
                self.total_j += 0.5 * (last.watts + reading.watts) * seconds
            self._last[device] = reading
