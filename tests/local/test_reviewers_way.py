"""docs/start/review-a-crate.md typed as it stands, and what `check` names of a changed crate."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roambench as rb
from forked_commands import roambench
from page_commands import PageCommands
from page_data import page_data
from roambench.extras.exports.ro_crate import About, export_ro_crate
from roambench.report.templates.rendering import packed
from roambench.runs.groups import run_folders
from roambench.runs.manifest import write_manifest
from watching import watching

PAGE = PageCommands("docs/start/review-a-crate.md")
EXPERIMENT = """
name = "tiny"
systems = ["mohawk", "hierfavg"]
trace = { parameters = { devices = 8, steps = 8 }, steps = 4 }
fleet = { agents = 4, aps = 3 }
learning = { dataset = "synthetic", model = "mlp", images_per_device = 20, local_epochs = 1 }
synthetic = { train_images = 100, test_images = 50 }
rounds = { cloud_every_steps = 2 }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own with runs of two systems, and a crate of them beside it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "tiny.toml").write_text(EXPERIMENT)
    rb.run(folder / "tiny.toml", fleet="simulated", runs_dir=folder / "theirs")
    runs = [Path(shutil.copytree(run, folder / run.name)) for run in run_folders(folder / "theirs")]
    export_ro_crate(runs, folder / "crate", About("CC0-1.0"))
    export_ro_crate(runs, folder / "paper.zip", About("CC0-1.0"))
    return folder


def typed(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return roambench(*words, cwd=cwd, env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"})


@pytest.mark.timeout(600)
def test_a_reviewer_who_knows_nothing_gets_to_the_same_digest(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "paper.zip", tmp_path)
    for command, expected in PAGE.commands:
        program, *words = shlex.split(command)
        if program == "roambench":
            done = typed(*words, cwd=tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed = " ".join(done.stdout.split())
            for line in expected:
                assert line in printed, f"{command}\n{printed}"
        else:
            subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, timeout=60)
    assert "<table" in (tmp_path / "paper.html").read_text("utf-8")


def an_accuracy(crate: Path) -> None:
    document = json.loads((crate / "report.json").read_text())
    document["runs"][0]["learning"]["final_accuracy"] = 0.9999
    (crate / "report.json").write_text(json.dumps(document))


def a_page(crate: Path) -> None:
    page = crate / "report.html"
    text = page.read_text("utf-8")
    (accuracy, *_) = re.findall(r'class="value">(\d+\.\d) %<', text)
    page.write_text(text.replace(f">{accuracy} %<", ">99.9 %<"), "utf-8")


def a_figure_of_the_page(crate: Path) -> None:
    page = crate / "report.html"
    text = page.read_text("utf-8")
    data = page_data(text)
    data["figures"][0]["data"][0]["y"][-1] = 0.9999
    page.write_text(re.sub(r'(id="report-data">)[^<]*', rf"\g<1>{packed(data)}", text), "utf-8")


def a_joule(crate: Path) -> None:
    path = crate / "runs/mohawk/ledger_modelled.parquet"
    table = pq.read_table(path)
    (column, *_) = [at for at, name in enumerate(table.schema.names) if name.endswith("_j")]
    values = [value and value + 1.0 for value in table.column(column).to_pylist()]
    field = table.schema.field(column)
    pq.write_table(table.set_column(column, field, pa.array(values, field.type)), path)


def a_byte_of_the_model(crate: Path) -> None:
    path = crate / "runs/mohawk/models/global.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 0x40
    path.write_bytes(content)


def records(crate: Path) -> None:
    (crate / "runs/mohawk/records.sqlite").unlink()


def nothing(crate: Path) -> None:
    """Change nothing."""


def a_version(crate: Path) -> None:
    """As another version would have made it."""
    path = crate / "runs/mohawk/run.json"
    document = json.loads(path.read_text())
    document["versions"] = {**document["versions"], "roambench": "0.1.0", "roambench code": "0"}
    path.write_text(json.dumps(document))
    page = crate / "report.html"
    made = re.sub(r'content="roambench [^"]*"', 'content="roambench 0.1.0 0"', page.read_text("utf-8"))
    page.write_text(made, "utf-8")


def test_a_crate_in_a_zip_file_is_listed_and_watched(made: Path) -> None:
    done = typed("runs", "paper.zip", "--columns", "name,system", cwd=made)
    assert done.returncode == 0, done.stderr
    assert {line.split()[-1] for line in done.stdout.splitlines()[1:]} == {"mohawk", "hierfavg"}
    with watching(made / "paper.zip") as server:
        listed = json.loads(server.get("/runs.json")[1])
    assert {run["system"] for run in listed} == {"mohawk", "hierfavg"}


@pytest.mark.parametrize("forged", [False, True], ids=["as packed", "digests made again"])
@pytest.mark.parametrize(
    ("change", "status", "named"),
    [
        (nothing, 0, "All is equal"),
        (an_accuracy, 1, "final_accuracy: 0.9999 is recorded"),
        (a_page, 1, "after 'final accuracy': 99.9 % is recorded"),
        (a_figure_of_the_page, 1, "figures.figures[0].data[0].y"),
        (a_joule, 1, "ledger_modelled.parquet"),
        (a_byte_of_the_model, 1, "final model"),
        (records, 1, "records.sqlite: no such file"),
    ],
)
def test_check_names_what_was_changed(
    change: Callable[[Path], None], status: int, named: str, forged: bool, made: Path, tmp_path: Path
) -> None:
    crate = Path(shutil.copytree(made / "crate", tmp_path / "crate"))
    change(crate)
    if forged:
        write_manifest(crate)
    done = typed("check", "crate", cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert named in done.stdout, done.stdout
    reported = typed("report", "crate", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr


def test_a_crate_of_another_version_is_checked_and_both_versions_are_named(
    made: Path, tmp_path: Path
) -> None:
    crate = Path(shutil.copytree(made / "crate", tmp_path / "crate"))
    a_version(crate)
    write_manifest(crate)
    done = typed("check", "crate", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr  # the page names the version in its tables
    assert "made by roambench 0.1.0 0, checked with" in done.stdout
    assert "made with roambench 0.1.0" in done.stdout + done.stderr


def test_a_half_run_is_packed_with_what_is_there_and_the_rest_is_named(made: Path, tmp_path: Path) -> None:
    half = Path(shutil.copytree(made / "mohawk", tmp_path / "half"))
    (half / "records.sqlite").unlink()
    lost = Path(shutil.copytree(made / "mohawk", tmp_path / "lost"))
    (lost / "events.sqlite").unlink()
    packed = typed("export", "ro-crate", "half", "lost", "-o", "c.zip", "--license", "CC0-1.0", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert "missing in `runs/half`: records.sqlite: no such file" in packed.stderr
    assert "lost/events.sqlite: no such file: this run is not exported" in packed.stderr
    checked = typed("check", "c.zip", cwd=tmp_path)
    assert "records.sqlite: no such file" in checked.stdout
    assert typed("report", "c.zip", cwd=tmp_path).returncode == 0


def test_run_says_what_a_crate_or_folder_lacks_to_be_repeated(made: Path, tmp_path: Path) -> None:
    several = typed("run", str(made / "paper.zip"), cwd=tmp_path)
    assert several.returncode != 0
    assert "holds 2 runs, and one is repeated at a time; unpack it and name one: runs/" in several.stderr
    (tmp_path / "empty").mkdir()
    assert "holds no run to repeat" in typed("run", "empty", cwd=tmp_path).stderr
