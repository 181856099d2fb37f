"""What a run asks of boards about the user's packages: real ones, installed by pip as users install them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreign_packages import install
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.runner.foreign_code import needed_on_boards

pytestmark = pytest.mark.lengthy

FILES = {
    "board_pack/flat.py": "def flat(channels, classes): ...\n",
    "board_pack/weights.json": "[1, 2]\n",
    "board_pack/meter.py": "def meter(port, clock, *, reopen_allowed, latch): ...\n",
}
POINTS = {
    "roambench.models": {"board-flat": "board_pack.flat:flat"},
    "roambench.meters": {"board-meter": "board_pack.meter:meter"},
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("board_pack", "board_task")]:
        del sys.modules[name]


def _experiment(folder: Path, learning: str) -> Experiment:
    (folder / "one.toml").write_text(f"systems = ['mohawk']\n[learning]\n{learning}\n")
    return load_experiment(folder / "one.toml")


def _sums(source: Path, *names: str) -> dict[str, str]:
    return {name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in names}


WHOLE = ("board_pack/__init__.py", "board_pack/flat.py", "board_pack/meter.py", "board_pack/weights.json")


def test_an_installed_package_is_asked_for_with_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install(tmp_path, FILES, POINTS, "board_pack")
    monkeypatch.syspath_prepend(site)
    (needed,) = needed_on_boards(_experiment(tmp_path, 'model = "board-flat"')).items()
    name, here = needed
    assert (name, here.version) == ("board-pack", "0.1")
    assert dict(here.files) == _sums(site, *WHOLE)
    ours = _experiment(tmp_path, 'model = "mlp"')
    assert needed_on_boards(ours) == {}
    assert list(needed_on_boards(ours, {"smartpower2", "board-meter"})) == ["board-pack"]


def test_a_package_installed_for_editing_is_known_by_its_name_and_what_is_edited_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, FILES, POINTS, "board_pack")
    source, prefix = tmp_path / "source", tmp_path / "prefix"
    with (source / "pyproject.toml").open("a") as file:
        file.write('[tool.hatch.build]\ndev-mode-dirs = ["."]\n')  # needs no package to make a .pth file
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    words = (sys.executable, "-m", "pip", "install", *options, "--prefix", str(prefix), "-e", str(source))
    subprocess.run(words, check=True)
    (site,) = prefix.glob("lib/python3*/site-packages")
    monkeypatch.syspath_prepend(source)  # as the .pth file in the environment does
    monkeypatch.syspath_prepend(site)
    experiment = _experiment(tmp_path, 'model = "board-flat"')
    here = needed_on_boards(experiment)["board-pack"]
    assert (here.version, dict(here.files)) == ("0.1", _sums(source, *WHOLE))
    (source / "board_pack/flat.py").write_text(FILES["board_pack/flat.py"] + "# edited\n")
    assert needed_on_boards(experiment)["board-pack"].files == _sums(source, *WHOLE) != here.files


def test_code_in_no_package_cannot_come_to_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "board_task.py").write_text(
        "class Task:\n    classes = 2\n    def load(self, folder, seed): ...\n    def build(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    experiment = _experiment(tmp_path, 'task = "board_task:Task"')
    with pytest.raises(ConfigError, match=r"board_task: is in no installed package; boards get packages"):
        needed_on_boards(experiment)
