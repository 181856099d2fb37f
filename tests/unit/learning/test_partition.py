from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.partition import partition

LABELS = np.repeat(np.arange(10), 200)  # ten classes of 200


def class_shares(indices: np.ndarray) -> np.ndarray:
    return np.bincount(LABELS[indices], minlength=10) / len(indices)


def test_every_device_gets_its_number_of_images_none_twice():
    shards = partition(LABELS, devices=20, images_per_device=150, alpha=0.1, seed=1)
    assert len(shards) == 20
    for indices in shards:
        assert indices.dtype == np.int64
        assert len(set(indices.tolist())) == len(indices) == 150
        assert 0 <= indices.min() <= indices.max() < len(LABELS)


def test_devices_draw_independently_and_so_overlap():
    shards = partition(LABELS, devices=30, images_per_device=150, alpha=100, seed=1)
    assert len(set(np.concatenate(shards).tolist())) < 30 * 150


def test_alpha_100_is_nearly_iid_and_alpha_01_gives_a_few_classes():
    even = partition(LABELS, devices=50, images_per_device=150, alpha=100, seed=2)
    skewed = partition(LABELS, devices=50, images_per_device=150, alpha=0.1, seed=2)
    assert np.mean([class_shares(indices).max() for indices in even]) < 0.18
    # For Dirichlet(0.1) over ten classes the largest share averages about 0.66.
    assert 0.55 < np.mean([class_shares(indices).max() for indices in skewed]) < 0.78
    assert np.mean([(class_shares(indices) > 0).sum() for indices in skewed]) < 7


def test_class_shares_have_the_dirichlet_multinomial_variance():
    # Var(share) = p(1-p)/n * (n + a)/(1 + a) with p = 1/10, a = 10 alpha = 5, n = 50.
    shards = partition(LABELS, devices=2000, images_per_device=50, alpha=0.5, seed=3)
    shares = np.array([class_shares(indices) for indices in shards])
    assert shares.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=0.02)
    assert shares.var() == pytest.approx(0.09 / 50 * 55 / 6, rel=0.1)


def test_equal_seeds_give_equal_partitions_and_other_seeds_other_ones():
    def drawn(seed: int) -> bytes:
        return np.concatenate(partition(LABELS, 4, 30, 0.5, seed)).tobytes()

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_device_keeps_its_images_when_more_devices_join():
    few, many = partition(LABELS, 3, 30, 0.5, 1), partition(LABELS, 9, 30, 0.5, 1)
    assert [indices.tolist() for indices in few] == [indices.tolist() for indices in many[:3]]
    assert many[0].tolist() != many[1].tolist()


def test_when_a_class_runs_out_the_rest_comes_from_the_others():
    # 150 of 200 images of a device that would like nearly one class only, which has 20.
    labels = np.repeat(np.arange(10), 20)
    for indices in partition(labels, devices=30, images_per_device=150, alpha=0.05, seed=4):
        counts = np.bincount(labels[indices], minlength=10)
        assert counts.sum() == 150
        assert counts.max() == 20


def test_a_device_may_own_the_whole_training_set():
    (indices,) = partition(LABELS, 1, len(LABELS), 0.01, 5)
    assert sorted(indices.tolist()) == list(range(len(LABELS)))


def test_with_replacement_images_repeat_and_the_set_may_be_smaller():
    labels = np.repeat(np.arange(10), 3)
    (indices,) = partition(labels, 1, 100, 1.0, 6, replacement=True)
    assert len(indices) == 100
    assert len(set(indices.tolist())) <= 30


def test_all_mistakes_are_named_at_once():
    with pytest.raises(ConfigError) as raised:
        partition(LABELS, devices=0, images_per_device=3000, alpha=-1.0, seed=1)
    assert raised.value.problems == (
        "alpha = -1.0: expected more than 0",
        "devices = 0: expected 1 or more",
        "images_per_device = 3000: the training set has 2000",
    )
