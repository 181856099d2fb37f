from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.partition import partition
from samples import sampled

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


def authors_counts(images: int, alpha: float, devices: int) -> np.ndarray:
    """Class counts as MOHAWK's published `utils.dirichlet` makes them: shares truncated, scaled up to
    `images`, truncated again, and what is missing given to one class at random."""
    draws = np.random.default_rng(7)
    found = []
    for share in draws.dirichlet(np.full(10, alpha), devices):
        truncated = (share * images).astype(int)
        counts = (truncated / truncated.sum() * images).astype(int)
        counts[draws.integers(10)] += images - counts.sum()
        found.append(counts)
    return np.array(found)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("images", "sd", "distance"), sampled([(50, 1.63, 0.094)], [(500, 4.97, 0.040), (50, 1.63, 0.094)])
)
def test_iid_devices_have_the_class_counts_of_the_authors_code(
    images: int, sd: float, distance: float, replacement: bool
):
    """Multinomial counts would have deviations of 8.23 and 2.18, and be 0.066 and 0.172 from uniform."""
    labels = np.repeat(np.arange(10), 600)
    parts = partition(labels, 4000, images, 100.0, 3, replacement=replacement)
    ours = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    theirs = authors_counts(images, 100.0, 4000)
    for counts in (ours, theirs):
        assert (counts.sum(axis=1) == images).all()
        assert counts.std() == pytest.approx(sd, rel=0.02)
        assert np.abs(counts / images - 0.1).sum(axis=1).mean() / 2 == pytest.approx(distance, rel=0.03)
    # From a device's rarest class to its most frequent one.
    assert np.sort(ours).mean(axis=0) == pytest.approx(np.sort(theirs).mean(axis=0), abs=0.3)


def test_skewed_devices_have_as_many_classes_as_the_authors_code_gives():
    labels = np.repeat(np.arange(10), 600)
    parts = partition(labels, 2000, 500, 0.1, 3)
    ours = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    theirs = authors_counts(500, 0.1, 2000)
    assert (ours > 0).sum(axis=1).mean() == pytest.approx((theirs > 0).sum(axis=1).mean(), abs=0.15)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.03)


def test_a_device_of_one_image_gets_one():
    parts = partition(LABELS, 200, 1, 100.0, 3)
    assert [len(part) for part in parts] == [1] * 200
    assert len({int(LABELS[part[0]]) for part in parts}) == 10


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
