from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.projection import Box


def metres(box, latitude, longitude):
    x_m, y_m = box.project(np.array([latitude]), np.array([longitude]))
    return float(x_m[0]), float(y_m[0])


def test_the_centre_lies_in_the_middle():
    assert metres(Box.square(40.7350, -73.9900), 40.7350, -73.9900) == (8750.0, 8750.0)


def test_a_degree_has_the_ellipsoids_length():
    # WGS84 tables: at the equator 110,574 m of latitude and 111,320 m of longitude; at 45 degrees 111,132
    # and 78,847.
    equator, middle = Box.square(0.0, 0.0, 200_000.0), Box.square(45.0, 0.0, 200_000.0)
    assert metres(equator, 0.0, 0.5)[0] - 100_000 == pytest.approx(55_660, abs=1)
    assert metres(equator, 0.5, 0.0)[1] - 100_000 == pytest.approx(55_287, abs=1)
    assert metres(middle, 45.0, 0.5)[0] - 100_000 == pytest.approx(39_423, abs=1)
    assert metres(middle, 45.5, 0.0)[1] - 100_000 == pytest.approx(55_566, abs=1)


def test_distances_over_a_city_are_off_by_a_few_metres_at_most():
    # Geodesic by integrating the ellipsoid's metric along the straight line of latitude and longitude: over
    # 25 km that line is longer than the geodesic by far less than a metre.
    box, half = Box.square(40.7350, -73.9900), 8700.0
    for dx, dy in ((half, half), (half, -half), (0.0, half), (half, 0.0)):
        lat0, lon0 = box.latitude - dy / 111_050, box.longitude - dx / 84_450
        lat1, lon1 = box.latitude + dy / 111_050, box.longitude + dx / 84_450
        share = (np.arange(2000) + 0.5) / 2000
        phi = np.radians(lat0 + (lat1 - lat0) * share)
        w2 = 1 - 0.00669437999014 * np.sin(phi) ** 2
        north = 6378137.0 * (1 - 0.00669437999014) / w2**1.5 * math.radians(lat1 - lat0) / 2000
        east = 6378137.0 / np.sqrt(w2) * np.cos(phi) * math.radians(lon1 - lon0) / 2000
        expected_m = float(np.hypot(east, north).sum())
        (ax, ay), (bx, by) = metres(box, lat0, lon0), metres(box, lat1, lon1)
        assert math.hypot(bx - ax, by - ay) == pytest.approx(expected_m, abs=8.0)


def test_a_parallel_has_its_own_length_not_the_centres():
    # 8.7 km north of 40.735 a degree of longitude is 0.12 % shorter: 11 m over half the box.
    box = Box.square(40.7350, -73.9900)
    middle_m, north_m = (metres(box, latitude, -73.89)[0] - 8750 for latitude in (40.7350, 40.8134))
    assert north_m / middle_m == pytest.approx(
        math.cos(math.radians(40.8134)) / math.cos(math.radians(40.735)), rel=1e-5
    )
    assert middle_m - north_m > 9


def test_a_box_may_lie_across_the_date_line():
    assert metres(Box.square(0.0, 179.95, 20_000.0), 0.0, -179.99)[0] == pytest.approx(10_000 + 6_679, abs=1)


def test_borders_belong_to_the_box():
    box = Box(0.0, 0.0, 100.0, 200.0)
    x_m, y_m = np.array([0.0, 100.0, 100.1, 50.0]), np.array([0.0, 200.0, 100.0, -0.1])
    assert box.inside(x_m, y_m).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    "wrong",
    [(91.0, 0.0, 10.0), (0.0, 181.0, 10.0), (0.0, 0.0, 0.0), (0.0, 0.0, 2e5 + 1), (math.nan, 0.0, 10.0)],
)
def test_a_box_that_is_no_city_is_refused(wrong):
    with pytest.raises(TraceError, match="box"):
        Box.square(*wrong)
