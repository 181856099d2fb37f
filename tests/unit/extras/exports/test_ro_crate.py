"""What the library of RO-Crate reads back from an exported crate, and what its authors' validator finds.

`ro-crate-1.1-context.jsonld.gz` is the JSON-LD context of RO-Crate 1.1 (1.1.3, CC0) as
https://github.com/ResearchObject/ro-crate has it in docs/_specification/1.1/context.jsonld; unpacked its
SHA-256 is 4a8c4cbdfd73d3d11be5ebe135f6122a0fc711fd1433e4258a748c80cc257ab7. The validator fetches it; here it
finds it in its cache.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from rocrate.rocrate import ROCrate

from roambench.cli.main import main
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.exports.ro_crate import About, citation, export_ro_crate
from roambench.report.report import report
from roambench.report.tracked import tracked_runs
from roambench.runner.checking.checks import check_runs
from roambench.runs.crates import unpacked
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.groups import runs_at
from small_runs import measured, simulated, swept
from tracker_room import ROOT, NewRoom, TrackerRoom

CONTEXT = Path(__file__).with_name("ro-crate-1.1-context.jsonld.gz")
ABOUT = About("CC-BY-4.0", "Two runs", ("Ann Example",))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "board", tmp_path / "virtual"]
    for make, path in zip((measured, simulated), found, strict=True):
        make(path)
        with RunFolder.open(path) as folder:
            export_run(folder)
    return found


def test_the_library_reads_back_every_file_with_what_it_holds(runs: list[Path], tmp_path: Path) -> None:
    crate = ROCrate(export_ro_crate(runs, tmp_path / "crate", ABOUT))
    assert (crate.name, crate.license.id) == ("Two runs", "https://spdx.org/licenses/CC-BY-4.0")
    files = {entity.id: entity for entity in crate.get_by_type("File")}
    on_disk = {
        path.relative_to(tmp_path / "crate").as_posix()
        for path in (tmp_path / "crate").rglob("*")
        if path.is_file()
    }
    assert on_disk == {*files, "ro-crate-metadata.json", "manifest.sha256"}
    assert {"runs/board/ledger.parquet", "runs/virtual/ledger_modelled.parquet"} <= on_disk
    for name, entity in files.items():
        assert int(entity["contentSize"]) == (tmp_path / "crate" / name).stat().st_size
        assert entity["description"]
    for run in runs:
        copied = {path.name for path in (tmp_path / "crate/runs" / run.name).iterdir() if path.is_file()}
        assert {"steps.parquet", "ledger.parquet", "events.sqlite", "records.sqlite"} <= copied
        for name in copied - {"settings.json", "experiment.json", "run.json"}:
            there = (tmp_path / "crate/runs" / run.name / name).read_bytes()
            if not name.endswith(".sqlite"):
                assert there == (run / name).read_bytes()
    assert "roambench check ." in (tmp_path / "crate/README.md").read_text()


def test_the_command_that_repeats_a_run_can_be_pasted_whatever_the_runs_name(
    runs: list[Path], tmp_path: Path
) -> None:
    run = runs[1].rename(tmp_path / "hierfavg cloud_every_steps=2 it's seed=7")
    crate = export_ro_crate([run], tmp_path / "crate", ABOUT)
    (command,) = re.findall("`(roambench run .*)` ", (crate / "README.md").read_text())
    assert shlex.split(command) == ["roambench", "run", f"runs/{run.name}"]


def test_actions_say_when_with_what_and_what_came_out(runs: list[Path], tmp_path: Path) -> None:
    crate = ROCrate(export_ro_crate(runs, tmp_path / "crate.zip", ABOUT))
    actions = {action["name"]: action for action in crate.get_by_type("CreateAction")}
    for run in tracked_runs(runs):
        action = actions[f"Run {run.name}"]
        assert action["description"] == run.finding
        assert action["startTime"] == run.info.created_utc
        assert ("endTime" in action.properties()) == (run.ended_s is not None)
        assert action["instrument"]["name"] == "roambench"
        with zipfile.ZipFile(tmp_path / "crate.zip") as archive:
            found = json.loads(archive.read(action["object"].id))
        assert found["settings"] == run.settings
        assert action["result"].id == f"runs/{run.name}/"
    with zipfile.ZipFile(tmp_path / "crate.zip") as archive:
        numbers = json.loads(archive.read("report.json"))
    assert numbers == json.loads(report(runs).json().replace(f"{runs[0]}", "runs/board"))


@pytest.mark.parametrize("packed", ["crate", "crate.zip"])
def test_a_sweep_over_files_stays_within_the_crate_and_every_link_in_it_leads_somewhere(
    tmp_path: Path, packed: str
) -> None:
    swept(tmp_path / "grid")
    for file in (tmp_path / "grid").rglob("experiment.json"):
        values = json.loads(file.read_text())
        first = values["learning"]["alpha"] == 0.1
        values["learning"]["alpha"] = 0.5
        values["trace"]["file"] = "../../../data/o ne.parquet" if first else r"c:\data\two.parquet"
        file.write_text(json.dumps(values))
    names = [
        f"mohawk file={file} seed={seed}"
        for file in ("..-..-..-data-o ne.parquet", "c:-data-two.parquet")
        for seed in (1, 2)
    ]
    out = tmp_path / "out"
    export_ro_crate(runs_at([tmp_path / "grid"]), out / packed, ABOUT)
    assert [path.name for path in out.iterdir()] == [packed]
    crate = unpacked(out / packed)
    assert sorted(path.name for path in (crate / "runs").iterdir()) == names
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    known = {entity["@id"] for entity in graph}
    links = set(re.findall(r'{"@id": "([^"]*)"}', json.dumps(graph)))
    assert {link for link in links - known if not link.startswith("https://")} == set()
    checks = check_runs(runs_at([crate]))
    assert [each for check in checks for each in check.findings if each.what == "name"] == []


def test_nothing_of_the_bench_s_own_is_in_it(runs: list[Path], tmp_path: Path) -> None:
    export_ro_crate(runs, tmp_path / "crate", ABOUT)
    names = {path.name for path in (tmp_path / "crate").rglob("*")}
    assert not names & {"controller.log", "bench.json", "agents.json", "lock"}
    assert not [name for name in names if name.endswith((".log", ".pem", "-wal", "-shm"))]
    settings = json.loads((tmp_path / "crate/runs/board/experiment.json").read_text())
    assert "influxdb" not in settings
    assert "ray_address" not in settings["simulated"]


def test_inputs_of_one_name_are_kept_apart_and_no_place_on_the_machine_is_told(
    runs: list[Path], tmp_path: Path
) -> None:
    with RunFolder.open(runs[0], write=True) as folder:
        folder.update(inputs={"/home/a/leaf/0.png": "a", "/home/a/rose/0.png": "b", "/srv/t.parquet": "c"})
    export_ro_crate(runs, tmp_path / "crate", ABOUT)
    info = json.loads((tmp_path / "crate/runs/board/run.json").read_text())
    assert info["inputs"] == {"leaf/0.png": "a", "rose/0.png": "b", "t.parquet": "c"}


def test_report_and_compare_open_a_crate_that_is_a_zip(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crate = export_ro_crate(runs, tmp_path / "crate.zip", ABOUT)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(crate), "--json"])
    assert ended.value.code == 0
    assert [run["name"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["board", "virtual"]
    with pytest.raises(SystemExit):
        main(["compare", str(crate)])
    assert "virtual: no meter readings" in capsys.readouterr().err  # it was read


def test_the_citation_agrees_with_that_of_the_sources() -> None:
    ours, theirs = yaml.safe_load(citation()), yaml.safe_load((ROOT / "CITATION.cff").read_text())
    same = ("cff-version", "title", "type", "authors", "version", "license")
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}


@pytest.mark.parametrize("license_", ["CC-BY-5000", "", "MIT OR Apache-2.0"])
def test_what_is_no_single_licence_is_refused(license_: str, runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--license.*CC-BY-4\.0"):
        export_ro_crate(runs, tmp_path / "crate", About(license_))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board", "virtual"]


def test_a_link_that_leads_nowhere_is_left_alone(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "crate").symlink_to(tmp_path / "unplugged")
    with pytest.raises(ConfigError, match="crate: exists already; name a new folder"):
        export_ro_crate(runs, tmp_path / "crate", ABOUT)


def test_an_archive_that_is_there_is_left_alone(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "crate.zip").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        export_ro_crate(runs, tmp_path / "crate.zip", ABOUT)
    assert (tmp_path / "crate.zip").read_text() == "mine"


def test_without_the_library_the_error_has_the_command_that_installs_it(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocrate", None)
    monkeypatch.delitem(sys.modules, "rocrate.rocrate")
    with pytest.raises(RunError, match=r"-m pip install 'rocrate"):
        export_ro_crate(runs, tmp_path / "crate", ABOUT)


CACHE = """\
import io, sys
from pathlib import Path
import requests, requests_cache, urllib3
from requests.adapters import HTTPAdapter

