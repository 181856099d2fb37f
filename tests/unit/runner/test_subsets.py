"""Parts of a data set that lies sorted on the disk, as Speech Commands does: every class in its share."""

from __future__ import annotations

import asyncio
import io
import wave
from pathlib import Path

import numpy as np
import pytest

from roambench.experiment.sections import Experiment
from roambench.extras.datasets.speech_commands import WORDS
from roambench.learning.datasets.catalogue import drawn_subset
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.world import learning_task_of

TRAINED, TESTED = 6, 4  # recordings per word


def sound(loudness: int) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(np.full(1600, loudness, dtype="<i2").tobytes())
    return content.getvalue()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the layout of the published archive: a folder per word, and a list of what is tested."""
    place = tmp_path_factory.mktemp("speech_commands")
    tested = []
    for word in WORDS:
        (place / word).mkdir()
        for number in range(TRAINED + TESTED):
            (place / word / f"{number:08x}_nohash_0.wav").write_bytes(sound(100 + number))
        tested += [f"{word}/{number:08x}_nohash_0.wav" for number in range(TRAINED, TRAINED + TESTED)]
    (place / "testing_list.txt").write_text("\n".join(tested))
    (place / "validation_list.txt").write_text("")
    return place


def experiment(folder: Path, seed: int, **learning: object) -> Experiment:
    whole = {"dataset": "speechcommands", "data_path": str(folder), "model": "mlp", **learning}
    return Experiment.model_validate({"seed": seed, "learning": whole})


def accuracy_of_always(word: str, told: Experiment) -> float:
    """Of a model that answers `word` whatever it is given."""
    learning_task = learning_task_of(told, 2)
    model = np.zeros(learning_task.layout.size, dtype=np.float32)
    model[len(model) - len(WORDS) + WORDS.index(word)] = 1.0  # biases of the last layer come last
    return asyncio.run(TestSetEvaluator(told, learning_task).score(model)).accuracy


@pytest.mark.parametrize("tested", [0, 10, 20])
def test_a_part_of_the_test_set_scores_every_class_in_its_share(recordings: Path, tested: int):
    told = experiment(recordings, 1, images_per_device=10, test_images=tested)
    for word in ("eight", "zero", "one"):  # the first and the last of the names, and one between
        assert accuracy_of_always(word, told) == pytest.approx(0.1)


def test_devices_get_their_images_from_a_part_with_every_class_in_its_share(recordings: Path):
    told = experiment(recordings, 1, images_per_device=20, train_images=20, partition="iid")
    learning_task = learning_task_of(told, 3)
    for part in learning_task.parts:  # all of the twenty: two of each word
        assert np.bincount(learning_task.dataset.train_labels[part], minlength=10).tolist() == [2] * 10
    other = learning_task_of(
        experiment(recordings, 2, images_per_device=20, train_images=20, partition="iid"), 3
    )
    assert [sorted(part.tolist()) for part in other.parts] == [
        sorted(part.tolist()) for part in learning_task.parts
    ]


def test_a_part_is_spread_over_the_whole_set_and_the_same_every_time():
    labels = np.repeat(np.arange(10), 1000)
    part = drawn_subset(labels, 2000, "test")
    assert np.bincount(labels[part], minlength=10).tolist() == [200] * 10
    assert len(np.unique(part)) == 2000
    # Within a class a uniform draw: its mean place has a standard error of 289 * sqrt(0.8 / 200) = 18.
    places = part.reshape(10, 200) % 1000
    assert places.mean(axis=1) == pytest.approx([499.5] * 10, abs=75)
    assert part.tolist() == drawn_subset(labels, 2000, "test").tolist()
    assert part.tolist() != drawn_subset(labels, 2000, "train").tolist()


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        # UCI HAR's test windows: six activities of different length.
        ((496, 471, 420, 491, 532, 537), 500, [84, 80, 71, 84, 90, 91]),
        # EMNIST by class is far from even; a class too small for an image gets none.
        ((900, 90, 9, 1), 100, [90, 9, 1, 0]),
        ((5, 5), 30, [5, 5]),
        ((), 3, []),
    ],
)
def test_shares_are_rounded_down_and_the_largest_remainders_filled_up(
    sizes: tuple[int, ...], count: int, expected: list[int]
):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    part = drawn_subset(labels, count, "test")
    assert np.bincount(labels[part], minlength=len(sizes)).tolist() == expected
