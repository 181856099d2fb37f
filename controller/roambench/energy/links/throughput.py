"""Modelled throughput of a link from its length (MOHAWK Eq. 2); `radio_work` makes joules of it (Eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Direction = Literal["up", "down"]
Numbers = npt.NDArray[np.float64]

#: MOHAWK Table 2: slowest and fastest LTE throughput in Mbit/s.
LTE_RANGE_MBIT_S: Final[dict[Direction, tuple[float, float]]] = {"up": (7.0, 17.0), "down": (12.0, 36.0)}
WIFI_RADIUS_M: Final = 100.0
WIFI_MBIT_S: Final = 1000.0


@dataclass(frozen=True, slots=True)
class DistanceStatistics:
    """Mean and (population) standard deviation of the device-AP distances of one system and seed."""

    mean_m: float
    sd_m: float


def megabits(transferred_bytes: npt.ArrayLike) -> Numbers:
    """Bytes as Mbit (10^6 bit)."""
    return np.asarray(transferred_bytes, dtype=np.float64) * 8e-6


def lte_throughput_mbit_s(
    distance_m: npt.ArrayLike, statistics: DistanceStatistics, direction: Direction
) -> Numbers:
    """Eq. 2 beyond Wi-Fi: [mean - sd, mean + sd] maps linearly to [t_max, t_min], clipped outside.

    Same shape as `distance_m`. When all distances are equal (sd 0) that distance gets the middle.
    """
    slow, fast = LTE_RANGE_MBIT_S[direction]
    distance = np.asarray(distance_m, dtype=np.float64)
    if statistics.sd_m > 0.0:
        far = (distance - (statistics.mean_m - statistics.sd_m)) / (2.0 * statistics.sd_m)
    else:
        far = 0.5 + 0.5 * np.sign(distance - statistics.mean_m)
    return np.asarray(fast - np.clip(far, 0.0, 1.0) * (fast - slow), dtype=np.float64)


def is_wifi(distance_m: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return whether the link is Wi-Fi (not further than 100 m), same shape."""
    return np.asarray(np.asarray(distance_m, dtype=np.float64) <= WIFI_RADIUS_M)


def link_name(distance_m: float) -> Literal["wifi", "lte"]:
    """Name of a link by its length: Wi-Fi up to 100 m, LTE beyond."""
    return "wifi" if distance_m <= WIFI_RADIUS_M else "lte"


def throughput_mbit_s(
    distance_m: npt.ArrayLike, statistics: DistanceStatistics, direction: Direction
) -> Numbers:
    """Eq. 2 with its Wi-Fi branch: 1000 Mbit/s both ways within 100 m. Same shape as `distance_m`."""
    lte = lte_throughput_mbit_s(distance_m, statistics, direction)
    return np.where(is_wifi(distance_m), WIFI_MBIT_S, lte)


def link_throughput_mbit_s(distance_m: float, statistics: DistanceStatistics, direction: Direction) -> float:
    """`throughput_mbit_s` of one link, the same bits in a fifteenth of the time: orders ask one by one."""
    if distance_m <= WIFI_RADIUS_M:
        return WIFI_MBIT_S
    slow, fast = LTE_RANGE_MBIT_S[direction]
    if statistics.sd_m > 0.0:
        far = (distance_m - (statistics.mean_m - statistics.sd_m)) / (2.0 * statistics.sd_m)
    else:
        far = 0.5 + 0.5 * ((distance_m > statistics.mean_m) - (distance_m < statistics.mean_m))
    return fast - min(max(far, 0.0), 1.0) * (fast - slow)
