"""A rectangle on a plane that is in metres already: what a `Box` is for simulated movement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.projection import MAX_SIDE_M
from roambench.mobility.trace import FloatColumn


@dataclass(frozen=True, slots=True)
class PlaneBox:
    """South-west corner (`x_m`, `y_m`) in the source's own metres, and the sides."""

    x_m: float
    y_m: float
    width_m: float
    height_m: float

    def __post_init__(self) -> None:
        if not (abs(self.x_m) <= 1e9 and abs(self.y_m) <= 1e9):
            raise TraceError(f"box corner {self.x_m}, {self.y_m}: expected metres")
        for side_m in (self.width_m, self.height_m):
            if not 0.0 < side_m <= MAX_SIDE_M:
                raise TraceError(
                    f"box side of {side_m} m: expected more than 0 and at most {MAX_SIDE_M:.0f} m"
                )

    @classmethod
    def around(cls, x_m: FloatColumn, y_m: FloatColumn, grid_m: float) -> PlaneBox:
        """The smallest box of whole `grid_m` squares that holds all points (at least one square).

        Raises TraceError for points that lie further apart than a box may be wide.
        """
        west, south = (float(np.floor(column.min() / grid_m)) * grid_m for column in (x_m, y_m))
        east, north = (float(np.ceil(column.max() / grid_m)) * grid_m for column in (x_m, y_m))
        return cls(west, south, max(grid_m, east - west), max(grid_m, north - south))

    def project(self, latitude: FloatColumn, longitude: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        """Metres east and north of the corner; metres north come first, as latitudes do."""
        return longitude - self.x_m, latitude - self.y_m

    def inside(self, x_m: FloatColumn, y_m: FloatColumn) -> npt.NDArray[np.bool_]:
        """Which points lie in the box, borders included."""
        return (x_m >= 0.0) & (x_m <= self.width_m) & (y_m >= 0.0) & (y_m <= self.height_m)
