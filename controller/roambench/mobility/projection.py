"""Boxes: latitude and longitude to metres on a local plane, and planes that are in metres already.

A local scaling is enough for a city: against an azimuthal equidistant projection its error over a 17.5 km
box at 40.7 N is at most 5.2 m (UTM: 142 m of grid scale, Web Mercator: 3,974 m).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.trace import FloatColumn

_A_M: Final = 6378137.0  # WGS84 semi-major axis
_E2: Final = 0.00669437999014  # WGS84 first eccentricity squared
#: MOHAWK's code takes 0.00089977 degrees for 100 m, east as well as north.
DEGREE_M: Final = 100.0 / 0.00089977
#: Beyond this the local plane is no longer a good approximation (and a city no longer a city).
MAX_SIDE_M: Final = 200_000.0
_BORDER_M: Final = 1e-4  # what a position on a border given in degrees may lie beyond it after rounding


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle around (latitude, longitude) in degrees, `width_m` east-west by `height_m` north-south.

    With `width_degrees` it ends at two meridians: it narrows towards the pole, `width_m` is its widest part.
    """

    latitude: float
    longitude: float
    width_m: float
    height_m: float
    width_degrees: float | None = None

    def __post_init__(self) -> None:
        if not (-85.0 <= self.latitude <= 85.0 and -180.0 <= self.longitude <= 180.0):
            raise TraceError(
                f"box centre {self.latitude}, {self.longitude}: expected a latitude within 85 degrees and a "
                "longitude within 180"
            )
        for side_m in (self.width_m, self.height_m):
            if not 0.0 < side_m <= MAX_SIDE_M:
                raise TraceError(
                    f"box side of {side_m} m: expected more than 0 and at most {MAX_SIDE_M:.0f} m"
                )

    @classmethod
    def square(cls, latitude: float, longitude: float, side_m: float = 17_500.0) -> Box:
        """MOHAWK's area is 17.5 km x 17.5 km."""
        return cls(latitude, longitude, side_m, side_m)

    @classmethod
    def between(cls, south: float, west: float, north: float, east: float) -> Box:
        """The box of these parallels and meridians in degrees; over the date line `west` is more than `east`.

        MOHAWK's: 30.1961, -97.8395, 30.3511, -97.6819. Raises TraceError for corners that make no box.
        """
        if not (
            -85.0 <= south < north <= 85.0 and abs(west) <= 180.0 and abs(east) <= 180.0 and west != east
        ):
            raise TraceError("expected SOUTH less than NORTH within 85 degrees, WEST and EAST within 180")
        wide, latitude = (east - west) % 360.0, (south + north) / 2
        nearest = min(max(0.0, south), north)  # the equator, or the side nearest to it
        parallel_m = _prime_vertical_m(math.radians(nearest)) * math.cos(math.radians(nearest))
        longitude = (west + wide / 2 + 180.0) % 360.0 - 180.0
        height_m = _meridian_m(latitude) * math.radians(north - south)
        return cls(latitude, longitude, parallel_m * math.radians(wide), height_m, wide)

    def project(self, latitude: FloatColumn, longitude: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        """Metres east and north of the box's south-west corner.

        x = N(lat) cos(lat) (lon - lon0), y = M(lat0) (lat - lat0) with the WGS84 radii of curvature N (prime
        vertical) and M (meridian), angles in radians.
        """
        phi = np.radians(latitude)
        sine2 = np.sin(phi) ** 2
        prime_vertical_m = _A_M / np.sqrt(1.0 - _E2 * sine2)
        east = np.mod(longitude - self.longitude + 180.0, 360.0) - 180.0  # the short way round
        x_m = prime_vertical_m * np.cos(phi) * np.radians(east)
        y_m = _meridian_m(self.latitude) * np.radians(latitude - self.latitude)
        return x_m + self.width_m / 2, y_m + self.height_m / 2

    def in_degrees(self, latitude: FloatColumn, longitude: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        """The authors' plane: degrees east and north of the box's south-west corner, times `DEGREE_M`.

        A degree of longitude counts as much as one of latitude, so east-west distances are too long (by a
        third at 40 degrees) and another AP may be the nearest. The corner is the box's westernmost.
        """
        widest = math.radians(abs(self.latitude)) + self.height_m / 2 / _meridian_m(self.latitude)
        parallel_m = _prime_vertical_m(widest) * math.cos(widest)
        west = (self.width_degrees or math.degrees(self.width_m / parallel_m)) / 2
        south = math.degrees(self.height_m / 2 / _meridian_m(self.latitude))
        east = np.mod(longitude - self.longitude + 180.0, 360.0) - 180.0
        return (east + west) * DEGREE_M, (latitude - self.latitude + south) * DEGREE_M

    def inside(self, x_m: FloatColumn, y_m: FloatColumn) -> npt.NDArray[np.bool_]:
        """Tell which projected points lie in the box with its borders (meridians and parallels to 0.1 mm)."""
        if self.width_degrees is None:
            return (x_m >= 0.0) & (x_m <= self.width_m) & (y_m >= 0.0) & (y_m <= self.height_m)
        phi = math.radians(self.latitude) + (y_m - self.height_m / 2) / _meridian_m(self.latitude)
        parallel_m = _A_M / np.sqrt(1.0 - _E2 * np.sin(phi) ** 2) * np.cos(phi)
        half_m = parallel_m * math.radians(self.width_degrees / 2)
        east_m = x_m - self.width_m / 2
        return (np.abs(east_m) <= half_m + _BORDER_M) & (
            np.abs(y_m - self.height_m / 2) <= self.height_m / 2 + _BORDER_M
        )


def _prime_vertical_m(phi: float) -> float:
    return _A_M / math.sqrt(1.0 - _E2 * math.sin(phi) ** 2)


def _meridian_m(latitude: float) -> float:
    """Radius of curvature along the meridian: metres per radian of latitude."""
    sine2 = math.sin(math.radians(latitude)) ** 2
    return _A_M * (1.0 - _E2) / math.pow(1.0 - _E2 * sine2, 1.5)


@dataclass(frozen=True, slots=True)
class PlaneBox:
    """A rectangle on a plane that is in metres already: what a `Box` is for simulated movement.

    South-west corner (`x_m`, `y_m`) in the source's own metres, and the sides.
    """

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
        """Tell which points lie in the box, borders included."""
        return (x_m >= 0.0) & (x_m <= self.width_m) & (y_m >= 0.0) & (y_m <= self.height_m)