class Shelf(HTTPAdapter):
    def send(self, request, **_):
        raw = urllib3.HTTPResponse(
            io.BytesIO(Path(sys.argv[2]).read_bytes()), status=200,
            headers={"Content-Type": "application/ld+json"}, preload_content=False,
        )
        return self.build_response(request, raw)

session = requests_cache.CachedSession(sys.argv[1], expire_after=-1, backend="sqlite")
session.mount("https://w3id.org/", Shelf())
for kinds in ("application/ld+json, application/json, */*;q=0.1", "application/ld+json"):
    session.get("https://w3id.org/ro/crate/1.1/context", headers={"Accept": kinds})
"""
#: What a run cannot know of its makers, or has no address for.
UNKNOWN = {
    "The Application SHOULD have a url",
    "The SoftwareApplication id SHOULD be an absolute URI",
    "The Action SHOULD have an endTime in ISO 8601 format",
    "The Action SHOULD have an agent that is a Person or Organization",
    "The `publisher` property of a `Root Data Entity` SHOULD be an `Organization`",
    "The author SHOULD have an organizational affiliation.",
    "The author SHOULD have a Contextual Entity which specifies the organizational `affiliation`.",
}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> TrackerRoom:
    return NewRoom(tmp_path_factory.mktemp("crate"), "ro-crate", more=("roc-validator>=0.13,<1",))


def issues(room: TrackerRoom, crate: Path, cwd: Path) -> list[tuple[str, str]]:
    """Severity and message of what the validator has against a crate that is to be a Process Run Crate."""
    (cwd / "context.jsonld").write_bytes(gzip.decompress(CONTEXT.read_bytes()))
    warmed = room.run("python", "-c", CACHE, cwd / "cache", cwd / "context.jsonld", cwd=cwd)
    assert warmed.returncode == 0, warmed.stderr
    words = (
        "validate",
        crate,
        "-p",
        "process-run-crate-0.5",
        "-l",
        "recommended",
        "--offline",
        "--no-paging",
    )
    files = ("--cache-path", cwd / "cache", "-f", "json", "-o", cwd / "judged.json")
    judged = room.run("rocrate-validator", "--no-interactive", *words, *files, cwd=cwd)
    assert (cwd / "judged.json").exists(), judged.stdout + judged.stderr
    found: dict[str, Any] = json.loads((cwd / "judged.json").read_text())
    return [(issue["severity"], issue["message"]) for issue in found["issues"]]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_validator_of_its_authors_misses_only_what_nobody_said(
    room: TrackerRoom, runs: list[Path], tmp_path: Path
) -> None:
    made = room.roambench(
        *("export", "ro-crate", *runs, "-o", tmp_path / "crate", "--license", "CC-BY-4.0"),
        *("--author", "Ann Example"),
        cwd=tmp_path,
    )
    assert (made.returncode, made.stderr) == (0, "")
    assert set(issues(room, tmp_path / "crate", tmp_path)) <= {("RECOMMENDED", text) for text in UNKNOWN}
    metadata = tmp_path / "crate/ro-crate-metadata.json"
    metadata.write_text(metadata.read_text().replace('"datePublished"', '"joules"'))
    assert {severity for severity, _ in issues(room, tmp_path / "crate", tmp_path)} >= {"REQUIRED"}
