"""The other ways of giving devices their images, checked by counting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.partition import partition
from roambench.learning.partitions import PARTITIONS, PartitionRequest, make_partition

LABELS = np.repeat(np.arange(10), 100)[np.random.default_rng(0).permutation(1000)]
REQUEST = PartitionRequest(LABELS, devices=20, images_per_device=50, alpha=0.3, seed=5)


def counts(part: np.ndarray) -> np.ndarray:
    return np.bincount(LABELS[part], minlength=10)


def test_dirichlet_is_mohawks_partition():
    ours, mohawks = make_partition("dirichlet", REQUEST), partition(LABELS, 20, 50, 0.3, 5)
    assert all(np.array_equal(a, b) for a, b in zip(ours, mohawks, strict=True))


def test_iid_devices_have_all_classes_alike_and_no_image_twice():
    parts = make_partition("iid", replace(REQUEST, devices=200))
    assert all(len(np.unique(part)) == 50 for part in parts)
    # 200 devices of 50 images: every class 1,000 times, give or take four standard deviations (about 27).
    assert sum(counts(part) for part in parts) == pytest.approx([1000] * 10, abs=120)


def test_a_dirichlet_split_deals_out_every_image_once():
    parts = make_partition("dirichlet_split", REQUEST)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 1
    assert max(sizes) > 2 * min(sizes)


def test_a_small_alpha_gives_each_class_to_few_devices_and_a_large_one_to_all():
    def holders(alpha: float) -> float:
        parts = make_partition("dirichlet_split", replace(REQUEST, alpha=alpha))
        return float(np.mean(sum((counts(part) > 0).astype(int) for part in parts)))

    assert holders(0.05) < 8
    assert holders(100.0) > 18


def test_every_device_of_a_thin_split_gets_at_least_one_image():
    parts = make_partition("dirichlet_split", replace(REQUEST, devices=400, alpha=0.01))
    assert min(len(part) for part in parts) == 1
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


def test_middles_devices_have_a_major_class_and_the_others_evenly():
    parts = make_partition("major_class", replace(REQUEST, devices=12, major_share=0.82))
    for device, part in enumerate(parts):
        found = counts(part)
        assert found[device % 10] == 41  # 82 % of 50
        rest = np.delete(found, device % 10)
        assert sorted(rest.tolist()) == [1] * 9  # 9 images, 9 classes
        assert len(np.unique(part)) == 50


def test_label_shards_give_each_device_few_labels_and_no_image_twice():
    parts = make_partition("label_shards", REQUEST)
    assert {len(part) for part in parts} == {50}
    assert len(np.unique(np.concatenate(parts))) == 1000
    # 40 shards of 25: each of one label, because 25 divides 100.
    assert all((counts(part) > 0).sum() <= 2 for part in parts)


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_a_partition_is_fixed_by_its_seed(name: str):
    def drawn(seed: int) -> bytes:
        return np.concatenate(make_partition(name, replace(REQUEST, seed=seed))).tobytes()

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        ("iid", {"images_per_device": 1001}, "images_per_device = 1001: the training set has 1000 images"),
        ("dirichlet_split", {"alpha": 0.0}, "alpha = 0.0: expected more than 0"),
        ("major_class", {"major_share": 1.5}, "major_share = 1.5: expected a share"),
        ("major_class", {"images_per_device": 200}, "170 images of class 0, there are 100"),
        ("label_shards", {"devices": 600}, "devices x shards_per_device = 1200"),
        ("round_robin", {}, "unknown partition 'round_robin': expected one of dirichlet"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused_with_the_reason(name, changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_partition(name, replace(REQUEST, **changes))
