"""docs/run-files.md against the code, and against what runs really leave behind."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import roambench as rb
import small_runs
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.groups import run_folders
from roambench.runs.reference import FILES, TABLES, run_files_page

pytestmark = pytest.mark.lengthy
ROOT = Path(__file__).parents[3]


def test_the_page_is_made_from_the_columns() -> None:
    page = (ROOT / "docs" / "run-files.md").read_text("utf-8")
    assert page == run_files_page(), "run: python -m roambench.runs.reference docs/run-files.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, workers_of_one_server: None) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    small = {"trace.steps": 3, "fleet.agents": 3}
    demo = ROOT / "experiments" / "demo.toml"
    rb.run(demo, fleet="simulated", set={**small, "systems": ["mohawk"]}, runs_dir=folder)
    rb.run(demo, fleet="rehearsal", set={**small, "systems": ["hierfavg"]}, runs_dir=folder)
    small_runs.measured(folder / "measured")
    with RunFolder.open(folder / "measured", write=True) as run:
        export_run(run)
    return [*run_folders(folder)]


def test_every_file_of_a_run_is_on_it(made: list[Path]) -> None:
    left = {path.relative_to(run).as_posix() for run in made for path in run.rglob("*") if path.is_file()}
    assert len(left) > 12
    assert [name for name in sorted(left) if not any(fnmatch(name, known) for known in FILES)] == []


def test_every_column_of_a_run_says_its_unit_and_what_it_holds(made: list[Path]) -> None:
    seen = set()
    for path in (file for run in made for file in run.glob("*.parquet")):
        seen.add(path.name)
        schema = pq.read_schema(path)
        described = TABLES[path.name]
        assert schema.names[: len(described.names)] == described.names, path
        for field in schema:
            assert field.metadata[b"description"], (path, field.name)
            assert b"unit" in field.metadata, (path, field.name)
            if field.name in described.names:
                assert field.metadata == described.field(field.name).metadata
    assert seen == TABLES.keys() - {"exchanges.parquet"}
