from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.synthetic import load_synthetic


def test_the_synthetic_set_is_normalised_even_and_the_same_every_time():
    data, again = load_dataset("synthetic"), load_dataset("synthetic")
    assert data.train_images.shape == (6000, 1, 32, 32)
    assert data.test_images.shape == (1000, 1, 32, 32)
    assert data.train_images.dtype == data.test_images.dtype == np.float32
    assert data.train_labels.dtype == np.int64
    assert np.bincount(data.train_labels).tolist() == [600] * 10
    assert np.bincount(data.test_labels).tolist() == [100] * 10
    assert float(data.train_images.mean(dtype=np.float64)) == pytest.approx(0, abs=1e-6)
    assert float(data.train_images.std(dtype=np.float64)) == pytest.approx(1, abs=1e-6)
    assert data.train_images.tobytes() == again.train_images.tobytes()
    assert data.test_images.tobytes() == again.test_images.tobytes()


def test_its_classes_can_be_told_apart_but_not_by_their_mean_images_alone():
    data = load_dataset("synthetic")
    train, test = (images.reshape(len(images), -1) for images in (data.train_images, data.test_images))
    means = np.stack([train[data.train_labels == label].mean(axis=0) for label in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == data.test_labels).mean() == pytest.approx(0.545, abs=0.01)
    # Whoever knows the class's pattern and tries its places does much better: the labels are in the images.
    spectra = np.abs(np.fft.fft2(data.test_images[:, 0]))
    patterns = np.abs(np.fft.fft2(data.train_images[:, 0]))
    matched = np.stack([patterns[data.train_labels == label].mean(axis=0) for label in range(10)])
    common = matched.mean(axis=0)
    scores = np.einsum("nij,kij->nk", spectra - common, (matched - common) / (matched.std(axis=0) + 1e-9))
    assert (scores.argmax(axis=1) == data.test_labels).mean() > 0.3


def test_size_classes_channels_and_seed_can_be_chosen():
    data = load_synthetic(30, 7, classes=3, channels=3, seed=5)
    assert (data.train_images.shape, data.test_images.shape) == ((30, 3, 32, 32), (7, 3, 32, 32))
    assert (data.classes, data.in_channels) == (3, 3)
    assert np.bincount(data.train_labels).tolist() == [10, 10, 10]
    longer = load_synthetic(30, 70, classes=3, channels=3, seed=5)
    assert longer.train_images.tobytes() == data.train_images.tobytes()
    other = load_synthetic(30, 7, classes=3, channels=3, seed=6)
    assert other.train_images.tobytes() != data.train_images.tobytes()


def test_sizes_that_make_no_set_are_all_named():
    with pytest.raises(ConfigError) as raised:
        load_synthetic(0, -1, classes=1, channels=0)
    assert raised.value.problems == (
        "train_images = 0: expected 1 or more",
        "test_images = -1: expected 1 or more",
        "classes = 1: expected 2 or more",
        "channels = 0: expected 1 or more",
    )
