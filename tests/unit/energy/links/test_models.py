"""Named link models know how well they know Eq. 1's parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LTE, LinkPower
from roambench.energy.links.models import ANY, MOHAWK, KnownLink, LinkModel, Provenance

RADIO = LinkPower("bench", 10.0, 5.0, 200.0)
COVARIANCE = ((0.04, 0.0, -0.3), (0.0, 0.01, -0.1), (-0.3, -0.1, 4.0))


def test_an_interval_is_students_t_for_the_fit_and_normal_for_the_gain():
    known = KnownLink(RADIO, COVARIANCE, dof=5.0, u_gain=0.01)
    # t(5, 97.5 %) = 2.5706; alpha_up: hypot(2.5706 * 0.2, 1.95996 * 0.1)
    expected = [
        math.hypot(2.5706 * 0.2, 0.195996),
        math.hypot(2.5706 * 0.1, 0.097998),
        math.hypot(2.5706 * 2.0, 3.91993),
    ]
    assert known.half_widths() == pytest.approx(expected, rel=1e-4)


def test_without_a_fit_the_interval_is_the_gains_alone():
    assert KnownLink(RADIO, u_gain=0.01).half_widths() == pytest.approx(
        [0.195996, 0.097998, 3.91993], rel=1e-4
    )


def test_the_papers_parameters_claim_no_uncertainty():
    assert MOHAWK.of("lte").power == LTE
    assert not MOHAWK.fitted
    assert np.all(MOHAWK.of("wifi").half_widths() == 0.0)
    with pytest.raises(ConfigError, match="no parameters for 'satellite', only for lte, wifi"):
        MOHAWK.of("satellite")


def test_a_bench_has_one_radio_for_every_link_class_and_a_calibrated_device_its_own():
    own = KnownLink(LinkPower("bench", 11.0, 6.0, 210.0))
    model = LinkModel("bench", {ANY: KnownLink(RADIO)}, Provenance("calibrated"), {"pi-02": own})
    assert model.fitted
    assert model.of("lte").power == model.of("wifi", "pi-01").power == RADIO
    assert model.of("lte", "pi-02") is own
