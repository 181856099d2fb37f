"""Every start rule against numbers worked out by hand."""

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.layout import head_of
from roambench.learning.models.build import build
from roambench.learning.start_models import START_RULES, StartInputs, start_model


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


AP, OWN = vector(3, 4, 0, 7), vector(4, 3, 0, 1)  # |ap[:3]| = |own[:3]| = 5, product 24


def test_the_ap_rule_starts_from_the_aps_model_whatever_the_device_had():
    assert start_model("ap", StartInputs(AP, OWN)).tolist() == [3, 4, 0, 7]


def test_greedy_starts_from_the_devices_own_model_and_fedmes_from_the_middle():
    assert start_model("own", StartInputs(AP, OWN)).tolist() == [4, 3, 0, 1]
    assert start_model("average", StartInputs(AP, OWN)).tolist() == [3.5, 3.5, 0, 4]


def test_an_edge_pair_is_the_middle_of_the_present_and_the_previous_aps_models():
    inputs = StartInputs(AP, OWN, previous_ap=vector(1, 0, 2, 1))
    assert start_model("edge_pair", inputs).tolist() == [2, 2, 1, 4]
    assert start_model("edge_pair", StartInputs(AP, OWN)).tolist() == AP.tolist()


def test_a_fresh_device_starts_by_the_rule_behind_the_bar_and_any_other_by_the_one_before():
    trained = StartInputs(AP, OWN, slice(3, 4), last_global=AP)
    fresh = StartInputs(AP, OWN, slice(3, 4), last_global=OWN.copy())
    assert (trained.fresh, fresh.fresh, StartInputs(AP, OWN).fresh, StartInputs(AP).fresh) == (
        False,
        True,
        False,
        True,
    )
    assert start_model("own|ap", trained).tolist() == OWN.tolist()
    assert start_model("own|ap", fresh).tolist() == AP.tolist()
    assert start_model("base_mix|own_head", fresh).tolist() == [3, 4, 0, 1]
    assert start_model("own", fresh).tolist() == OWN.tolist()


def test_middle_weighs_the_own_model_by_its_similarity():
    ap, own = vector(3, 4), vector(4, 3)
    # U = 24/25 (Eq. 8), so the mix is (ap + 0.96 own) / 1.96 (Eq. 9).
    expected = [(3 + 0.96 * 4) / 1.96, (4 + 0.96 * 3) / 1.96]
    assert start_model("similarity_mix", StartInputs(ap, own)).tolist() == pytest.approx(expected, rel=1e-6)


def test_middle_ignores_an_own_model_that_points_the_other_way():
    ap, own = vector(3, 4), vector(-4, 1)
    assert start_model("similarity_mix", StartInputs(ap, own)).tolist() == [3, 4]


def test_middle_plus_mixes_the_base_by_the_bases_similarity_and_keeps_its_own_head():
    start = start_model("base_mix", StartInputs(AP, OWN, slice(3, 4)))
    assert start.tolist() == pytest.approx([(3 + 0.96 * 4) / 1.96, (4 + 0.96 * 3) / 1.96, 0, 1], rel=1e-6)


def test_middle_plus_of_a_device_that_stayed_takes_the_aps_base_and_its_own_head():
    assert start_model("own_head", StartInputs(AP, OWN, slice(1, 3))).tolist() == [3, 3, 0, 7]


def test_middle_plus_without_a_head_is_middle():
    inputs = StartInputs(AP, OWN)
    assert start_model("base_mix", inputs).tolist() == start_model("similarity_mix", inputs).tolist()
    assert start_model("own_head", inputs).tolist() == AP.tolist()


@pytest.mark.parametrize("rule", sorted(START_RULES.own))
def test_a_device_without_a_model_of_its_own_starts_from_the_aps(rule: str):
    assert start_model(rule, StartInputs(AP, None, slice(3, 4))).tolist() == AP.tolist()


@pytest.mark.parametrize("rule", sorted(START_RULES.own))
def test_no_rule_writes_to_what_it_was_given(rule: str):
    ap, own = AP.copy(), OWN.copy()
    ap.flags.writeable = own.flags.writeable = False
    start_model(rule, StartInputs(ap, own, slice(3, 4)))
    assert (ap.tolist(), own.tolist()) == (AP.tolist(), OWN.tolist())


def test_the_head_is_the_last_fully_connected_layer():
    # mlp: 64*32 + 32, then 32*10 + 10 at the end.
    assert head_of(build("mlp", 1, 10)) == slice(2080, 2410)
    # mohawk_cnn: 512*10 + 10 at the end of 659,242 parameters.
    assert head_of(build("mohawk_cnn", 1, 10)) == slice(659_242 - 5130, 659_242)


def test_an_unknown_rule_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match="unknown start rule 'mix': expected one of ap, average, base_mix"):
        start_model("mix", StartInputs(AP))
