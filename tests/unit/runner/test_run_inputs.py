"""A run knows which data it was made of: what goes on, or is taken as finished, is of the same."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cut_runs import QUIET, Cut, CutShort, cut_short
from forked_commands import roambench
from roambench.contract.errors import RunError
from roambench.experiment.sections import Experiment
from roambench.learning.tasks import load_task
from roambench.runner.composition import run_experiment
from roambench.runner.input_files import changes, input_files
from roambench.runner.resuming import resume_run
from roambench.runs.checkpoint_file import read_checkpoint, write_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

LABELS = "train-labels-idx1-ubyte"
TASK = """
from pathlib import Path
import numpy as np
from torch import nn
from roambench.learning.datasets.dataset import Dataset

HERE = Path(__file__).parent


class Own:
    def load(self, folder, download):
        with np.load(HERE / "data.npz") as found:
            images, labels = found["images"], found["labels"]
        return Dataset(images, labels, images, labels, classes=10)

    def build(self, in_channels, classes):
        model = nn.Sequential(nn.Flatten(), nn.Linear(1024, classes))
        nn.init.constant_(model[1].bias, float((HERE / "bias.txt").read_text()))
        return model
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Own idx files, as MNIST's are named."""
    folder, draws = tmp_path / "data", np.random.default_rng(3)
    folder.mkdir()
    for part, count in (("train", 200), ("t10k", 50)):
        images = draws.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


def permute(folder: Path) -> None:
    """Other labels in a file of the same length."""
    path = folder / LABELS
    content = path.read_bytes()
    path.write_bytes(content[:8] + content[:7:-1])


def experiment(data: Path, *systems: str, **learning: object) -> Experiment:
    walk = {"presence": "checkins", "devices": 8, "steps": 10}
    return Experiment.model_validate(
        {
            "name": "e",
            "systems": list(systems or ("mohawk",)),
            "trace": {"generator": "city", "steps": 10, "parameters": walk},
            "fleet": {"agents": 4, "aps": 2},
            "learning": {
                "dataset": "mnist",
                "data_path": str(data),
                "model": "mlp",
                "images_per_device": 20,
                "test_images": 20,
                **learning,
            },
        }
    )


def cut(made: Experiment, runs_dir: Path) -> Path:
    CutShort.left = 14
    with pytest.raises(Cut):
        run_experiment(made, fleet="simulated", runs_dir=runs_dir, console=QUIET)
    CutShort.left = -1
    run = (runs_dir / "e" / "latest" / made.systems[0]).resolve()
    assert read_checkpoint(run) is not None
    return run


def test_a_run_whose_labels_changed_is_not_gone_on_with_and_its_message_names_the_file(
    tmp_path: Path, data: Path
) -> None:
    run = cut(experiment(data), tmp_path / "runs")
    before = (run / "run.json").read_bytes()
    permute(data)
    changed = rf"\({data}/{LABELS} changed\); put back what was there"
    words = (
        f"cannot be resumed: other training labels, shares of the devices than it was begun with {changed}"
    )
    with pytest.raises(RunError, match=words):
        resume_run(run, QUIET)
    assert (run / "run.json").read_bytes() == before

    permute(data)  # what was there is put back
    resume_run(run, QUIET)
    assert RunFolder.open(run).info.state is RunState.FINISHED


def test_the_content_of_data_counts_not_their_place_nor_their_date(tmp_path: Path, data: Path) -> None:
    run = cut(experiment(data), tmp_path / "runs")
    data.rename(tmp_path / "moved")
    data.symlink_to(tmp_path / "moved")
    for path in data.iterdir():
        path.touch()
    resume_run(run, QUIET)
    assert RunFolder.open(run).info.state is RunState.FINISHED


def test_the_same_command_starts_anew_where_the_data_changed(tmp_path: Path, data: Path) -> None:
    run = cut(experiment(data), tmp_path / "runs")
    permute(data)
    output = io.StringIO()
    console = Console(file=output, width=2000)
    (other,) = run_experiment(
        experiment(data), fleet="simulated", runs_dir=tmp_path / "runs", console=console
    )
    assert other.parent != run.parent
    assert f"is not taken: since it was begun, {data}/{LABELS} changed" in output.getvalue()
    inputs = json.loads((run / "run.json").read_text())["inputs"]
    assert sorted(Path(name).name for name in inputs) == [
        f"{part}-{what}" for part in ("t10k", "train") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]


