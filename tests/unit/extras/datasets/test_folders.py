"""Folders of images by class and of recordings of digits, written by Pillow and `wave`."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import log_mel
from roambench.learning.datasets.catalogue import load_dataset

RATE_HZ = 8_000


def _image(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def _sound(path: Path, samples: np.ndarray, rate_hz: int = RATE_HZ) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(samples.astype("<i2").tobytes())


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Two classes; red and green of 32x32, and a large one in a folder below."""
    for part, count in (("train", 3), ("test", 1)):
        for number in range(count):
            for name, colour in (("rose", 0), ("leaf", 1)):
                pixels = np.zeros((32, 32, 3))
                pixels[..., colour] = 200 + number
                _image(tmp_path / part / name / f"{number}.png", pixels)
    _image(tmp_path / "train/rose/more/large.PNG", np.full((64, 96, 3), 9))
    (tmp_path / "train/rose/.DS_Store").write_bytes(b"\0")
    return tmp_path


def test_images_lie_by_class_and_name(photographs: Path) -> None:
    found = load_dataset("imagefolder", photographs)
    assert found.train_labels.tolist() == [0, 0, 0, 1, 1, 1, 1]  # leaf, rose
    assert (found.train_images.shape, found.test_images.shape) == ((7, 3, 32, 32), (2, 3, 32, 32))
    np.testing.assert_allclose(found.train_images.mean(axis=(0, 2, 3), dtype=np.float64), 0, atol=1e-6)
    red, green = found.train_images[:, 0, 5, 5], found.train_images[:, 1, 5, 5]
    assert np.diff(red[3:6]).min() > 0  # 200, 201 and 202 of red in the order of their names
    assert (green[:3] > green[3:6]).all()
    assert red[6] == pytest.approx(red[0] + 9 / 255 / _deviation_of_red(), abs=1e-4)


def _deviation_of_red() -> float:
    return float(np.std([0, 0, 0, 200 / 255, 201 / 255, 202 / 255, 9 / 255]))


def test_all_mistakes_of_a_folder_are_told_at_once(photographs: Path) -> None:
    (photographs / "train/leaf/notes.txt").write_text("x")
    (photographs / "test/stone").mkdir()
    with pytest.raises(ConfigError) as refused:
        load_dataset("imagefolder", photographs)
    assert refused.value.problems == (
        f"{photographs / 'train/stone'}: expected images, as in the other part",
        f"{photographs / 'test/stone'}: expected images, as in the other part",
        f"{photographs / 'train/leaf/notes.txt'}: expected an image (.bmp, .gif, .jpeg, .jpg, .png, .webp)",
    )
    with pytest.raises(ConfigError, match=r"none/train: not there.*\n.*none/test: not there"):
        load_dataset("imagefolder", photographs / "none")


def test_files_that_no_class_would_have_are_told(photographs: Path) -> None:
    _image(photographs / "elsewhere/1.png", np.zeros((32, 32)))
    (photographs / "train/leaf/more").symlink_to(photographs / "elsewhere")
    _image(photographs / "test/loose.png", np.zeros((32, 32)))
    with pytest.raises(ConfigError) as refused:
        load_dataset("imagefolder", photographs)
    assert refused.value.problems == (
        f"{photographs / 'train/leaf/more'}: expected an image (.bmp, .gif, .jpeg, .jpg, .png, .webp)",
        f"{photographs / 'test/loose.png'}: expected images in a folder of their class",
    )
    (photographs / "test/loose.png").unlink()
    (photographs / "train/leaf/more").rename(photographs / "train/leaf/more.png")
    with pytest.raises(DataError, match=r"leaf/more\.png: cannot be read"):
        load_dataset("imagefolder", photographs)


def test_hidden_folders_are_left_out_and_links_to_files_are_read(photographs: Path) -> None:
    _image(photographs / "train/leaf/.ipynb_checkpoints/0-checkpoint.png", np.zeros((32, 32)))
    (photographs / "train/leaf/9.png").symlink_to(photographs / "train/leaf/0.png")
    assert load_dataset("imagefolder", photographs).train_labels.tolist() == [0] * 4 + [1] * 4


def test_images_of_16_bits_have_their_grey_levels(tmp_path: Path) -> None:
    levels = np.linspace(0, 65535, 1024).reshape(32, 32).astype(np.uint16)
    for part in ("train", "test"):
        for name, pixels in (("deep", levels), ("flat", (levels >> 8).astype(np.uint8))):
            (tmp_path / part / name).mkdir(parents=True)
            Image.fromarray(pixels).save(tmp_path / part / name / "0.png")
    deep, flat = load_dataset("imagefolder", tmp_path).train_images
    np.testing.assert_array_equal(deep, flat)


def test_there_may_be_thousands_of_classes(tmp_path: Path) -> None:
    _image(tmp_path / "0.png", np.zeros((1, 1)))
    for number in range(1001):
        for part in ("train", "test"):
            (tmp_path / part / str(number)).mkdir(parents=True)
            (tmp_path / part / str(number) / "0.png").hardlink_to(tmp_path / "0.png")
    assert load_dataset("imagefolder", tmp_path).classes == 1001


def test_a_file_that_is_no_image_is_named(photographs: Path) -> None:
    path = photographs / "train/leaf/0.png"
    for content in (path.read_bytes()[:40], b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train/leaf/0\.png: not an image \([^<]*\)$"):
            load_dataset("imagefolder", photographs)


def test_recordings_0_to_4_of_a_digit_test(tmp_path: Path) -> None:
    second = np.arange(RATE_HZ) / RATE_HZ
    for digit in (0, 7):
        for number in range(7):
            tone = 9000 * np.sin(2 * np.pi * (300 + 200 * digit) * second)
            _sound(tmp_path / f"recordings/{digit}_ann_{number}.wav", np.tile(tone, 1 + (number == 6)))
    (tmp_path / "recordings/README.wav").write_bytes(b"not read")
    found = load_dataset("spokendigits", tmp_path)
    assert found.train_labels.tolist() == [0, 0, 7, 7]
    assert found.test_labels.tolist() == [0] * 5 + [7] * 5
    # The longer ones are cut: they are the others' sound.
    np.testing.assert_array_equal(found.train_images[0], found.train_images[1])
    assert found.train_images[0, 0, :, 9].argmax() < found.train_images[2, 0, :, 9].argmax()
    np.testing.assert_array_equal(
        found.train_images, load_dataset("spokendigits", tmp_path / "recordings").train_images
    )


def test_a_band_is_the_same_at_half_the_rate() -> None:
    # The bands end at 3,800 instead of 7,600 Hz: 1,000 Hz is 907.4 of 2013 or 2695 mels above 60 Hz.
    for rate_hz, band in ((8_000, 14), (16_000, 10)):
        tone = np.sin(2 * np.pi * 1000 * np.arange(rate_hz) / rate_hz).astype(np.float32)
        assert set(log_mel(tone[None], rate_hz)[0].argmax(axis=0)) == {band}


def test_recordings_of_another_kind_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recordings: no recordings, expected files such as"):
        load_dataset("spokendigits", tmp_path)
    _sound(tmp_path / "3_ann_0.wav", np.zeros(9))
    with pytest.raises(ConfigError, match="expected recordings 0 to 4, which test, and others"):
        load_dataset("spokendigits", tmp_path)
    _sound(tmp_path / "3_ann_5.wav", np.zeros(9), rate_hz=16_000)
    with pytest.raises(DataError, match=r"3_ann_5\.wav: 1 channels of 16 bits at 16000 Hz, expected 1 of"):
        load_dataset("spokendigits", tmp_path)
