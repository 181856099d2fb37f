"""`roambench reproduce` as a command: its list, and a study that is run and goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.errors import ConfigError
from roambench.extras.reproduce.catalogue import read_catalogue
from roambench.extras.reproduce.listing import wrapped
from roambench.extras.reproduce.scale import CATALOGUE

ROOT = Path(__file__).parents[4]
SWEEP = """\
fleet = "rehearsal"
metrics = ["final_accuracy", "aggregated_per_step"]
[experiment]
[experiment.trace]
generator = "city"
steps = 6
parameters = { devices = 20, steps = 12 }
[experiment.fleet]
agents = 4
[grid]
systems = ["mohawk", "hierfavg"]
rounds.cloud_every_steps = [2]
seeds = 2
"""


def test_a_line_of_the_list_is_wrapped_behind_its_own_indent() -> None:
    text = "MOHAWK\n\n  Table 3: Accuracy\n      small, 2026-11-28: 1 reproduced; data: none to fetch"
    assert wrapped(text, 80) == text
    assert wrapped(text, 40) == (
        "MOHAWK\n\n  Table 3: Accuracy\n      small, 2026-11-28: 1 reproduced;\n          data: none to fetch"
    )


def test_studies_of_recorded_movement_run_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a trace their sweeps would run in the synthetic city, which follows the figures of a claim."""
    monkeypatch.chdir(ROOT)
    for words in (["mohawk-checkins"], ["mohawk", "--finished"], []):
        refused = CliRunner().invoke(app, ["reproduce", *words, "--scale", "medium"])
        assert isinstance(refused.exception, ConfigError)
        study = words[0] if words else "mohawk-boards-agents"
        wanted = f"{study}: at medium it runs on a recorded trace: expected --trace nyc.parquet; experiments/"
        assert wanted in str(refused.exception)
    named = [
        sweep
        for study in read_catalogue(ROOT / CATALOGUE).studies
        for sweep in (study.medium, study.full)
        if sweep is not None and sweep.trace
    ]
    assert len(named) == 5
    for sweep in named:
        assert f"--trace {sweep.trace}" in (ROOT / "experiments" / sweep.file).read_text(encoding="utf-8")


def test_the_list_is_printed_for_people_and_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    plain = CliRunner().invoke(app, ["reproduce", "--list"])
    assert plain.exit_code == 0
    assert "Table 9: Accuracy by number of devices and access points  [mohawk-scale]" in plain.stdout
    # Each row says what ran, when, and what came out; each study where its data are.
    rows = re.split(r"\n(?=  \S)", plain.stdout.split("\nStudies: ")[0])[1:]
    assert all(
        re.search(r"(small|medium|full), \d{4}-\d\d-\d\d: (\d|curves).*; data: \w|nothing ran", row)
        for row in rows
    )
    (table,) = [row for row in rows if "Table 5: " in row and "[mohawk]" in row]
    assert "3 fitted, not reproduced" in table
    # A figure that only the full file has did not run with the study's others.
    (larger,) = [row for row in rows if "Fig. 4: A larger network" in row]
    assert "nothing ran" in larger
    assert re.search(r"\n      medium: ran until \d{4}-\d\d-\d\d, \d+ of 54 runs, docs/", plain.stdout)
    studies = " ".join(plain.stdout.split("\nStudies: ")[1].split())
    scales = re.findall(r" (?:small|medium|full): (.*?)(?= (?:small|medium|full): |$)", studies)
    assert len(scales) > 20
    assert all(re.match(r"(ran until \d|not run here).*; takes .*; data: ", one) for one in scales)
    assert "not timed" not in plain.stdout
    alone = CliRunner().invoke(app, ["reproduce", "mohawk-scale", "--list"]).stdout
    assert re.findall(r"\[([\w-]+)\]", alone) == ["mohawk-scale"]
    assert "MIDDLE" not in alone
    assert isinstance(CliRunner().invoke(app, ["reproduce", "x", "--list"]).exception, ConfigError)
    found = json.loads(CliRunner().invoke(app, ["reproduce", "--list", "--json"]).stdout)
    (row,) = [item for item in found["items"] if item["item"] == "Fig. 8" and item["paper"] == "MIDDLE"]
    assert row["study"] is None
    assert row["missing"]
    assert row["ran"] == []
    (row,) = [item for item in found["items"] if item["item"] == "Figs. 9 to 13"]
    assert sum(row["ran"][0]["outcomes"].values()) == 7
    # A study that answers for no table of a paper has its outcomes, too.
    (own,) = [one for one in found["studies"] if one["study"] == "middle-factors"]
    (ran,) = own["ran"]
    assert sum(ran["outcomes"].values()) == len(read_catalogue(CATALOGUE).study("middle-factors").claims)
    assert list(own["scales"]) == ["small"]
    counts = "; ".join(f"{count} {outcome}" for outcome, count in ran["outcomes"].items())
    assert f"middle-factors-small.csv; {counts}; takes " in plain.stdout


