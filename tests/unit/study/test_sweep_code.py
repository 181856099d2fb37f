"""A sweep keeps what is of the same code, and runs anew what is not: with packages that pip installed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreign_packages import importable, install, roambench
from roambench.experiment.load import load_experiment
from roambench.runner.foreign_code import foreign_code
from roambench.runs.fleet_kinds import FLEET_KINDS
from roambench.study.sweep.points import points_of
from roambench.study.sweep.sweep_file import read_sweep

SYSTEM = """
from dataclasses import replace

from pocket_bench.shares import share
from roambench.systems.catalogue import SYSTEMS
from roambench.systems.system import FoldedEdge


def pocket(options):
    return replace(SYSTEMS.load("mohawk")(options), name="pocket", edge_weights=FoldedEdge(share))
"""
FILES = {
    "pocket_bench/system.py": SYSTEM,
    "pocket_bench/shares.py": "def share(samples):\n    return 1.0\n",
    "pocket_bench/walk.py": (
        "from dataclasses import replace\nfrom roambench.mobility.walks.city import CITY\n"
        "WALK = replace(CITY, name='pocket-walk')\n"
    ),
}
POINTS = {
    "roambench.systems": {"pocket": "pocket_bench.system:pocket"},
    "roambench.generators": {"pocket-walk": "pocket_bench.walk:WALK"},
}
SWEEP = """
fleet = "rehearsal"
metrics = ["wasted_share"]
[experiment]
trace = { parameters = { devices = 20, steps = 24 }, steps = 3 }
fleet = { agents = 3 }
[grid]
systems = ["mohawk", "pocket"]
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "pair.toml").write_text(SWEEP)
    with importable(install(tmp_path, FILES, POINTS)) as found:
        yield found


def keys(folder: Path, *overrides: str) -> dict[str, str]:
    """System -> the key by which its result is found again."""
    return {point.system: point.key for point in points_of(read_sweep(folder / "pair.toml", overrides))}


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(system for system in before if before[system] != after[system])


@pytest.mark.timeout(600)
def test_a_run_of_a_package_that_changed_is_made_anew_and_all_others_are_kept(
    tmp_path: Path, site: Path
) -> None:
    done = roambench(tmp_path, "sweep", "pair.toml", "--jobs", "1", site=site)
    assert done.returncode == 0, done.stderr
    runs = tmp_path.glob("runs/pair/points/*/runs/*/run.json")
    code = {run["system"]: run["code"] for run in (json.loads(path.read_text()) for path in runs)}
    assert code["mohawk"] == []
    (noted,) = code["pocket"]
    assert (noted["package"], noted["version"]) == ("pocket-bench", "0.1")
    assert noted["modules"] == ["pocket_bench"]
    assert len(noted["sha256"]) == 64

    # Not the module of the entry point: one that it imports.
    (site / "pocket_bench" / "shares.py").write_text("def share(samples):\n    return 2.0\n")
    again = roambench(tmp_path, "sweep", "pair.toml", "--check", site=site)
    assert re.findall(r"system=(\w+) seed=42  (\w+)", again.stdout) == [
        ("mohawk", "finished"),
        ("pocket", "open"),
    ]


def test_every_kind_of_row_counts_with_the_code_behind_it(tmp_path: Path, site: Path) -> None:
    before = keys(tmp_path)
    shares = site / "pocket_bench" / "shares.py"
    shares.write_text("def share(samples):\n    return 2.0\n")
    assert changed(before, keys(tmp_path)) == ["pocket"]
    shares.write_text(FILES["pocket_bench/shares.py"])
    assert changed(before, keys(tmp_path)) == []  # the content counts, not the hour
    walking = keys(tmp_path, 'trace.generator="pocket-walk"')
    shares.write_text("def share(samples):\n    return 2.0\n")
    # The package decides how everybody moves: nobody's result is known any more.
    assert changed(walking, keys(tmp_path, 'trace.generator="pocket-walk"')) == ["mohawk", "pocket"]


