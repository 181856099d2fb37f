"""The other ways of giving devices their images, checked by counting."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.partition import partition
from roambench.learning.partitions import PARTITIONS, PartitionRequest, make_partition
from roambench.mobility.walks.edge_hopping import EdgeHoppingParameters, edge_hopping

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
    for part in parts:
        assert sorted(counts(part).tolist()) == [1] * 9 + [41]  # 82 % of 50; 9 images, 9 classes
        assert len(np.unique(part)) == 50


def test_middles_major_classes_are_drawn_alike_for_each_device_of_its_own():
    many = make_partition("major_class", replace(REQUEST, devices=1000))
    majors = [int(counts(part).argmax()) for part in many]
    # A class comes 100 times, give or take four standard deviations (9.5); a class twice in a row 100 times.
    assert np.bincount(majors, minlength=10) == pytest.approx([100] * 10, abs=38)
    assert sum(a == b for a, b in pairwise(majors)) == pytest.approx(100, abs=38)
    few = make_partition("major_class", replace(REQUEST, devices=3))
    assert [part.tolist() for part in few] == [part.tolist() for part in many[:3]]


def edge_mixes(rule: str, devices: int, edges: int, p: float, step: int, **changes: float) -> np.ndarray:
    """Classes of the data of each edge's devices at a step of the generator that MIDDLE moves by."""
    trace = edge_hopping(EdgeHoppingParameters(devices, steps=step + 1, aps=edges, p=p), 5)
    rows = trace.rows(step)
    parts = make_partition(rule, replace(REQUEST, devices=devices, **changes))
    held = np.array([counts(part) for part in parts])
    found = np.array([held[trace.device[rows][trace.ap[rows] == edge]].sum(axis=0) for edge in range(edges)])
    return found / found.sum(axis=1, keepdims=True)


def unlike(mixes: np.ndarray) -> float:
    """Mean total variation between an edge's classes and those of all, which are even."""
    return float(np.abs(mixes - 0.1).sum(axis=1).mean() / 2)


def test_middles_edges_are_non_iid_as_its_section_3_demands():
    """100 devices, 10 edges, 10 classes. Devices dealt out in turn would leave every edge like all: 0.00."""
    for p, step in ((0.0, 0), (0.0, 20), (0.5, 1), (0.5, 20)):
        drawn = edge_mixes("major_class", 100, 10, p, step)
        assert unlike(drawn) == pytest.approx(0.29, abs=0.06)
    # In order, an edge's ten devices share their class: 0.85 of it, 0.1 of which everybody has.
    assert unlike(edge_mixes("major_class_in_order", 100, 10, 0.0, 0)) == pytest.approx(0.76, abs=0.011)
    moved = edge_mixes("major_class_in_order", 100, 10, 0.5, 20)
    assert unlike(moved) == pytest.approx(0.29, abs=0.06)


def test_the_two_edges_of_middles_figure_1_can_be_made():
    """50 devices: 70 % of the data of edge 1 are labelled 0 to 4 and 30 % 5 to 9, the opposite at edge 2."""
    mixes = edge_mixes("major_class_in_order", 50, 2, 0.0, 0, major_share=0.46)
    assert mixes[:, :5].sum(axis=1) == pytest.approx([0.7, 0.3], abs=0.01)


def test_label_shards_give_each_device_few_labels_and_no_image_twice():
    parts = make_partition("label_shards", REQUEST)
    assert {len(part) for part in parts} == {50}
    assert len(np.unique(np.concatenate(parts))) == 1000
    # 40 shards of 25: each of one label, because 25 divides 100.
    assert all((counts(part) > 0).sum() <= 2 for part in parts)


@pytest.mark.parametrize("name", sorted(PARTITIONS.own))
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
        ("major_class", {"images_per_device": 200}, r"170 images of class \d, there are 100"),
        ("major_class_in_order", {"images_per_device": 200}, "170 images of class 0, there are 100"),
        ("major_class", {"labels": LABELS[:0]}, "images_per_device = 50: the training set has 0 images"),
        ("label_shards", {"devices": 600}, "devices x shards_per_device = 1200"),
        ("round_robin", {}, "unknown partition 'round_robin': expected one of dirichlet"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused_with_the_reason(name, changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_partition(name, replace(REQUEST, **changes))