def test_a_run_whose_checkpoint_notes_no_data_goes_on_and_says_that_they_are_not_checked(
    tmp_path: Path, data: Path
) -> None:
    run = cut(experiment(data), tmp_path / "runs")
    checkpoint = read_checkpoint(run)
    assert checkpoint is not None
    checkpoint.data.clear()
    write_checkpoint(run, checkpoint)
    output = io.StringIO()
    resume_run(run, Console(file=output, width=2000))
    assert "does not tell which data it was begun with" in output.getvalue()


@pytest.fixture
def own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task that reads data and the first weights from files which no setting names."""
    folder, draws = tmp_path / "own", np.random.default_rng(3)
    folder.mkdir()
    (folder / "inputs_task.py").write_text(TASK)
    (folder / "bias.txt").write_text("0.25")
    images = draws.normal(size=(200, 1, 32, 32)).astype(np.float32)
    np.savez(folder / "data.npz", images=images, labels=np.arange(200) % 10)
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("inputs_task", None)
    load_task.cache_clear()
    return folder


def other_labels(folder: Path) -> None:
    with np.load(folder / "data.npz") as found:
        images, labels = found["images"], found["labels"]
    np.savez(folder / "data.npz", images=images, labels=labels[::-1].copy())


def other_bias(folder: Path) -> None:
    (folder / "bias.txt").write_text("0.5")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_labels, r"other training labels, test labels, shares of the devices than .*data.npz changed"),
        (other_bias, r"other first model than it was begun with \(.*bias.txt changed\)"),
    ],
)
def test_files_that_a_task_reads_by_itself_are_inputs_too(
    tmp_path: Path, own_task: Path, change: Callable[[Path], None], words: str
) -> None:
    run = cut(experiment(own_task, task="inputs_task:Own", data_path=""), tmp_path / "runs")
    inputs = RunFolder.open(run).info.inputs
    assert sorted(inputs) == [str(own_task / "bias.txt"), str(own_task / "data.npz")]
    change(own_task)
    with pytest.raises(RunError, match=words):
        resume_run(run, QUIET)


def test_a_run_knows_what_naming_the_most_frequent_class_would_give(tmp_path: Path, own_task: Path) -> None:
    with np.load(own_task / "data.npz") as found:
        images, labels = found["images"], found["labels"]
    labels[: len(labels) // 2] = 3
    np.savez(own_task / "data.npz", images=images, labels=labels)
    run = cut(experiment(own_task, task="inputs_task:Own", data_path=""), tmp_path / "runs")
    info = RunFolder.open(run).info
    assert info.test_samples == 20  # `learning.test_images`
    assert info.chance_accuracy == np.bincount(labels).max() / len(labels) >= 0.5
    more = experiment(own_task, task="inputs_task:Own", data_path="", test_images=10_000)
    assert RunFolder.open(cut(more, tmp_path / "more")).info.test_samples == len(labels)  # there are no more


def test_what_became_of_a_file_is_told_unless_its_whole_folder_is_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "many").mkdir(parents=True)
    for number in range(101):
        (folder / "many" / f"{number}.png").write_bytes(b"%d" % number)
    (folder / "one.npz").write_bytes(b"1")
    settings = experiment(folder, dataset="digits")
    inputs = input_files(settings, "mohawk", [*folder.glob("many/*"), folder / "one.npz"])
    assert list(inputs) == [f"{folder}/one.npz", f"{folder}/many/"]
    assert changes(inputs) == []
    (folder / "one.npz").write_bytes(b"2")
    (folder / "many" / "7.png").write_bytes(b"8")
    assert changes(inputs) == [f"{folder}/one.npz changed", f"{folder}/many/ changed"]
    (folder / "one.npz").unlink()
    assert changes(inputs)[0] == f"{folder}/one.npz is gone"
    folder.rename(tmp_path / "elsewhere")
    assert changes(inputs) == []


@pytest.mark.parametrize("dataset", ["imagefolder", "spokendigits"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda at: None, []),
        (lambda at: (at / ".DS_Store").touch(), []),
        (lambda at: (at / "0_ann_2.wav").touch(), ["names"]),
        (lambda at: (at / "0_ann_0.wav").unlink(), ["names", "gone"]),
        (lambda at: (at / "0_ann_0.wav").rename(at / "0_ann_9.wav"), ["names", "gone"]),
        (lambda at: at.rename(at.with_name("other")), ["names"]),
        (lambda at: at.with_name("other").mkdir(), ["names"]),
        (lambda at: (at / "0_ann_0.wav").write_bytes(b"1"), ["content"]),
        (lambda at: at.parent.parent.rename(at.parent.parent.with_name("moved")), []),
    ],
)
def test_what_comes_to_a_folder_of_data_and_goes_is_a_change(
    tmp_path: Path, dataset: str, change: Callable[[Path], object], said: list[str]
) -> None:
    top = tmp_path / "data" / {"imagefolder": "train", "spokendigits": "recordings"}[dataset]
    files = [top / "leaf" / f"0_ann_{number}.wav" for number in range(2)]
    files[0].parent.mkdir(parents=True)
    for path in files:
        path.write_bytes(b"0")
    inputs = input_files(experiment(tmp_path / "data", dataset=dataset), "mohawk", files)
    assert set(inputs) == {f"{top} (names of files)", *map(str, files)}
    change(files[0].parent)
    phrases = {
        "names": f"{top} (names of files) changed",
        "gone": f"{files[0]} is gone",
        "content": f"{files[0]} changed",
    }
    assert changes(inputs) == [phrases[what] for what in said]
    del inputs[f"{top} (names of files)"]  # as an older version noted it
    assert changes(inputs) == [phrases[what] for what in said if what != "names"]


def test_code_and_what_python_and_programs_keep_for_themselves_are_no_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cached = tmp_path / "home" / ".cache" / "fonts.json"
    cached.parent.mkdir(parents=True)
    cached.touch()
    (tmp_path / "own.py").touch()
    opened = [
        cached,
        tmp_path / "own.py",
        Path(os.__file__).with_name("LICENSE.txt"),
        Path("/proc/self/status"),
    ]
    opened.append(Path(np.__file__).with_name("__config__.py"))
    assert input_files(experiment(tmp_path / "data", dataset="digits"), "mohawk", opened) == {}

    letters = cached.parent / "roambench" / "emnist" / "letters.gz"  # where downloads of two data sets lie
    letters.parent.mkdir(parents=True)
    letters.touch()
    monkeypatch.delenv("ROAMBENCH_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    settings = experiment(Path(), dataset="emnist_byclass", data_path="")
    assert list(input_files(settings, "mohawk", [cached, letters])) == [str(letters)]


SWEEP = """
fleet = "simulated"
metrics = ["wasted_share"]
[experiment]
systems = ["mohawk"]
trace = { parameters = { devices = 8, steps = 6 }, steps = 3 }
fleet = { agents = 3 }
learning = { model = "mlp", images_per_device = 16, test_images = 20 }
[grid]
learning.dataset = ["digits", "mnist"]
"""


def command(*words: str, cwd: Path) -> str:
    done = roambench(*words, cwd=cwd, env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(900)
def test_a_finished_point_of_a_sweep_runs_again_where_its_data_changed_and_says_which_file(
    tmp_path: Path, data: Path
) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    words = ("sweep", "s.toml", "--jobs", "1", "--set", f'learning.data_path="{data}"')
    assert "0 finished already, 2 to run" in command(*words, cwd=tmp_path)
    permute(data)
    changed = f"runs again, as since it finished {data / LABELS} changed"
    checked = command(*words, "--check", cwd=tmp_path)
    assert f"mnist seed=42  open: {changed}" in checked
    assert "1 finished already, 1 to run" in checked
    assert f"of other inputs than there are now: {data / LABELS} changed" in command(
        *words, "--table", cwd=tmp_path
    )

    again = command(*words, cwd=tmp_path)
    assert changed in again
    assert "1 finished already, 1 to run" in again
    (first,) = tmp_path.glob("runs/s/points/*/attempts/001/runs/*/run.json")
    (point,) = (path for path in first.parents if path.name.startswith("mohawk-seed42-"))
    (second,) = point.glob("runs/*/run.json")
    labels = [json.loads(path.read_text())["inputs"][str(data / LABELS)] for path in (first, second)]
    assert labels[0] != labels[1]


@pytest.mark.timeout(900)
def test_a_comparison_measures_again_what_was_made_of_other_data(tmp_path: Path, data: Path) -> None:
    walk = "trace = { parameters = { devices = 8, steps = 6 }, steps = 3 }\nfleet = { agents = 3 }\n"
    learning = (
        f'learning = {{ dataset = "mnist", data_path = "{data}", model = "mlp", images_per_device = 16 }}\n'
    )
    for name, system in (("a", "mohawk"), ("b", "hierfavg")):
        (tmp_path / f"{name}.toml").write_text(f'systems = ["{system}"]\n{walk}{learning}')
    words = ("ab", "a.toml", "b.toml", "--fleet", "simulated", "--repeats", "1", "-o", "pair")
    command(*words, cwd=tmp_path)
    permute(data)
    again = command(*words, cwd=tmp_path)
    assert again.count(f"runs again, as since it finished {data / LABELS} changed") == 2
    assert "; 0 finished already" in again
