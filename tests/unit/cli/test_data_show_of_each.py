"""`roambench data show` on every data set, from a few samples in the files its publishers give out."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from roambench.cli.main import main
from roambench.extras.datasets.har import SIGNALS
from roambench.extras.datasets.speech_commands import WORDS
from roambench.extras.datasets.svhn import FILES, load_svhn
from roambench.learning.datasets.catalogue import DATASETS


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.astype(np.uint8).tobytes()


def idx_files(prefix: str, test: str) -> dict[str, bytes]:
    pictures = np.arange(4 * 784).reshape(4, 28, 28) % 256
    parts = {
        f"{part}-{kind}": idx(array)
        for part in ("train", test)
        for kind, array in (("images-idx3-ubyte", pictures), ("labels-idx1-ubyte", np.array([1, 2, 1, 2])))
    }
    return {f"{prefix}{name}": content for name, content in parts.items()}


def cifar(label_bytes: int, files: tuple[str, ...]) -> dict[str, bytes]:
    return {name: bytes([number] * label_bytes) + bytes(range(256)) * 12 for number, name in enumerate(files)}


def wav(number: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.arange(16_000) * (number + 1) % 999).astype("<i2").tobytes())
    return out.getvalue()


def har() -> dict[str, bytes]:
    row = "".join(f" {value: 15.7e}" for value in range(128))
    files = {}
    for part in ("train", "test"):
        files[f"{part}/y_{part}.txt"] = b"1\n6\n1\n6\n"
        for factor, signal in enumerate(SIGNALS):
            rows = [row if (number + factor) % 2 else row.replace("e+", "e-") for number in range(4)]
            files[f"{part}/Inertial Signals/{signal}_{part}.txt"] = ("\n".join(rows) + "\n").encode()
    return files


def speech() -> dict[str, bytes]:
    files = {f"{word}/{take}.wav": wav(number) for number, word in enumerate(WORDS) for take in "abc"}
    return {
        **files,
        "validation_list.txt": b"zero/c.wav\n",
        "testing_list.txt": "".join(f"{word}/b.wav\n" for word in WORDS).encode(),
    }


def svhn() -> dict[str, bytes]:
    files = {}
    for part in ("train", "test"):
        out = io.BytesIO()
        labels = np.array([[10], [1], [9], [1]], dtype=np.uint8)
        savemat(
            out, {"X": (np.arange(32 * 32 * 3 * 4).reshape(32, 32, 3, 4) % 251).astype(np.uint8), "y": labels}
        )
        files[f"{part}_32x32.mat"] = out.getvalue()
    return files


def huggingface() -> dict[str, bytes]:
    """A folder that `datasets` wrote."""
    folder = Path(__file__).parents[1] / "extras/datasets/huggingface/images"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def imagefolder() -> dict[str, bytes]:
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, "png")
    counts = {"train/cat": 3, "train/dog": 2, "test/cat": 1, "test/dog": 1}
    return {f"{folder}/{n}.png": out.getvalue() for folder, count in counts.items() for n in range(count)}


def spokendigits() -> dict[str, bytes]:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(bytes(8_000))
    return {f"recordings/{digit}_ann_{n}.wav": out.getvalue() for digit in range(10) for n in range(7)}


#: Data set -> its files, and how many training samples, test samples and classes they hold.
SMALL: dict[str, tuple[Callable[[], dict[str, bytes]], tuple[int, int, int]]] = {
    "digits": (dict, (1437, 360, 10)),
    "synthetic": (dict, (6000, 1000, 10)),
    "mnist": (lambda: idx_files("", "t10k"), (4, 4, 10)),
    "emnist_letters": (lambda: idx_files("emnist-letters-", "test"), (4, 4, 26)),
    "emnist_byclass": (lambda: idx_files("emnist-byclass-", "test"), (4, 4, 62)),
    "cifar10": (
        lambda: cifar(1, (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin")),
        (5, 1, 10),
    ),
    "cifar100": (lambda: cifar(2, ("train.bin", "test.bin")), (1, 1, 100)),
    "svhn": (svhn, (4, 4, 10)),
    "har": (har, (4, 4, 6)),
    "huggingface": (huggingface, (80, 20, 10)),
    "imagefolder": (imagefolder, (5, 2, 2)),
    "speechcommands": (speech, (19, 10, 10)),
    "spokendigits": (spokendigits, (20, 50, 10)),
}


def test_no_data_set_of_ours_is_left_out():
    assert set(SMALL) == set(DATASETS.names())


@pytest.mark.parametrize("name", SMALL)
def test_show_counts_every_training_sample_it_deals_out(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    files, (train, test, classes) = SMALL[name]
    for file, content in files().items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    if name == "svhn":  # the only one that is compared with its checksum when it is read
        digest = hashlib.md5((tmp_path / "train_32x32.mat").read_bytes()).hexdigest()  # both hold the same
        made = [dataclasses.replace(file, digest=digest) for file in FILES]
        monkeypatch.setattr("roambench.extras.datasets.svhn.load_svhn", partial(load_svhn, files=made))
    path = tmp_path / "experiment.toml"
    path.write_text(
        f"[trace]\nsteps = 4\n[fleet]\nagents = 1\n[learning]\ndataset = '{name}'\nmodel = 'mlp'\n"
        f"data_path = '{tmp_path}'\npartition = 'iid'\nimages_per_device = {train}\n"
    )
    with pytest.raises(SystemExit) as raised:
        main(("data", "show", str(path), "--json"))
    assert not raised.value.code
    told = json.loads(capsys.readouterr().out)
    assert (told["dataset"], told["test_images"]) == (name, test)
    (device,) = told["devices"]
    assert (len(device["counts"]), sum(device["counts"])) == (classes, train)
