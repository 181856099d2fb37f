"""A placement as the round loop reads it: where each present device is, by device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from roambench.mobility.association import Placement
from roambench.rounds.records import StepOpened


@dataclass(frozen=True, slots=True)
class Presence:
    """Devices present at `step`, ascending, with their AP and the distance to it."""

    step: int
    aps: dict[int, int]
    distances_m: dict[int, float]

    @classmethod
    def of(cls, placement: Placement) -> Presence:
        """The presence of a placement's step."""
        devices = placement.devices.tolist()
        return cls(
            placement.step,
            dict(zip(devices, placement.aps.tolist(), strict=True)),
            dict(zip(devices, placement.distances_m.tolist(), strict=True)),
        )

    def without(self, off: Collection[int]) -> Presence:
        """The presence of those who are not `off`."""
        return Presence(
            self.step,
            {device: ap for device, ap in self.aps.items() if device not in off},
            {device: distance for device, distance in self.distances_m.items() if device not in off},
        )

    def record(self) -> StepOpened:
        """The record that opens the step."""
        return StepOpened(
            self.step, tuple(self.aps), tuple(self.aps.values()), tuple(self.distances_m.values())
        )
