from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.systems import choices
from roambench.systems.system import Candidates, CloudInput, EdgeInput


def vector(*values):
    return np.array(values, dtype=np.float32)


def cloud(models, *, aps, samples, ap_count, reference=(1, 0)):
    return CloudInput(
        reference=vector(*reference),
        aps=aps,
        models=[vector(*model) for model in models],
        aggregated_samples=[0] * len(aps),
        device_samples=samples,
        ap_count=ap_count,
    )


def test_everybody_who_is_there_is_selected():
    offered = Candidates(3, 1, (2, 5, 9), (0, 0, 4), {}, -1, (10.0, 20.0, 30.0))
    assert choices.ALL_AVAILABLE.choose(offered) == (2, 5, 9)


@pytest.mark.parametrize(("trained", "now", "accepted"), [(4, 5, True), (3, 5, False), (5, 5, False)])
def test_hierfavg_accepts_only_what_was_trained_one_step_ago(trained, now, accepted):
    assert choices.trained_one_step_ago(trained, now, 4) is accepted


@pytest.mark.parametrize(
    ("trained", "now", "last_sync", "accepted"),
    [
        (0, 3, -1, True),  # no cloud aggregation yet
        (4, 9, 4, True),  # a step's training comes after its cloud aggregation
        (3, 9, 4, False),
        (9, 9, 4, False),  # not finished before the next step
    ],
)
def test_mohawk_accepts_what_was_trained_since_the_last_cloud_aggregation(trained, now, last_sync, accepted):
    assert choices.trained_since_sync(trained, now, last_sync) is accepted


def test_a_same_step_system_accepts_only_this_steps_training():
    assert choices.trained_this_step(2, 2, 0)
    assert not choices.trained_this_step(1, 2, 0)


def test_edge_data_size_weighs_by_samples():
    model, weights = choices.edge_data_size(EdgeInput(vector(0), [vector(4), vector(8)], [1, 3]))
    assert weights.tolist() == [0.25, 0.75]
    assert model.tolist() == [7.0]


def test_edge_attention_gives_the_less_similar_model_more_weight():
    rule = choices.edge_attention(math.log(2), "flat", ())
    model, weights = rule(EdgeInput(vector(1, 0), [vector(3, 0), vector(0, 6)], [100, 1]))
    assert weights == pytest.approx([1 / 3, 2 / 3])  # exp(-ln 2 · cos): 1/2 against 1, whatever the data
    assert model == pytest.approx([1, 4])


def test_cloud_attention_compares_with_the_previous_global_model():
    rule = choices.cloud_attention(math.log(4), "flat", ())
    _, weights = rule(cloud([(0, 2), (5, 0)], aps=(1, 3), samples=[1], ap_count=4, reference=(0, 1)))
    assert weights == pytest.approx([1 / 5, 4 / 5])  # 1/4 against 1


def test_the_cosine_and_its_shapes_reach_the_weights():
    reference, models = vector(1, 0, 2), [vector(1, 0, -2), vector(0, 1, 2)]
    flat = choices.edge_attention(1.0, "flat", ())(EdgeInput(reference, models, [1, 1]))[1]
    by_entry = choices.edge_attention(1.0, "per_entry", ((2,), (1,)))(EdgeInput(reference, models, [1, 1]))[1]
    # Flat: cos = -3/5 and 4/5. Entries: cos = (1, -1) and (0, 1); averaged over 2 + 1 parameters.
    assert flat[0] == pytest.approx(1 / (1 + math.exp(-0.6 - 0.8)))
    first = (2 / (1 + math.exp(1.0 - 0.0)) + 1 / (1 + math.exp(-1.0 - 1.0))) / 3
    assert by_entry[0] == pytest.approx(first)


def test_cloud_data_counts_every_device_assigned_to_the_ap():
    # 4 devices on 2 APs: 0, 1 -> AP 0 with 1 + 2 samples; 2, 3 -> AP 1 with 3 + 6.
    model, weights = choices.cloud_assigned_data(
        cloud([(0,), (4,)], aps=(0, 1), samples=[1, 2, 3, 6], ap_count=2)
    )
    assert weights.tolist() == [0.25, 0.75]
    assert model.tolist() == [3.0]


def test_cloud_data_of_equal_aps_is_the_plain_mean_and_an_ap_without_devices_weighs_nothing():
    equal = cloud([(3,), (6,)], aps=(0, 1), samples=[5, 5], ap_count=2)
    assert choices.cloud_assigned_data(equal)[0].tolist() == [4.5]
    # 2 devices on 4 APs live at AP 0 and AP 2.
    sparse = cloud([(3,), (100,), (6,), (100,)], aps=(0, 1, 2, 3), samples=[5, 5], ap_count=4)
    model, weights = choices.cloud_assigned_data(sparse)
    assert weights.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert model.tolist() == [4.5]


def test_middles_cloud_counts_the_samples_each_ap_aggregated_since_the_last_sync():
    given = CloudInput(vector(0), (1, 4), [vector(4), vector(8)], [30, 10], [1] * 9, 6)
    model, weights = choices.cloud_participating_data(given)
    assert (weights.tolist(), model.tolist()) == ([0.75, 0.25], [5.0])


def test_macfls_plain_cloud_counts_every_ap_the_same():
    given = CloudInput(vector(0), (1, 4), [vector(4), vector(8)], [30, 10], [1] * 9, 6)
    model, weights = choices.cloud_mean(given)
    assert (weights.tolist(), model.tolist()) == ([0.5, 0.5], [6.0])


def test_heurfedamp_keeps_a_share_of_the_aps_model_and_prefers_what_resembles_it():
    rule = choices.edge_self_attention(0.4, math.log(2), "flat", ())
    model, weights = rule(EdgeInput(vector(1, 0), [vector(3, 0), vector(0, 6)], [1, 1]))
    assert weights == pytest.approx([2 / 3, 1 / 3])  # exp(+ln 2 · cos): 2 against 1
    # 0.4 (1, 0) + 0.6 (2/3 (3, 0) + 1/3 (0, 6)) = (0.4 + 1.2, 1.2)
    assert model == pytest.approx([1.6, 1.2])
