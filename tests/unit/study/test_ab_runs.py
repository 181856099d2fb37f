"""A whole comparison from the command line: turns, table, page, and going on where it was left."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.study.ab.ab_plan import ArmName
from roambench.study.ab.ab_runner import _apart
from roambench.study.sweep.sweep_folder import PointEnd

EXPERIMENT = """
name = "tryout"
seed = 7
systems = ["mohawk"]
trace = { parameters = { devices = 40, steps = 48 }, steps = 6 }
fleet = { agents = 8 }
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_comparison_runs_in_turns_ends_in_a_table_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(EXPERIMENT)
    command = ["ab", "t.toml", "t.toml", "--set-b", 'systems=["hierfavg"]', "--fleet", "rehearsal"]
    command += ["--repeats", "2", "-o", "out"]
    assert called(command) == 0
    shown = capsys.readouterr().out
    assert ended_in(shown) == ["1/4 A1", "2/4 B1", "3/4 B2", "4/4 A2"]
    document = json.loads(Path("out/ab.json").read_text())
    assert document["schema"] == "roambench.ab/2"
    assert (document["whole_pairs"], document["order"]) == (2, ["A1", "B1", "B2", "A2"])
    row = document["figures"]["wasted_share"]
    shares = {(run["arm"], run["pair"]): run["figures"]["wasted_share"] for run in document["runs"]}
    factor = (shares["B", 1] / shares["A", 1] * shares["B", 2] / shares["A", 2]) ** 0.5
    assert row["factor"] == pytest.approx(factor)
    assert row["factor_interval"][0] < factor < row["factor_interval"][1]
    page = Path("out/ab.html").read_text()
    more = "not resolved" if row["factor_interval"][0] < 1 < row["factor_interval"][1] else f"{factor:.2f} ×"
    assert re.search(f"<h1>[^<]*{more}[^<]*2 pairs of runs</h1>", page)
    assert "mohawk against hierfavg: 2 of 2 pairs of runs on the rehearsal fleet, in the order ABBA." in page
    assert "http-equiv" in page

    lost = next(run["folder"] for run in document["runs"] if (run["arm"], run["pair"]) == ("B", 2))
    (tmp_path / "out" / lost / "result.json").unlink()
    assert called([*command, "--table"]) == 0
    assert "1 of 2 pairs are whole; the others do not count" in capsys.readouterr().out
    assert called(command) == 0
    shown = capsys.readouterr().out
    assert "4 runs, ABBA; 3 finished already" in shown
    assert ended_in(shown) == ["4/4 B2"]
    again = json.loads(Path("out/ab.json").read_text())
    assert again["figures"] == document["figures"]  # of the new run, not of the one that it replaced

    result = tmp_path / "out" / lost / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "unfit": ["pi2: coverage 90.0 %"]}))
    assert called([*command, "--table"]) == 0
    shown = capsys.readouterr().out
    assert "! B2: not fit: pi2: coverage 90.0 %: its pair does not count" in shown
    assert "1 of 2 pairs are whole; the others do not count" in shown
    assert len(json.loads(Path("out/ab.json").read_text())["runs"]) == 4


def test_pairs_whose_runs_were_no_neighbours_are_told() -> None:
    def began(at: str) -> PointEnd:
        return PointEnd("", {}, began=at)

    ended: dict[tuple[ArmName, int], PointEnd] = {
        ("B", 1): began("10"),
        ("B", 2): began("11"),
        ("A", 2): began("12"),
        ("A", 1): began("13"),
    }
    (note,) = _apart(ended)
    assert "came between A and B of pair 1 (one was run again)" in note
    assert _apart({**ended, ("A", 1): began("09")}) == []
    assert _apart({turn: run for turn, run in ended.items() if turn != ("A", 1)}) == []
    assert _apart({**ended, ("A", 1): began("")}) == []  # not known: kept before that was noted


def test_mistakes_are_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(EXPERIMENT)
    assert called(["ab", "t.toml", "gone.toml", "--set-a", "seed=two"]) == 2
    said = capsys.readouterr().err
    assert "gone.toml" in said
    assert called(["ab", "t.toml", "t.toml", "--set-a", "seed=8", "--fleet", "nonsense"]) == 2
    assert "--fleet: expected one of local, simulated, rehearsal, bench:FILE, got 'nonsense'" in (
        capsys.readouterr().err
    )
    assert called(["ab", "t.toml", "t.toml", "--set-a", "rounds.lookahead=true", "--fleet", "local"]) == 2
    assert "rounds.lookahead: an oracle that no bench has" in capsys.readouterr().err
    assert "seed" in said
    assert not Path("runs").exists()


def ended_in(shown: str) -> list[str]:
    return [line.partition("  ")[0] for line in shown.splitlines() if line.endswith("  finished")]


def called(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code
