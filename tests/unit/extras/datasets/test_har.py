from __future__ import annotations

import hashlib
import http.server
import io
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.extras.datasets.har import ARCHIVE, SIGNALS, load_har, pictures
from roambench.learning.datasets.catalogue import load_dataset

OUTER = "human+activity+recognition+using+smartphones.zip"


def text(rows: list[list[float]]) -> bytes:
    """As UCI writes it: two leading blanks, 16 characters a number."""
    return "".join(" " + "".join(f" {value: 15.7e}" for value in row) + "\n" for row in rows).encode()


def window(channel: int, factor: float) -> list[float]:
    return [5.0 + factor * (channel + 1) * sample for sample in range(128)]


def files(train_labels: list[int], test_labels: list[int]) -> dict[str, bytes]:
    found = {}
    for part, labels in (("train", train_labels), ("test", test_labels)):
        found[f"{part}/y_{part}.txt"] = "".join(f"{label}\n" for label in labels).encode()
        for channel, signal in enumerate(SIGNALS):
            rows = [window(channel, 1.0 if index % 2 == 0 else -1.0) for index in range(len(labels))]
            found[f"{part}/Inertial Signals/{signal}_{part}.txt"] = text(rows)
    return found


def write(folder: Path, contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def inner_zip(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"UCI HAR Dataset/{name}", content)
    return out.getvalue()


def outer_zip(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("UCI HAR Dataset.names", "about")
        archive.writestr("UCI HAR Dataset.zip", inner_zip(contents))
    return out.getvalue()


GOOD = files([1, 6], [5])


@pytest.fixture(params=["loose", "unpacked", "zip", "zip in zip"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "zip":
        (tmp_path / "UCI HAR Dataset.zip").write_bytes(inner_zip(GOOD))
    elif request.param == "zip in zip":
        (tmp_path / OUTER).write_bytes(outer_zip(GOOD))
    else:
        write(tmp_path / "UCI HAR Dataset" if request.param == "unpacked" else tmp_path, GOOD)
    return tmp_path


def test_the_nine_signals_become_nine_channels_normalised_over_the_training_part(folder: Path):
    data = load_dataset("har", folder)
    assert (data.train_images.shape, data.test_images.shape) == ((2, 9, 32, 32), (1, 9, 32, 32))
    assert data.train_images.dtype == np.float32
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([0, 5], [4], 6)
    # Training is 5+w and 5-w: mean 5. The mean square of 0..127 is 127*255/6 = 5397.5, w's a multiple.
    deviation = 5397.5**0.5
    for channel in range(9):
        up, down = data.train_images[:, channel]
        assert up[0, 0] == 0.0
        assert up[0, 31] == pytest.approx(31 / deviation, rel=1e-6)
        assert up[31, 31] == pytest.approx(127 / deviation, rel=1e-6)
        assert down[31, 31] == pytest.approx(-127 / deviation, rel=1e-6)
    assert data.test_images[0].tolist() == data.train_images[0].tolist()


def test_rows_are_overlapping_windows_that_use_every_sample():
    picture = pictures(np.arange(128.0)[None, None])[0, 0]
    # Row r starts at round(96 r / 31): 0, 3, 6, 9, 12, 15, 19 ...
    assert picture[:7, 0].tolist() == [0, 3, 6, 9, 12, 15, 19]
    assert picture[31].tolist() == list(range(96, 128))
    assert sorted(set(picture.reshape(-1).tolist())) == list(range(128))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train/y_train.txt", b"1\n7\n", "line 2: label 7, expected 1 to 6"),
        ("train/y_train.txt", b"1\n2.5\n", "line 2: label 2.5, expected 1 to 6"),
        ("test/y_test.txt", b"", "holds no line"),
        ("test/y_test.txt", b"\n", "holds no line"),
        (
            "train/Inertial Signals/body_acc_z_train.txt",
            text([window(0, 1.0), window(0, 1.0)[:100]]),
            "line 2: 100 numbers, expected 128",
        ),
        (
            "train/Inertial Signals/total_acc_x_train.txt",
            text([window(0, 1.0)]),
            "1 lines for 2 labels",
        ),
        (
            "test/Inertial Signals/body_gyro_y_test.txt",
            text([window(0, 1.0)]).replace(b" 6.0000000e+00", b"      5.0.0000"),
            "line 1: '5.0.0000' is not a number",
        ),
        (
            "test/Inertial Signals/body_gyro_y_test.txt",
            text([[float("inf"), *window(0, 1.0)[1:]]]),
            "line 1: 'inf' is not a number",
        ),
        ("test/Inertial Signals/body_gyro_y_test.txt", b"\xff\xfe " * 128, "line 1: .* is not a number"),
    ],
)
def test_wrong_content_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, message: str):
    write(tmp_path, GOOD | {name: content})
    with pytest.raises(DataError, match=rf"^{tmp_path / name}(, |: ){message}"):
        load_dataset("har", tmp_path)


def test_missing_files_are_listed_with_where_they_were_looked_for(tmp_path: Path):
    write(tmp_path, GOOD)
    (tmp_path / "test" / "Inertial Signals" / "total_acc_z_test.txt").unlink()
    with pytest.raises(ConfigError) as raised:
        load_dataset("har", tmp_path)
    assert raised.value.problems == (
        f"{tmp_path}/test/Inertial Signals/total_acc_z_test.txt: missing UCI HAR file "
        "(also looked for in UCI HAR Dataset/ and in UCI HAR Dataset.zip there)",
    )
    with pytest.raises(ConfigError) as raised:
        load_dataset("har", tmp_path / "empty")
    assert len(raised.value.problems) == 20


def test_archives_that_lack_something_are_named(tmp_path: Path):
    path = tmp_path / OUTER
    path.write_bytes(outer_zip({name: content for name, content in GOOD.items() if "/y_test" not in name}))
    with pytest.raises(DataError, match=r"zip: UCI HAR Dataset\.zip: lacks test/y_test\.txt"):
        load_dataset("har", tmp_path)
    path.write_bytes(inner_zip(GOOD))
    with pytest.raises(DataError, match=r"zip: lacks UCI HAR Dataset\.zip"):
        load_dataset("har", tmp_path)


def test_what_is_missing_is_downloaded_and_checked(tmp_path: Path):
    body = outer_zip(GOOD)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            there = replace(ARCHIVE, url=f"http://127.0.0.1:{server.server_port}/har.zip")
            with pytest.raises(DataError, match=r"SHA-256 .*expected c00b803081a5; not kept"):
                load_har(tmp_path, download=True, archive=there)
            there = replace(there, digest=hashlib.sha256(body).hexdigest())
            assert load_har(tmp_path, download=True, archive=there).test_labels.tolist() == [4]
        finally:
            server.shutdown()
            thread.join()
    assert load_dataset("har", tmp_path, download=True).test_labels.tolist() == [4]
