"""The page of verdicts and the CSV files beside it: kept, renewed and checked by `roambench reproduce`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rehearsed_sweep import SWEEP
from roambench.cli.main import app
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.reproduce.catalogue import read_catalogue
from roambench.extras.reproduce.claims import ClaimVerdict
from roambench.extras.reproduce.figures_csv import CellParts, kept_rows, read_rows
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.verdicts import page_text

ROOT = Path(__file__).parents[4]
KEPT = ROOT / "docs" / "results"
ELSEWHERE = """\
at = ["small"]
[[study.claim]]
says = "MOHAWK aggregates more, too (Table 1)"
metric = "aggregated_per_step"
of = { systems = "mohawk" }
against = [{ systems = "hierfavg" }]
better = "more"
"""
CELLS = """\
fleet = "simulated"
metrics = ["final_accuracy"]
[experiment.trace]
generator = "city"
steps = 12
parameters = { devices = 60, aps = 20, steps = 12 }
[experiment.fleet]
agents = 0
aps = 20
[experiment.learning]
dataset = "digits"
model = "mlp"
images_per_device = 20
[experiment.rounds]
accuracy_threshold = 0.97
[experiment.simulated]
workers = 1
[grid]
systems = ["mohawk", "hierfavg"]
rounds.cloud_every_steps = [2, 5]
seeds = 1
"""
HEADS = (
    "study,scale,claim,outcome,ours bound,ours,ours unit,beside bound,beside,beside unit,beside whom,"
    "lead bound,lead,lead ±,lead unit,seeds",
    "study,scale,table,row,column,bound,value,±,± of meters,unit,note",
)
CLAIM = "MOHAWK aggregates more,reproduced,,2,,,1,,hierfavg,,+1,0.5,,2"
STUDY = """\
[[study]]
name = "%s"
title = "A study"
gap.small = "much"
small = { file = "sweep.toml", lasts = "1 min" }
[[study.claim]]
says = "MOHAWK aggregates more"
metric = "aggregated_per_step"
of = { systems = "mohawk" }
against = [{ systems = "hierfavg" }]
better = "more"
[[study.printed]]
item = "Table %d"
metric = "aggregated_per_step"
value = 18.0
where = { systems = "mohawk" }
[[item]]
paper = "P"
label = "Table %d"
shows = "x"
study = "%s"
"""


def test_the_kept_page_is_made_of_the_kept_claims_and_the_catalogue() -> None:
    """Where this fails: `roambench reproduce STUDY --verdicts docs/results`."""
    catalogue = read_catalogue(ROOT / "experiments" / "reproduction.toml")
    page = page_text(KEPT, catalogue)
    assert page == (KEPT / "README.md").read_text("utf-8")
    assert "| wasted, J | 530.9 (2,690 kJ) | 1782.1 (6,893 kJ) | 3.36 (2.56) |" in page
    assert "50.1, ≥ 166.4 (macfl)" in page
    assert "94.7, 91.5 % (batch\\_size 16)" in page  # of one system on both sides
    kept = {(row[0], row[1], row[2]) for row in read_rows(KEPT / "claims.csv")[1:]}
    for study in catalogue.studies:
        if study.sweep(Scale.SMALL) is not None:
            assert (KEPT / f"{study.name}-small.csv").is_file()
            mine = [claim for claim in study.claims if Scale.SMALL in claim.at]
            assert {(study.name, "small", claim.says) for claim in mine} <= kept


@pytest.mark.parametrize(
    ("cell", "figure"),
    [
        ("≥ +112.2 ± 18.8", CellParts("≥", "+112.2", "18.8")),
        ("2,690,005.0 J", CellParts(value="2690005.0", unit="J")),
        ("54.3 ± 9.8 (7 of 8)", CellParts(value="54.3", half="9.8", note="7 of 8")),
        ("378.4 ± 1.1 [± 4.2] J", CellParts(value="378.4", half="1.1", meters="4.2", unit="J")),
        ("not in 167", CellParts("not in", "167")),
        ("–", CellParts()),
        ("1 : ≥ 7.59 : ≥ 7.59", CellParts(note="1 : ≥ 7.59 : ≥ 7.59")),
    ],
)
def test_a_cell_is_a_figure_with_its_bound_interval_and_unit(cell: str, figure: CellParts) -> None:
    assert CellParts.parse(cell) == figure


def test_figures_are_kept_and_a_check_finds_the_one_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "sweep.toml").write_text(SWEEP)
    (tmp_path / "experiments" / "reproduction.toml").write_text(
        STUDY % ("one", 1, 1, "one") + STUDY % ("two", 2, 2, "two")
    )
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept"
    reproduce = ["reproduce", "--jobs", "2", "--verdicts", "kept"]
    made = CliRunner().invoke(app, reproduce)
    assert made.exit_code == 0, made.output + str(made.exception)
    assert (tmp_path / "build" / "results" / "one-small.md").is_file()
    claims = read_rows(kept / "claims.csv")
    assert [row[:3] for row in claims[1:]] == [
        [study, "small", "MOHAWK aggregates more"] for study in ("one", "two")
    ]
    page = (kept / "README.md").read_text("utf-8")
    assert "`roambench reproduce one`, 2 seeds" in page
    assert "| Table 1: aggregated per step | ours | the paper's |\n| --- | ---: | ---: |\n| mohawk | " in page
    head, *rows = read_rows(kept / "one-small.csv")
    assert head == ["systems", "seeds", "aggregated per step", "aggregated per step sd"]
    assert [row[0] for row in rows] == ["mohawk", "hierfavg"]

    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert CliRunner().invoke(app, [*reproduce[:1], "one", *reproduce[1:]]).exit_code == 0
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert CliRunner().invoke(app, [*reproduce, "--check"]).exit_code == 0
    (kept / "two-small.csv").write_text("systems\nmohawk\n")
    found = CliRunner().invoke(app, [*reproduce, "--check"])
    assert isinstance(found.exception, RunError)
    assert "two-small.csv: two at small: not what came out" in str(found.exception)
    assert "one-small.csv" not in str(found.exception)
    alone = CliRunner().invoke(app, ["reproduce", "--check"])
    assert isinstance(alone.exception, ConfigError)


def test_our_figures_beside_the_papers_are_those_of_each_scale(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
    name = "Our figures beside the paper's,Table 1; systems mohawk; systems mohawk; aggregated per step"
    (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{CLAIM}\none,medium,{CLAIM}\n")
    cells = [f"one,{scale},{name},{of}" for scale, ours in (("small", 2), ("medium", 3)) for of in
             (f"ours,,{ours},,,,", "paper,,18,,,,")]  # fmt: skip
    (tmp_path / "tables.csv").write_text("\n".join([HEADS[1], *cells]) + "\n")
    page = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml"))
    rows = "| aggregated per step | 2 (18) |\n| at `medium` | 3 (18) |\n"
    assert f"| Table 1: ours (the paper's) | mohawk |\n| --- | ---: |\n{rows}" in page


def test_measured_figures_beside_the_papers_have_what_their_meters_may_have_wrong(tmp_path: Path) -> None:
    """The second setting over the first; a bound, a figure that no run has and 0 give no ratio."""
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
    (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{CLAIM}\n")
    ours = {
        "wasted j": (",386.6,4.6,2.4,J,", ",1127.8,310.5,5.2,J,"),
        "consumed j": (",10.0,,,J,", "≥,20.0,,,J,"),
        "aggregated per step": (None, ",3.0,,,,"),
        "distance km": (",0.0,,,km,", ",3.0,,,km,"),
        "rounds to threshold": (None, ",7.0,,,,"),
    }
    papers: dict[str, tuple[float | None, float]] = {"rounds to threshold": (None, 9.0)}
    cells = []
    for figure, pair in ours.items():
        theirs = papers.get(figure, (2690005, 6893090))
        both = list(zip(("mohawk", "hierfavg"), pair, theirs, strict=True))
        for system, own, paper in both if figure == "wasted j" else reversed(both):  # in any order
            row = f"one,small,Our figures beside the paper's,Table 1; systems {system}; MNIST; {figure}"
            cells += [f"{row},ours,{own}"] if own else []
            cells += [f"{row},paper,,{paper},,,J,"] if paper else []
    (tmp_path / "tables.csv").write_text("\n".join([HEADS[1], *cells]) + "\n")
    table = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml")).split("\n\n")[-1]
    assert table.splitlines()[:-1] == [
        "| Table 1: ours [± of meters] (the paper's) | mohawk | hierfavg | ratio |",
        "| --- | ---: | ---: | ---: |",
        "| wasted, J | 386.6 [± 2.4] J (2,690 kJ) | 1127.8 [± 5.2] J (6,893 kJ) | 2.92 (2.56) |",
        "| consumed, J | 10.0 J (2,690 kJ) | ≥ 20.0 J (6,893 kJ) | – (2.56) |",
        "| aggregated per step | – (2,690 kJ) | 3.0 (6,893 kJ) | – (2.56) |",
        "| distance km | 0.0 km (2,690 kJ) | 3.0 km (6,893 kJ) | – (2.56) |",
        "| rounds to threshold | – | 7.0 (9.0 J) | – (–) |",
    ]


def test_places_of_a_ratio_are_those_that_both_figures_have(tmp_path: Path) -> None:
    """14.0 of 14.1 may be all of 0.986 to 1.0."""
    row = "one,small,Our figures beside the paper's,Table 1; systems"
    pairs = {("14.1", "14.0"): "1.0", ("7.0", "8.4"): "1.2", ("41.4", "60.8"): "1.47", ("9.0", "0.0"): "0.0"}
    for ours, ratio in pairs.items():
        (tmp_path / "sweep.toml").write_text(SWEEP)
        (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
        (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{CLAIM}\n")
        cells = [
            f"{row} {system}; MNIST; wasted share,{column},,{value},,,%,"
            for system, own in zip(("mohawk", "hierfavg"), ours, strict=True)
            for column, value in (("ours", own), ("paper", "10"))
        ]
        cells += [
            f"{row} mohawk; MNIST; consumed j,paper,,10,,,J,"
        ]  # so that there is a column for each setting
        (tmp_path / "tables.csv").write_text("\n".join([HEADS[1], *cells]) + "\n")
        page = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml"))
        assert f"| {ratio} (1.0) |" in page


def test_a_bound_stays_one_and_a_claim_that_the_catalogue_no_longer_has_is_not_counted(
    tmp_path: Path,
) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
    bound = "MOHAWK aggregates more,reproduced,≥,2,km,≥,1,km,hierfavg,≷,+1,,km,2"
    gone = CLAIM.replace("MOHAWK", "FedMes")
    (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{bound}\none,small,{gone}\n")
    page = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml"))
    assert "- At `small`, 1 claim of papers: 1 reproduced.\n" in page
    assert "| reproduced | ≥ 2, ≥ 1 km (hierfavg) | ≷ +1 km |\n" in page


def test_words_around_the_verdicts_stay_or_the_page_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
    (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{CLAIM}\n")
    catalogue = read_catalogue(tmp_path / "reproduction.toml")
    page = tmp_path / "README.md"
    begin, end = "<!-- verdicts: made by roambench reproduce --verdicts -->", "<!-- end of verdicts -->"
    for below in ("", "words\n", "words"):
        page.write_text(f"above\n{begin}\nold\n{end}\n{below}")
        made = page_text(tmp_path, catalogue)
        assert made.startswith(f"above\n{begin}\n\n- At `small`, 1 claim of papers: 1 reproduced.\n")
        assert made.endswith(f"| +1 ± 0.5 |\n{end}\n{below and 'words'}{below and chr(10)}")
    for spoilt in (
        f"{begin}\n{end} \nwords\n",
        f"{begin}\nwords\n",
        f"{end}\n{begin}\n",
        f"{begin}\n{begin}\n{end}\n",
    ):
        page.write_text(spoilt)
        with pytest.raises(RunError, match=r"README\.md: expected the lines <!-- verdicts"):
            page_text(tmp_path, catalogue)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("claims.csv", f"{HEADS[0]}\none,small,{CLAIM.replace('reproduced', 'yes')}\n",
         "row 2: outcome: expected one of .*reproduced.*, got yes"),
        ("claims.csv", f"{HEADS[0]}\none,small\n", "row 2: expected 16 cells, got 2"),
        ("ran.csv", "study,scale\none,small\n",
         r"row 1: expected study, scale, day \(UTC\), runs, of; got study, scale"),
        ("ran.csv", "study,scale,day (UTC),runs,of\none,small,2026-11-28,4,1.5\n",
         "row 2: of: expected how many runs, got 1.5"),
        ("ran.csv", "study,scale,day (UTC),runs,of\none,small,2026-11-28,,4\n",
         "row 2: runs: expected how many runs, got nothing"),
        ("ran.csv", "study,scale,day (UTC),runs,of\none,smal,2026-11-28,4,4\n",
         "row 2: scale: expected one of small, medium, full, got smal"),
        ("ran.csv", "study,scale,day (UTC),runs,of\n\n", "row 2: expected 5 cells, got 0"),
        ("tables.csv", "", "row 1: expected study, scale, .*; got nothing"),
    ],
)  # fmt: skip
def test_kept_files_that_are_none_are_refused_with_the_row(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match=f"{name}: {told}"):
        kept_rows(tmp_path, name)


def test_a_kept_file_that_is_not_in_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ran.csv").write_bytes(b"\xff\xfestudy")
    with pytest.raises(RunError, match=r"ran\.csv: expected a CSV file in UTF-8: "):
        kept_rows(tmp_path, "ran.csv")


def test_a_reason_stands_only_behind_an_outcome_that_it_explains(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    why = 'why.small = "Because of this"\nbetter = "more"'
    (tmp_path / "reproduction.toml").write_text(
        (STUDY % ("one", 1, 1, "one")).replace('better = "more"', why)
    )
    shown = []
    for outcome in ClaimVerdict:
        row = CLAIM.replace("reproduced", f'"{outcome}"')
        (tmp_path / "claims.csv").write_text(f"{HEADS[0]}\none,small,{row}\n")
        page = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml"))
        shown += [outcome] if "Because of this" in page else []
    assert shown == [ClaimVerdict.WRONG_SIGN, ClaimVerdict.FITTED]


def test_kept_figures_are_those_of_the_sweep_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "reproduction.toml").write_text(STUDY % ("one", 1, 1, "one"))
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "one", "--catalogue", "reproduction.toml", "--verdicts", "kept"]
    changed = ["--set", "fleet.agents=3", "--trace", "t.parquet", "--set", 'learning.data_path="x"']
    refused = CliRunner().invoke(app, [*words, *changed])
    assert isinstance(refused.exception, ConfigError)
    told = str(refused.exception)
    assert "--set fleet.agents: expected none with --verdicts" in told
    assert "--set learning.data_path" not in told
    assert "one: --trace: expected none with --verdicts at small" in told
    assert not (tmp_path / "kept").exists()


def test_a_page_of_a_sweep_that_has_not_ended_has_each_cell_that_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real runs: of four two have ended, one was killed before its result, one has not begun."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "sweep.toml").write_text(CELLS)
    (tmp_path / "experiments" / "reproduction.toml").write_text(
        (STUDY % ("one", 1, 1, "one"))
        .replace("small", "medium")
        .replace("[[study.printed]]", ELSEWHERE + "[[study.printed]]")
        .replace('title = "A study"', 'title = "A study"\nbeside = "mohawk"')
    )
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "one", "--scale", "medium", "--jobs", "2"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    points = tmp_path / "runs" / "reproduce" / "one-medium" / "points"
    of_k2 = {
        (path.name.partition("-")[0], json.loads(path.joinpath("point.json").read_text())["config"]["rounds"]
         ["cloud_every_steps"]): path for path in points.iterdir()
    }  # fmt: skip
    (of_k2["hierfavg", 5] / "result.json").unlink()
    shutil.rmtree(of_k2["mohawk", 5])

    found = CliRunner().invoke(app, [*words, "--finished", "--verdicts", "kept"])
    assert found.exit_code == 0, found.output
    assert not of_k2["mohawk", 5].exists()
    assert not (of_k2["hierfavg", 5] / "result.json").exists()
    assert read_rows(tmp_path / "kept" / "ran.csv")[1][3:] == ["2", "4"]
    page = (tmp_path / "kept" / "README.md").read_text("utf-8")
    assert "`roambench reproduce one --scale medium`, 1 seed, 2 of 4 runs" in page
    assert "| one seed: not tested |" in page
    assert "| MOHAWK aggregates more |" not in page  # that claim is of small alone
    head, _, *cells = page.split("\n\n")[-1].splitlines()[:5]
    assert head.startswith("| digits: data, k2 | system | rounds to 97 % (the paper's) |")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in cells]
    assert [row[:3] for row in rows] == [
        ["IID, 2", "mohawk", "not in 11"],
        ["IID, 2", "hierfavg", "not in 11"],
        ["IID, 5", "hierfavg", "not in 11 so far"],
    ]
    assert [row[3] == "–" for row in rows] == [False, False, True]
    assert all(0.0 < float(row[4]) < 100.0 for row in rows)
    listed = CliRunner().invoke(app, ["reproduce", "--list", "--verdicts", "kept"]).output
    assert ", 2 of 4 runs: 1 one seed: not tested; data: " in listed
