"""What an emulated board draws."""

import math

import pytest

from roambench.emulation.electric.power import IDLE, Activity, PiPower


def test_a_3b_plus_draws_its_published_figures():
    power = PiPower()
    assert power.watts(IDLE) == 1.9
    assert power.watts(Activity(busy_cores=1.0)) == pytest.approx(2.7)
    assert power.watts(Activity(busy_cores=4.0)) == pytest.approx(5.1)
    assert power.watts(Activity(busy_cores=9.0)) == pytest.approx(5.1)


def test_the_radio_costs_a_fixed_part_and_a_part_per_rate():
    power = PiPower()
    assert power.watts(Activity(tx_mbit_s=10.0)) == pytest.approx(1.9 + 0.25 + 0.1)
    assert power.watts(Activity(rx_mbit_s=20.0)) == pytest.approx(1.9 + 0.15 + 0.1)


def test_boards_differ_by_their_index_and_not_by_chance():
    power = PiPower()
    assert power.varied(1, 2) == power.varied(1, 2)
    assert power.varied(1, 2) != power.varied(1, 3)
    assert abs(power.varied(1, 2).idle_w / 1.9 - 1.0) <= 0.03


def test_a_drawn_radio_obeys_eq_1_with_one_beta_for_both_directions():
    power = PiPower().with_drawn_radio(7, 3, spread=0.2)
    radio = power.radio
    assert power.watts(Activity(tx_mbit_s=10.0)) * 1e3 == pytest.approx(
        1900.0 + 10.0 * radio.alpha_up_mw_per_mbit_s + radio.beta_mw
    )
    assert power.watts(Activity(rx_mbit_s=10.0)) * 1e3 == pytest.approx(
        1900.0 + 10.0 * radio.alpha_down_mw_per_mbit_s + radio.beta_mw
    )


def test_radios_are_drawn_within_their_spread_each_by_itself_and_by_no_chance():
    drawn = [PiPower().with_drawn_radio(1, device, spread=0.2).radio for device in range(200)]
    for of, middle in (
        (lambda r: r.alpha_up_mw_per_mbit_s, 10.0),
        (lambda r: r.alpha_down_mw_per_mbit_s, 5.0),
        (lambda r: r.beta_mw, 200.0),
    ):
        shares = [of(radio) / middle for radio in drawn]
        assert 0.8 <= min(shares) < 0.82
        assert 1.18 < max(shares) <= 1.2
    assert drawn[5] == PiPower().with_drawn_radio(1, 5, spread=0.2).radio
    assert drawn[5] != PiPower().with_drawn_radio(2, 5, spread=0.2).radio


def test_two_fixed_parts_are_no_beta():
    with pytest.raises(ValueError, match="no one beta"):
        _ = PiPower().radio


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
def test_an_impossible_activity_is_refused(wrong):
    with pytest.raises(ValueError, match="busy_cores"):
        Activity(busy_cores=wrong)


def test_untrusted_values_are_numbers_or_refused():
    assert Activity.from_values({"device": "pi", "ns": 7, "busy_cores": 2}) == Activity(busy_cores=2.0)
    with pytest.raises(ValueError, match="else: unknown key"):
        Activity.from_values({"busy_cores": 2, "else": 1})
    with pytest.raises(ValueError, match="moves_until_ns"):
        Activity.from_values({"moves_until_ns": 2**63})
    for wrong in ("1", None, True, [1], math.nan):
        with pytest.raises(ValueError, match="tx_mbit_s"):
            Activity.from_values({"tx_mbit_s": wrong})


def test_a_resting_radio_draws_its_fixed_part_alone_and_an_idle_one_nothing():
    power = PiPower().with_drawn_radio(3, 0)
    beta_w = power.radio.beta_mw * 1e-3
    for moving in (Activity(tx_mbit_s=20.0), Activity(rx_mbit_s=20.0)):
        assert power.watts(moving) > power.idle_w + beta_w + 0.05
        assert power.watts(moving.radio_resting()) == pytest.approx(power.idle_w + beta_w)
    assert power.watts(IDLE.radio_resting()) == power.idle_w