def test_a_list_is_refused_with_options_that_it_would_not_heed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = ["-o", "elsewhere", "--pages", "there", "--scale", "full", "--jobs", "1", "--check"]
    words += ["--finished", "--trace", "t.parquet", "--set", "seed=1"]
    refused = CliRunner().invoke(app, ["reproduce", "--list", *words])
    assert isinstance(refused.exception, ConfigError)
    told = [problem.split(": ")[1] for problem in refused.exception.problems]
    assert told == [
        "--scale", "--jobs", "--output", "--pages", "--check", "--finished", "--trace", "--set",
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "mispelt", tmp_path / "file"):
        refused = CliRunner().invoke(app, ["reproduce", "--list", "--verdicts", str(folder)])
        assert isinstance(refused.exception, ConfigError)
        assert f"--verdicts {folder}: expected a folder of kept figures" in str(refused.exception)


def test_a_study_is_run_and_has_its_page_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "sweep.toml").write_text(SWEEP)
    (tmp_path / "experiments" / "reproduction.toml").write_text(
        '[[study]]\nname = "few"\ntitle = "Few"\ngap.small = "much"\n'
        'small = { file = "sweep.toml", lasts = "1 min" }\n'
        '[[study.claim]]\nsays = "MOHAWK aggregates more"\nmetric = "aggregated_per_step"\n'
        'of = { systems = "mohawk" }\nagainst = [{ systems = "hierfavg" }]\nbetter = "more"\n'
        '[[study]]\nname = "same"\ntitle = "Same"\ngap.small = "much"\n'
        'small = { file = "sweep.toml", lasts = "1 min" }\n'
        '[[study.claim]]\nsays = "HierFAVG aggregates more"\nmetric = "aggregated_per_step"\n'
        'of = { systems = "hierfavg" }\nagainst = [{ systems = "mohawk" }]\nbetter = "more"\n'
        '[[item]]\npaper = "P"\nlabel = "Table 1"\nshows = "x"\nstudy = "few"\n'
    )
    monkeypatch.chdir(tmp_path)
    early = CliRunner().invoke(app, ["reproduce", "few", "--finished"])
    assert str(early.exception) == "runs/reproduce: no run has finished at small of few"
    ended = CliRunner().invoke(app, ["reproduce", "few", "--pages", "pages", "--jobs", "2"])
    assert ended.exit_code == 0, ended.output
    # One process forks the runs of all studies.
    assert [path.parent.name for path in tmp_path.rglob("points.log")] == ["reproduce"]
    page = (tmp_path / "pages" / "few-small.md").read_text(encoding="utf-8")
    assert "| MOHAWK aggregates more | " in page
    assert "What the paper says, and what came out" in page
    again = CliRunner().invoke(app, ["reproduce", "--pages", "pages"])
    assert again.output.count("4 finished already, 0 to run") == 2
    assert again.output.count("4 runs of other studies") == 1
    # A study that answers for no table or figure asks questions of its own.
    own = (tmp_path / "pages" / "same-small.md").read_text(encoding="utf-8")
    assert "What we expected, and what came out" in own
    assert "1 expectation of ours, no paper's" in own
    assert "paper says" not in own
    wrong = CliRunner().invoke(app, ["reproduce", "few", "--scale", "full"])
    assert isinstance(wrong.exception, ConfigError)
    assert "few: no sweep at scale full: expected one of small" in str(wrong.exception)