def test_a_local_algorithm_counts_though_another_package_brings_the_system_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = (
        "from dataclasses import replace\nfrom roambench.systems.catalogue import SYSTEMS\n"
        "def steep(options):\n"
        "    training = replace(options.training, objective='steep:power=3')\n"
        "    return replace(SYSTEMS.load('mohawk')(options), name='steep', training=training)\n"
    )
    loss = (
        "from roambench.learning.local_algorithms import LocalAlgorithm, LocalAlgorithmRow, cross_entropy\n"
        "def build(power):\n"
        "    return LocalAlgorithm(lambda logits, labels: cross_entropy(logits, labels) ** power)\n"
        "STEEP = LocalAlgorithmRow(build, {'power': 2.0})\n"
    )
    named = {"roambench.systems": {"steep": "steep_system.rows:steep"}}
    added = {"roambench.local_algorithms": {"steep": "steep_loss.rows:STEEP"}}
    for package, text, points in (("steep_system", system, named), ("steep_loss", loss, added)):
        site = install(tmp_path / package, {f"{package}/rows.py": text}, points, package)
        monkeypatch.syspath_prepend(site)
    (tmp_path / "pair.toml").write_text(SWEEP.replace('"pocket"', '"steep"'))
    before = keys(tmp_path)
    (site / "steep_loss" / "rows.py").write_text(loss + "# another\n")
    assert changed(before, keys(tmp_path)) == ["steep"]


def test_a_folder_that_is_on_the_path_twice_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was started with -m has the current folder on its path besides."""
    (tmp_path / "pocket_space").mkdir()
    (tmp_path / "pocket_space" / "lines.py").write_text(
        "class Lines:\n    load = build = staticmethod(lambda *arguments: None)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.toml").write_text(
        SWEEP.replace('"mohawk", "pocket"', '"mohawk"').replace(
            "[grid]", 'learning = { task = "pocket_space.lines:Lines" }\n[grid]'
        )
    )
    before = keys(tmp_path)
    monkeypatch.syspath_prepend(f"{tmp_path}/../{tmp_path.name}")
    assert changed(before, keys(tmp_path)) == []


def test_another_version_of_what_a_package_imports_counts(tmp_path: Path, site: Path) -> None:
    (site / "pocket_bench" / "shares.py").write_text("import ledgerlib\n" + FILES["pocket_bench/shares.py"])
    (site / "ledgerlib.py").write_text("")
    (tmp_path / "one.toml").write_text('systems = ["pocket"]\n')
    info = site / "ledgerlib-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("ledgerlib.py,,\nledgerlib-1.0.dist-info/METADATA,,\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledgerlib\nVersion: 1.0\n")
    (code,) = foreign_code(load_experiment(tmp_path / "one.toml"), FLEET_KINDS["rehearsal"])
    assert (code.package, code.needs) == ("pocket-bench", ("ledgerlib 1.0",))


@pytest.mark.timeout(600)
def test_a_package_that_is_edited_while_the_sweep_runs_fails_the_run_it_was_edited_under(
    tmp_path: Path, site: Path
) -> None:
    edits = SYSTEM + (
        "\nfrom pathlib import Path\n"
        "file = Path(__file__).with_name('shares.py')\n"
        "file.write_text(file.read_text() + '# edited meanwhile\\n')\n"
    )
    (site / "pocket_bench" / "system.py").write_text(edits)
    done = roambench(tmp_path, "sweep", "pair.toml", "--jobs", "2", site=site)
    assert done.returncode == 1
    assert "the code of pocket-bench changed while the sweep ran: run the sweep again" in done.stderr
    assert "1 of 2 runs failed" in done.stderr


def test_a_task_counts_with_what_it_imports_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two plain files of a folder on PYTHONPATH, installed by nobody."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "pocket_lines.py").write_text(
        "from roambench.learning.models.build import mlp\n"
        "from roambench.learning.datasets.catalogue import load_dataset\n"
        "from pocket_settings import CLASSES\n"
        "class Lines:\n"
        "    def load(self, folder, download):\n"
        "        return load_dataset('synthetic')\n"
        "    def build(self, in_channels, classes):\n"
        "        return mlp(in_channels, CLASSES)\n"
    )
    (home / "pocket_settings.py").write_text("CLASSES = 10\n")
    monkeypatch.syspath_prepend(home)
    own = SWEEP.replace('"pocket"', '"hierfavg"')
    (tmp_path / "pair.toml").write_text(
        own.replace("[grid]", 'learning = { task = "pocket_lines:Lines" }\n[grid]')
    )
    before = keys(tmp_path)
    (home / "pocket_settings.py").write_text("CLASSES = 12\n")
    assert changed(before, keys(tmp_path)) == ["hierfavg", "mohawk"]
