from __future__ import annotations

import numpy as np
import pytest

from roambench.learning.datasets.pixels import normalised, statistics

#: More than are counted at once: the last 904 of 5,000 are white in the second channel, all else is black.
PIXELS = np.zeros((5000, 2, 2, 4), dtype=np.uint8)
PIXELS[4096:, 1] = 255


def test_mean_and_deviation_are_exact_over_all_images_and_never_zero():
    means, deviations = statistics(PIXELS)
    share = 904 / 5000
    assert means == pytest.approx([0.0, share])
    assert deviations == pytest.approx([1.0, (share * (1 - share)) ** 0.5])  # a channel that is all alike: 1


def test_every_image_is_normalised_by_channel_and_set_in_the_middle_of_black():
    images = normalised(PIXELS, (0.5, 0.25), (0.5, 0.25))
    assert images.shape == (5000, 2, 32, 32)
    assert images.dtype == np.float32
    assert (images[:, 0] == -1.0).all()
    assert (images[:4096, 1] == -1.0).all()
    white = images[4096:, 1] == 3.0
    assert white[:, 15:17, 14:18].all()
    assert white.sum() == 904 * 8
