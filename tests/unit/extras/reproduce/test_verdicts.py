"""The page of verdicts and the CSV files beside it: kept, renewed and checked by `roambench reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.reproduce.catalogue import read_catalogue
from roambench.extras.reproduce.figures_csv import CellParts, read_rows
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.verdicts import page_text

ROOT = Path(__file__).parents[4]
KEPT = ROOT / "docs" / "results"
SWEEP = """\
fleet = "rehearsal"
metrics = ["aggregated_per_step"]
[experiment]
[experiment.trace]
steps = 6
parameters = { devices = 20, steps = 12 }
[experiment.fleet]
agents = 4
[grid]
systems = ["mohawk", "hierfavg"]
seeds = 2
"""
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
    assert "hierfavg, stop\\_at\\_threshold true: 1782.1 (6893090.0 J); ratio 3.36 (2.56)." in page
    assert "54.8, 167.0 (hierfavg)" in page
    assert "94.7, 91.5 % (batch\\_size 16)" in page  # of one system on both sides
    kept = {(row[0], row[1], row[2]) for row in read_rows(KEPT / "claims.csv")[1:]}
    for study in catalogue.studies:
        if study.sweep(Scale.SMALL) is not None:
            assert (KEPT / f"{study.name}-small.csv").is_file()
            assert {(study.name, "small", claim.says) for claim in study.claims} <= kept


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
    assert "Table 1, aggregated per step, mohawk: " in page
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
    claim = "MOHAWK aggregates more,reproduced,2,,1,,hierfavg,,+1,0.5,,2"
    name = "Our figures beside the paper's,Table 1; systems mohawk; systems mohawk; aggregated per step"
    (tmp_path / "claims.csv").write_text(f"head\none,small,{claim}\none,medium,{claim}\n")
    cells = [f"one,{scale},{name},{of}" for scale, ours in (("small", 2), ("medium", 3)) for of in
             (f"ours,,{ours},,,", "paper,,18,,,")]  # fmt: skip
    (tmp_path / "tables.csv").write_text("\n".join(["head", *cells]) + "\n")
    page = page_text(tmp_path, read_catalogue(tmp_path / "reproduction.toml"))
    assert "Ours (the paper's). Table 1, aggregated per step, mohawk: 2 (18)." in page
    assert "Ours at `medium` (the paper's). Table 1, aggregated per step, mohawk: 3 (18)." in page
