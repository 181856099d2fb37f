"""Folders that Hugging Face's `datasets` 4.8.5 wrote with `save_to_disk` (../huggingface/write.py)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from roambench.contract.errors import ConfigError, DataError
from roambench.experiment.load import load_experiment
from roambench.learning.datasets.catalogue import Availability, availability, load_dataset
from roambench.learning.datasets.dataset import Dataset

FOLDERS = Path(__file__).parent / "huggingface"


def _load(folder: Path) -> Dataset:
    return load_dataset("huggingface", folder)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "images", tmp_path / "images"))


def _feature(folder: Path, name: str, value: object) -> None:
    """Change a column's description in both splits; None takes it away."""
    for split in ("train", "test"):
        path = folder / split / "dataset_info.json"
        info = json.loads(path.read_text())
        info["features"].pop(name, None)
        if value is not None:
            info["features"][name] = value
        path.write_text(json.dumps(info))


def test_images_are_the_digits_that_were_saved() -> None:
    found = _load(FOLDERS / "images")
    digits = load_digits()
    train = [i for i in range(100) if i % 5]
    assert found.train_images.shape == (80, 1, 32, 32)
    assert found.test_images.shape == (20, 1, 32, 32)
    assert found.classes == 10
    np.testing.assert_array_equal(found.train_labels, digits.target[:100][train])
    np.testing.assert_array_equal(found.test_labels, digits.target[:100:5])
    assert abs(float(found.train_images.mean())) < 1e-5
    assert float(found.train_images.std()) == pytest.approx(1.0, abs=1e-4)
    # Of 8x8 pixels, in the middle; up to mean and deviation they are scikit-learn's.
    expected = np.stack([(digits.images[i] * 255 / 16).astype(np.uint8) for i in train]).astype(np.float64)
    inside = found.train_images[:, 0, 12:20, 12:20].astype(np.float64)
    assert np.corrcoef(inside.ravel(), expected.ravel())[0, 1] > 0.999999
    assert len(np.unique(np.delete(found.train_images[0, 0], range(12, 20), axis=0))) == 1


def test_sounds_become_pictures_in_which_a_high_tone_lies_higher() -> None:
    found = _load(FOLDERS / "sounds")
    assert found.train_images.shape == (12, 1, 32, 32)
    assert found.train_images.dtype == np.float32
    loudest = found.train_images[:, 0, :, 1].argmax(axis=1)
    assert set(loudest[found.train_labels == 0]) < set(range(min(loudest[found.train_labels == 1])))


def test_texts_are_the_numbers_of_their_bytes() -> None:
    found = _load(FOLDERS / "texts")
    assert found.train_images.shape == (12, 1, 32, 32)
    sad = found.train_images[found.train_labels == 0][0].ravel()
    assert bytes(sad[:6].astype(np.uint8)) == "müde".encode() + b"\0"


def test_columns_that_are_not_one_input_and_one_class_are_told_with_the_way_out(images: Path) -> None:
    _feature(images, "label", {"dtype": "int64", "_type": "Value"})
    _feature(images, "again", {"_type": "Image"})
    with pytest.raises(ConfigError) as refused:
        _load(images)
    there = "among id (Value), img (Image), label (Value), again (Image)"
    assert refused.value.problems == (
        f"{images / 'train'}: 2 columns of images, sounds or texts {there}; expected one: select_columns "
        "leaves others out, cast_column says what one is",
        f"{images / 'train'}: 0 columns of classes {there}; expected one ClassLabel: class_encode_column "
        "makes one, select_columns leaves others out",
    )


def test_a_column_that_the_file_lacks_is_told_with_the_file(images: Path) -> None:
    _feature(images, "img", None)
    _feature(images, "picture", {"_type": "Image"})
    with pytest.raises(DataError, match=r"train/data-00000-of-00001\.arrow: not an Arrow file of train"):
        _load(images)


def test_a_folder_of_another_kind_is_told(images: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"dataset_dict\.json: not there, expected a folder that save_to_disk"
    ):
        _load(tmp_path)
    with pytest.raises(ConfigError, match="is one split, expected train and test"):
        _load(images / "train")
    (images / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(ConfigError, match=r"has the splits \['train'\], expected train and test"):
        _load(images)
    assert availability("huggingface", images) == Availability(images)


def test_damaged_files_are_told_and_lead_nowhere(images: Path) -> None:
    arrow = images / "train/data-00000-of-00001.arrow"
    whole = arrow.read_bytes()
    arrow.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not an Arrow file"):
        _load(images)
    arrow.write_bytes(whole.replace(b"\x89PNG", b"JUNK", 1))
    with pytest.raises(DataError, match="train, row 0: not an image"):
        _load(images)
    (images / "train/state.json").write_text('{"_data_files": [{"filename": "../../secret.arrow"}]}')
    with pytest.raises(DataError, match="expected one beside it"):
        _load(images)


def test_an_experiment_names_it_and_nothing_is_imported_before(tmp_path: Path) -> None:
    file = tmp_path / "hf.toml"
    file.write_text(f'[learning]\ndataset = "huggingface"\ndata_path = "{FOLDERS / "images"}"\n')
    assert load_experiment(file).learning.dataset == "huggingface"
    code = "import sys, roambench.learning.datasets.catalogue as c; c.DATASETS.load('huggingface'); "
    code += "assert not {'pyarrow', 'PIL', 'datasets'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
