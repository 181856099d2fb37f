"""A calibration says what must be known before its numbers are believed, on the page and to machines."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.link_power import LinkPower
from roambench.energy.links.fit import LinkPoint, fit_link, pooled
from roambench.energy.links.models import ANY, LinkModel, Provenance
from roambench.report.pages.calibration import calibration_page, fit_table, parameter_table
from roambench.report.summaries.calibration import Calibration, DeviceCalibration


def points(beta_up_w: float = 0.2, u_w: float = 0.001) -> list[LinkPoint]:
    return [
        LinkPoint(way, 8.0, rate, rate, alpha * rate + beta, u_w, 5, 50, 60.0)
        for way, alpha, beta in (("up", 0.010, beta_up_w), ("down", 0.005, 0.2))
        for rate in (2.0, 5.0, 10.0, 20.0)
    ]


def device(name: str = "pi-01", windows: int = 40, truth: LinkPower | None = None, **how: float):
    fit = fit_link("bench", points(**how), u_gain=0.008)
    return DeviceCalibration(name, fit, windows, 40, truth)


def apart(beta_w: float):
    return fit_link("bench", [replace(p, net_w=p.net_w + beta_w - 0.2) for p in points()], u_gain=0.008)


def calibration(*devices: DeviceCalibration) -> Calibration:
    mean, between = pooled("bench", [each.fit for each in devices])
    about = Provenance("<b>two</b> Pis", "2026-11-21", "smartpower2", "sweep", "run-1", (2.0, 20.0))
    fits = {each.device: each.fit.known for each in devices}
    return Calibration(LinkModel("bench", {ANY: mean}, about, fits, between), devices)


def test_a_good_fit_has_nothing_to_be_said_of_it():
    assert device().flags() == []


def test_what_spoils_a_fit_is_said_aloud():
    assert device(windows=38).flags() == ["2 of 40 windows were not measured"]
    short = replace(device(windows=30), short=8)
    assert short.flags() == [
        "2 of 40 windows were not measured",
        "8 of 40 windows lasted less than 10 s and are not in the fit (rule R7): sweep with --min-s 10 and "
        "more --repeats",
    ]
    (apart, *_) = device(beta_up_w=0.25).flags()
    assert apart.startswith("sending and receiving do not share one beta: they differ by 50 ± ")
    wide = device(u_w=0.02).flags()
    assert [flag.split(" is only")[0] for flag in wide] == ["alpha_up", "alpha_down", "beta"]


def test_one_board_alone_says_that_others_are_not_known():
    (flag,) = calibration(device()).flags()
    assert flag == (
        'pi-01: one board does not show how much others differ: for them [links."any"] is too narrow; '
        "calibrate two boards or more"
    )
    assert calibration(device(), device("pi-02")).flags() == []


def test_the_tables_hold_value_and_half_width_and_how_much_of_the_truth_is_inside():
    made = calibration(device(truth=LinkPower("t", 10.0, 5.0, 200.0)), device("pi-02"))
    table = parameter_table(made)
    assert [row[0] for row in table.rows] == ["pi-01", "pi-02", "mean of these"]
    value, half = table.rows[0][1].split(" ± ")
    assert float(value) == pytest.approx(10.0, abs=0.01)
    assert float(half) == pytest.approx(made.devices[0].fit.known.half_widths()[0], abs=0.006)
    assert [row[-1] for row in table.rows] == ["3 of 3", "", ""]
    assert fit_table(made).rows[0][1] == "40 of 40"


def test_the_mean_of_several_devices_is_known_better_than_each():
    """Three boards at 180, 200 and 220 mW: how far they are apart says nothing of their own mean."""
    made = calibration(
        *(replace(device(name), fit=apart(w)) for name, w in (("a", 0.18), ("b", 0.2), ("c", 0.22)))
    )
    single = [each.fit.known.half_widths() for each in made.devices]
    assert made.mean.values == pytest.approx([10.0, 5.0, 200.0])
    assert (made.mean.half_widths() < 0.65 * np.max(single, axis=0)).all()
    assert made.model.between_sd[2] == pytest.approx(20.0)
    assert made.values()["pooled"]["parameters"]["beta"]["half_width_95"] == made.mean.half_widths()[2]


def test_a_truth_outside_is_not_counted():
    made = calibration(device(truth=LinkPower("t", 10.0, 9.0, 300.0)))
    assert parameter_table(made).rows[0][-1] == "1 of 3"


def test_the_truth_is_held_by_the_fits_own_interval_where_the_meter_has_no_gain():
    one = device(truth=LinkPower("t", 10.1, 5.05, 202.0))  # all 1 % more: 1.25 of the gain's u
    assert one.inside == 3
    assert replace(one, perfect_meter=True).inside < 3


def test_machines_get_plain_json_without_nan():
    values = json.loads(json.dumps(calibration(device()).values(), allow_nan=False))
    assert values["devices"][0]["parameters"]["beta"]["value"] == pytest.approx(200.0)
    assert values["devices"][0]["points"][0]["residual_w"] == pytest.approx(0.0, abs=1e-6)
    assert values["pooled"]["between_sd"] == [None, None, None]
    assert math.isfinite(values["pooled"]["parameters"]["beta"]["half_width_95"])


def test_the_page_stands_alone_and_obeys_no_markup_of_others():
    page = calibration_page(calibration(device(windows=1)))
    assert "39 of 40 windows were not measured" in page
    assert "&lt;b&gt;two&lt;/b&gt;" in page
    assert "<b>two" not in page
    for key in ("power", "residuals"):
        assert f'id="plot-{key}"' in page
