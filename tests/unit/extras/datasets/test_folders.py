"""Folders of images by class and of recordings of digits, written by Pillow and `wave`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.pictures import log_mel, pictures_of_images
from roambench.learning.datasets.catalogue import load_dataset

RATE_HZ = 8_000
_LOAD = """
import sys
from pathlib import Path
from roambench.contract.errors import RoambenchError
from roambench.learning.datasets.catalogue import load_dataset
try:
    load_dataset(sys.argv[1], Path(sys.argv[2]))
except RoambenchError as error:
    print(type(error).__name__)
    print(error)
"""


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
    (photographs / "test/loose.png").rename(photographs / "test/._loose.png")
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
        with pytest.raises(DataError, match=r"train/leaf/0\.png: not an image of PNG, [^<]* \([^<]*\)$"):
            load_dataset("imagefolder", photographs)


def test_all_damaged_files_are_named_up_to_20(photographs: Path) -> None:
    for number in range(10, 34):
        (photographs / f"train/leaf/{number}.png").write_bytes(b"%d" % number)
    with pytest.raises(DataError) as refused:
        load_dataset("imagefolder", photographs)
    first, *_, last, rest = str(refused.value).splitlines()
    assert ("10.png: not an image" in first, "29.png: not an image" in last) == (True, True)
    assert rest == "and 4 more"
    for number in range(10, 34):
        (photographs / f"train/leaf/{number}.png").rename(photographs / f"train/leaf/{number}.txt")
    with pytest.raises(ConfigError) as foreign:
        load_dataset("imagefolder", photographs)
    assert (len(foreign.value.problems), foreign.value.problems[-1]) == (21, "and 4 more")


def _written(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        _written(Image.new("F", (8, 8), 0.5), "TIFF"),
        b"P5 2 2 65535\n" + bytes(8),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n",
    ],
)
def test_another_format_behind_the_suffix_is_refused(photographs: Path, content: bytes) -> None:
    (photographs / "train/leaf/0.png").write_bytes(content)
    with pytest.raises(DataError, match=r"leaf/0\.png: not an image of .*\(cannot identify image file\)$"):
        load_dataset("imagefolder", photographs)


def test_modes_that_have_no_scale_are_refused() -> None:
    deep = Image.fromarray(np.full((32, 32), 0x4000, np.uint16))
    files = [(mode, _written(Image.new(mode, (8, 8)), "TIFF")) for mode in ("F", "I", "I;16B")]
    with pytest.raises(DataError) as refused:
        pictures_of_images([("deep", _written(deep, "TIFF")), *files], files[:1], others=["TIFF"])
    assert str(refused.value).splitlines() == [
        f"{mode}: TIFF of mode {mode}, expected colours of 8 bits or greys of 8 or 16"
        for mode in ("F", "I", "I;16B", "F")
    ]


def test_images_one_folder_too_deep_are_no_class(photographs: Path) -> None:
    for part in ("train", "test"):
        (photographs / part).rename(photographs / "rest")
        (photographs / part).mkdir()
        (photographs / "rest").rename(photographs / part / "images")
    with pytest.raises(ConfigError) as refused:
        load_dataset("imagefolder", photographs)
    assert refused.value.problems == (
        f"{photographs}: expected 2 to 100,000 classes, found 1",
        f"{photographs / 'train/images'}: holds folders, expected the images of a class; too deep by one?",
    )


def test_links_to_folders_are_classes_and_lead_somewhere(photographs: Path) -> None:
    (photographs / "train").rename(photographs / "disk")
    (photographs / "train").symlink_to(photographs / "disk")
    (photographs / "disk/leaf").rename(photographs / "leaves")
    (photographs / "train/leaf").symlink_to(photographs / "leaves")
    assert load_dataset("imagefolder", photographs).train_labels.tolist() == [0] * 3 + [1] * 4
    (photographs / "train/stone").symlink_to(photographs / "none")
    (photographs / "test/moss").symlink_to("moss")
    with pytest.raises(DataError) as refused:
        load_dataset("imagefolder", photographs)
    assert str(refused.value).splitlines() == [
        f"{photographs / 'train/stone'}: a link that leads nowhere (No such file or directory)",
        f"{photographs / 'test/moss'}: a link that leads nowhere (Too many levels of symbolic links)",
    ]


@pytest.mark.parametrize(
    ("dataset", "closed", "told"),
    [
        ("imagefolder", "train/rose/more", ["train/rose/more"]),
        ("imagefolder", "test/leaf", ["test/leaf"]),
        ("imagefolder", "train", ["train"]),
        ("imagefolder", "", ["train", "test"]),
        ("spokendigits", "recordings", ["recordings"]),
        ("spokendigits", "", ["recordings"]),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(
    photographs: Path, dataset: str, closed: str, told: list[str]
) -> None:
    (photographs / "recordings").mkdir()
    command = [sys.executable, "-c", _LOAD, dataset, str(photographs)]
    if os.geteuid() == 0:  # root may read anything, unless it lets go of that
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    (photographs / closed).chmod(0)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    finally:
        (photographs / closed).chmod(0o755)
    assert done.stdout.splitlines() == [
        "DataError" if "/" in closed else "ConfigError",
        *(f"{photographs / name}: cannot be read (Permission denied)" for name in told),
    ]


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


def test_speakers_have_any_names_and_what_is_no_recording_is_named(tmp_path: Path) -> None:
    for number, name in enumerate(("mary-ann_0.wav", "mary ann_0.WAV", "o.b. jr_5.Wav", "a_b_12.wav")):
        _sound(tmp_path / f"{number}_{name}", np.ones(9))
    found = load_dataset("spokendigits", tmp_path)
    assert (found.test_labels.tolist(), found.train_labels.tolist()) == ([0, 1], [2, 3])
    for name in ("7_bob.wav", "10_bob_7.WAV", "7_bob_1234567.wav", "notes.wav", "7_bob_0.txt"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError) as refused:
        load_dataset("spokendigits", tmp_path)
    assert refused.value.problems == tuple(
        f"{tmp_path / name}: expected DIGIT_SPEAKER_N.wav"
        for name in ("10_bob_7.WAV", "7_bob.wav", "7_bob_1234567.wav")
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
    _sound(tmp_path / "3_ann_0.wav", np.zeros(0))
    with pytest.raises(DataError) as refused:
        load_dataset("spokendigits", tmp_path)
    assert str(refused.value).splitlines() == [
        f"{tmp_path}/3_ann_0.wav: holds no samples",
        f"{tmp_path}/3_ann_5.wav: 1 channels of 16 bits at 16000 Hz, expected 1 of 16 bits at 8000 Hz",
    ]
