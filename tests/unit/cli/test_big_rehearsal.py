"""A rehearsal of many devices: its log in columns says what the same log says record by record."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.live.saved_page import page_messages
from roambench.rounds import loop
from roambench.runs import journal
from roambench.runs.folder import RunFolder

DAY = """\
name = "day"
systems = ["mohawk", "hierfavg"]
trace = { steps = 4, parameters = { devices = 1100, aps = 3, presence = "always" } }
fleet = { agents = 0, aps = 3 }
"""


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A folder with the day's runs as they are written, and one with each record in a row of its own."""
    folders = [tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("single")]
    with pytest.MonkeyPatch.context() as patch:
        for folder, least in zip(folders, (1_000, 10**9), strict=True):
            for writer in (journal, loop):
                patch.setattr(writer, "MANY", least)
            patch.chdir(folder)
            Path("day.toml").write_text(DAY)
            with pytest.raises(SystemExit) as ended:
                main(["run", "day.toml", "--fleet", "rehearsal"])
            assert ended.value.code in (0, None)
    return folders


def run_of(day, system):
    (found,) = {path.resolve().parent for path in day.glob(f"runs/**/{system}/run.json")}
    return found


def said(day, monkeypatch, capsys, *words):
    """The output of a command on both runs, without seconds."""
    monkeypatch.chdir(day)
    with pytest.raises(SystemExit) as ended:
        main([*words, *(str(run_of(day, system).relative_to(day)) for system in ("mohawk", "hierfavg"))])
    return ended.value.code, "".join(capsys.readouterr())


def test_the_logs_hold_the_same_records_in_a_tenth_of_the_bytes(days):
    logs = [list(RunFolder.open(run_of(day, "mohawk")).read_log()) for day in days]
    assert sorted(map(repr, untimed(logs[0]))) == sorted(map(repr, untimed(logs[1])))
    sizes = []
    for day in days:
        with closing(sqlite3.connect(run_of(day, "mohawk") / "events.sqlite")) as log:
            sizes.append(log.execute("SELECT sum(length(body)) FROM event").fetchone()[0])
    assert sizes[0] < 0.1 * sizes[1]
    assert sizes[0] < 100 * 4 * 1_100


def untimed(records):
    return [record for record in records if not hasattr(record, "wall_s")]


@pytest.mark.parametrize("words", [("report", "--full"), ("compare",), ("check",)])
def test_reports_comparisons_and_checks_of_both_say_the_same(days, monkeypatch, capsys, words):
    one, other = (said(day, monkeypatch, capsys, *words) for day in days)
    assert one == other
    assert "mohawk" in one[1]


def test_the_live_page_of_both_shows_the_same(days):
    pages = [dict(page_messages(run_of(day, "mohawk"), 0.0)) for day in days]
    for page in pages:
        page.pop("whole.json")  # it has the times of the run
        page.pop("curves.json")
        page.pop("metrics.json", None)
    assert json.dumps(pages[0]) == json.dumps(pages[1])
    assert len(pages[0]) == 4
