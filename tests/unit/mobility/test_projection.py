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


#: latitude, longitude, x and y in metres: azimuthal equidistant around 40.7350, -73.9900 on WGS84 (PROJ,
#: pyproj 3.7: Proj(proj="aeqd", lat_0=40.7350, lon_0=-73.99, ellps="WGS84")).
EXACT = (
    (40.6562, -74.0934, -8744.626, -8745.438),
    (40.6562, -73.9400, 4228.543, -8749.381),
    (40.6562, -73.8866, 8744.626, -8745.438),
    (40.6950, -74.0934, -8739.556, -4436.791),
    (40.6950, -73.9400, 4226.091, -4440.733),
    (40.7350, -73.9400, 4223.563, 1.203),
    (40.7750, -74.0936, -8745.977, 4447.128),
    (40.7750, -73.9400, 4221.032, 4443.169),
    (40.8138, -74.0936, -8740.889, 8755.864),
    (40.8138, -73.9400, 4218.577, 8751.906),
    (40.8138, -73.8864, 8740.889, 8755.864),
)


def test_no_point_of_a_city_is_more_than_5_2_m_from_where_an_exact_projection_puts_it():
    box = Box.square(40.7350, -73.9900)
    errors = [
        math.hypot(x - 8750 - exact_x, y - 8750 - exact_y)
        for latitude, longitude, exact_x, exact_y in EXACT
        for x, y in [metres(box, latitude, longitude)]
    ]
    assert round(max(errors), 1) == 5.2
    assert min(errors) < 1.3


def test_degrees_count_the_same_in_both_directions_from_the_boxs_own_corner():
    box = Box.square(40.0, -74.0, 20_000.0)
    latitude, longitude = np.array([40.0, 40.01, 40.0]), np.array([-74.0, -74.0, -73.99])
    x_m, y_m = box.in_degrees(latitude, longitude)
    assert np.diff(y_m[:2])[0] == pytest.approx(0.01 / 0.00089977 * 100)
    assert x_m[2] - x_m[0] == pytest.approx(0.01 / 0.00089977 * 100)
    assert y_m[0] == pytest.approx(10_000 * 111_139.5 / 111_035, abs=1)  # half of the side
    # At the northern edge, 40.09 N, a degree of longitude has 85,279 m: half the side is 0.11726 degrees.
    assert x_m[0] == pytest.approx(0.11726 * 111_139.5, abs=2)


AUSTIN = (30.1961, -97.8395, 30.3511, -97.6819)  # MOHAWK's: "17.5 km x 17.5 km" at 111 km to a degree


def inside(box, latitude, longitude):
    return bool(box.inside(*box.project(np.array([latitude]), np.array([longitude])))[0])


def test_a_box_between_meridians_and_parallels_has_its_corners_and_nothing_beyond():
    box = Box.between(*AUSTIN)
    south, west, north, east = AUSTIN
    assert (box.width_m, box.height_m) == (pytest.approx(15_175, abs=2), pytest.approx(17_183, abs=1))
    for latitude in (south, north):
        for longitude in (west, east):
            assert inside(box, latitude, longitude)
        assert not inside(box, latitude, west - 1e-6)
        assert not inside(box, latitude, east + 1e-6)
    assert not inside(box, south - 1e-6, -97.76)
    assert not inside(box, north + 1e-6, -97.76)
    assert metres(box, south, west) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert metres(box, north, west)[0] == pytest.approx(12, abs=1)  # the north is 24 m shorter than the south


def test_meridians_and_parallels_may_lie_on_any_hemisphere_and_across_the_date_line():
    sydney = Box.between(-34.0, 151.1, -33.8, 151.3)
    assert metres(sydney, -33.8, 151.1) == pytest.approx((0.0, sydney.height_m), abs=1e-6)
    assert inside(sydney, -34.0, 151.1)
    assert not inside(sydney, -34.0, 151.0999)
    fiji = Box.between(-17.0, 179.9, -16.9, -179.9)
    assert inside(fiji, -16.95, 180.0)
    assert inside(fiji, -16.95, -179.9)
    assert not inside(fiji, -16.95, -179.89)
    assert not inside(fiji, -16.95, 0.0)


def test_in_degrees_the_corner_of_such_a_box_is_the_origin():
    box = Box.between(*AUSTIN)
    x_m, y_m = box.in_degrees(np.array([30.1961, 30.3511]), np.array([-97.8395, -97.6819]))
    assert x_m.tolist() == pytest.approx([0.0, 0.1576 / 0.00089977 * 100], abs=1e-3)
    assert y_m.tolist() == pytest.approx([0.0, 0.1550 / 0.00089977 * 100], abs=1e-3)


@pytest.mark.parametrize(
    "corners",
    [
        (30.3511, -97.8395, 30.1961, -97.6819),  # north first
        (-97.8395, 30.1961, -97.6819, 30.3511),  # longitudes first
        (30.1961, -97.8395, 30.3511, -97.8395),
        (30.0, -97.8, float("nan"), -97.6),
        (30.0, -97.6, 30.1, -97.8),  # all around the globe
    ],
)
def test_corners_that_make_no_box_are_refused(corners):
    with pytest.raises(TraceError):
        Box.between(*corners)
