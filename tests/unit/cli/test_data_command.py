from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roambench.cli.data_tables import class_table
from roambench.cli.main import main
from roambench.learning.datasets.catalogue import load_dataset
from roambench.report.pages.data import bars, data_page, distance_figure, heat_map
from roambench.report.summaries.data_shares import DataShares, shares_of, spread

LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])
PARTS = (np.array([0, 1, 2, 3]), np.array([0, 4, 6, 7]), np.array([5]), np.array([], dtype=np.int64))
SHARES = shares_of(("pi-01", "pi-02", "pi-03", "pi-04"), LABELS, PARTS, classes=4)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    out, err = capsys.readouterr()
    return int(raised.value.code or 0), out, err


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(
        "seed = 7\n[trace]\ngenerator = 'city'\nsteps = 4\n[fleet]\nagents = 6\n"
        "[learning]\ndataset = 'digits'\nimages_per_device = 50\nalpha = 0.3\n"
    )
    return path


def test_a_partition_is_counted_by_device_and_class():
    assert SHARES.counts.tolist() == [[4, 0, 0, 0], [1, 1, 2, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert SHARES.held.tolist() == [4, 2, 2, 0]
    assert SHARES.sizes.tolist() == [4, 4, 1, 0]
    assert SHARES.classes_held.tolist() == [1, 3, 1, 0]
    assert SHARES.distinct == 8  # image 0 is at two devices


def test_the_distance_is_half_the_sum_of_the_differences_of_the_shares():
    # The whole is .5 .25 .25. pi-01: (.5 + .25 + .25)/2; pi-02: (.25 + 0 + .25)/2; pi-03: (.5 + .75 + .25)/2.
    assert SHARES.distances.tolist() == [0.5, 0.25, 0.75, 1.0]
    found = spread(SHARES.distances)
    assert (found.least, found.median, found.mean, found.most) == (0.25, 0.625, 0.625, 1.0)


def test_show_prints_the_class_table_of_exactly_what_a_run_deals_out(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "90")
    code, out, _ = run(capsys, "data", "show", str(experiment), "--devices", "2")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert out.startswith("digits, dirichlet, 6 devices, seed 7\n")
    from roambench.learning.partition import partition

    digits = load_dataset("digits")
    parts = partition(digits.train_labels, 6, 50, 0.3, 7)
    first = np.bincount(digits.train_labels[parts[0]], minlength=10)
    row = next(line for line in lines if line[:1] == ["pi-01"])
    assert row[1:11] == [str(count) if count else "." for count in first]
    assert row[11:13] == ["50", str((first > 0).sum())]
    assert ["+", "4", "more"] in lines
    together = np.bincount(digits.train_labels[np.concatenate(parts)], minlength=10)
    row = next(line for line in lines if line[:1] == ["together"])
    assert row[1:] == [*(str(count) for count in together), "300", "10"]
    whole = next(line for line in lines if line[:2] == ["whole", "set"])
    assert whole[2:] == [*(str(count) for count in np.bincount(digits.train_labels)), "1437", "10"]
    assert ["images", "50.0", "50.0", "50.0", "50.0"] in lines
    distinct = len(np.unique(np.concatenate(parts)))
    assert f"{distinct} of 1437 training images are held by some device." in out


def test_json_holds_every_device_and_class(experiment: Path, capsys: pytest.CaptureFixture[str]):
    setting = ("--set", "learning.partition='major_class'", "--set", "learning.major_share=0.9")
    code, out, _ = run(capsys, "data", "show", str(experiment), "--json", *setting)
    assert code == 0
    found = json.loads(out)
    assert (found["dataset"], found["partition"], found["seed"]) == ("digits", "major_class", 7)
    assert (found["test_images"], sum(found["training_set"])) == (360, 1437)
    assert [device["name"] for device in found["devices"]] == [f"pi-{n:02d}" for n in range(1, 7)]
    for device in found["devices"]:
        assert max(device["counts"]) == 45  # ceil(.9 * 50) of the class that it drew
        assert sum(device["counts"]) == 50
    assert found["images"] == {"min": 50, "median": 50, "mean": 50, "max": 50}
    assert found["distance"]["mean"] == pytest.approx(np.mean([d["distance"] for d in found["devices"]]))


def test_access_points_of_a_trace_are_told(experiment: Path, capsys: pytest.CaptureFixture[str]):
    hopping = (
        "--set", 'trace.generator="edge-hopping"', "--set", "fleet.aps=0", "--set", "learning.alpha=0.1",
        "--set", "trace.parameters={ devices = 6, aps = 3, p = 0.5, steps = 12 }",
    )  # fmt: skip
    code, out, err = run(capsys, "data", "show", str(experiment), *hopping)
    assert code == 0, err
    assert "An access point's devices together are this far from the whole set's mix: 0." in out
    found = json.loads(run(capsys, "data", "show", str(experiment), "--json", *hopping)[1])
    assert len(found["distance_of_aps"]) == 4  # steps of the window
    assert 0.0 < min(found["distance_of_aps"]) <= max(found["distance_of_aps"]) < 1.0


def test_another_seed_deals_otherwise_and_the_same_seed_the_same(
    experiment: Path, capsys: pytest.CaptureFixture[str]
):
    outs = [
        run(capsys, "data", "show", str(experiment), "--json", "--set", f"seed={s}")[1] for s in (1, 1, 2)
    ]
    assert outs[0] == outs[1] != outs[2]


def test_the_page_holds_everything_itself(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "deep" / "page.html"
    code, out, _ = run(capsys, "data", "show", str(experiment), "-o", str(page))
    assert code == 0
    assert f"page: {page}" in out.replace("\n", "")
    text = page.read_text()
    assert "default-src 'none'" in text
    for key in ("plot-data-classes", "plot-data-bars", "plot-data-distance", "pi-06"):
        assert key in text
    assert "<script src" not in text
    assert "<link" not in text


def test_a_page_that_cannot_be_written_is_one_line(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code, _, err = run(capsys, "data", "show", str(experiment), "-o", str(tmp_path))
    assert code == 2
    assert err.startswith(f"roambench: {tmp_path}: cannot be written (")
    assert err.count("\n") == 1


def test_missing_files_are_told_line_by_line(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = ("--set", "learning.dataset='svhn'", "--set", f"learning.data_path='{tmp_path}'")
    code, _, err = run(capsys, "data", "show", str(experiment), *settings)
    assert code == 2
    assert err.splitlines() == [
        f"roambench: {tmp_path}/train_32x32.mat: missing SVHN file",
        f"roambench: {tmp_path}/test_32x32.mat: missing SVHN file",
    ]


def test_the_table_never_cuts_a_number_but_adds_up_classes_that_do_not_fit():
    def headings(width: int) -> list[str]:
        return [str(column.header) for column in class_table(SHARES, 4, width).columns]

    # Nine characters of "whole set", then four classes of 2, "images" 7, "held" 5, "dist." 6: 35.
    assert headings(35) == ["device", "0", "1", "2", "3", "images", "held", "dist."]
    # One column less, and "1-3" takes 4.
    assert headings(34) == ["device", "0", "1-3", "images", "held", "dist."]
    last = list(class_table(SHARES, 4, 34).columns[2].cells)
    assert last == [".", "3", "1", ".", "4", "4"]
    assert headings(1) == ["device", "0-3", "images", "held", "dist."]


def test_the_heat_map_shows_shares_and_the_bars_counts():
    cells = heat_map(SHARES).data[0]
    assert cells["x"] == ["pi-01", "pi-02", "pi-03", "pi-04"]
    assert cells["z"] == [[100, 25, 0, 0], [0, 25, 100, 0], [0, 50, 0, 0], [0, 0, 0, 0]]
    assert cells["customdata"][2] == [0, 2, 0, 0]
    assert [trace["y"] for trace in bars(SHARES).data] == [[4, 1, 0, 0], [0, 1, 1, 0], [0, 2, 0, 0], [0] * 4]
    # Bins of .05 from 0: .25, .5 and .75 open theirs, 1 closes the last.
    counts = distance_figure(SHARES).data[0]["y"]
    assert [index for index, count in enumerate(counts) if count] == [5, 10, 15, 19]


def test_many_devices_are_drawn_by_size_instead_of_by_class():
    counts = np.arange(100)[:, None] * np.ones((1, 3), dtype=np.int64)
    many = DataShares(tuple(f"pi-{n}" for n in range(100)), counts, counts.sum(axis=0), 300)
    (trace,) = bars(many).data
    assert trace["y"][:2] == [297, 294]
    assert trace["x"][-1] == 100


def test_names_in_a_page_cannot_carry_markup():
    evil = DataShares(("<script>alert(1)</script>",), np.ones((1, 2), dtype=np.int64), np.array([1, 1]), 2)
    for figure in (heat_map(evil), bars(evil)):
        assert figure.data[0]["x"] == ["&lt;script&gt;alert(1)&lt;/script&gt;"]
    page = data_page("<b>title</b>", ["<i>fact</i>"], evil)
    for text in ("<script>alert", "<b>title", "<i>fact"):
        assert text not in page


def test_list_tells_what_is_offline_here_or_missing_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "svhn").mkdir()
    for part in ("train", "test"):
        (tmp_path / "svhn" / f"{part}_32x32.mat").write_bytes(b"")
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(b"")
    (tmp_path / "har").mkdir()
    (tmp_path / "har" / "human+activity+recognition+using+smartphones.zip").write_bytes(b"")
    code, out, _ = run(capsys, "data", "list")
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:] if line}
    assert rows["svhn"] == ["here", str(tmp_path / "svhn")]
    assert rows["cifar10"] == ["here", str(tmp_path / "cifar10")]
    assert rows["har"] == ["here", str(tmp_path / "har")]
    for name, folder in (
        ("cifar100", "cifar100"),
        ("emnist_byclass", "emnist"),
        ("emnist_letters", "emnist"),
        ("mnist", "mnist"),
        ("speechcommands", "speechcommands"),
    ):
        assert rows[name] == ["missing", str(tmp_path / folder)]
    assert rows["digits"] == rows["synthetic"] == ["offline", "needs", "none"]


def test_the_real_mnist_is_here_and_its_partition_shown(
    data_folder: Path,
    experiment: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("ROAMBENCH_DATA", str(data_folder))
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run(capsys, "data", "list")
    assert ["mnist", "here", str(data_folder / "mnist")] in [line.split() for line in out.splitlines()]
    code, out, _ = run(capsys, "data", "show", str(experiment), "--json", "--set", "learning.dataset='mnist'")
    assert code == 0
    # LeCun's training set, by digit.
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert json.loads(out)["training_set"] == published
