"""The page that a big run's end writes: it is what the records give, and a page is opened from it alone."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roambench.contract.errors import RunError
from roambench.live import saved_page
from roambench.live.folders import WatchedFolder
from roambench.live.follower import _Channel
from roambench.live.ghost import ghost_of
from roambench.live.messages import RunMessages
from roambench.live.metrics import families_of, open_metrics
from roambench.live.saved_page import PAGE, SavedPage, write_page
from roambench.live.view import RunView
from roambench.runs.info import RunInfo
from small_runs import folder_of, measured, simulated

MAKERS = {"measured": measured, "simulated": simulated}


@pytest.fixture(params=list(MAKERS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    MAKERS[request.param](tmp_path / "run")
    write_page(tmp_path / "run", least_bytes=0)
    return tmp_path / "run"


_OPENED: list[RunView | _Channel] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def of_records(run: Path, now_s: float) -> RunView:
    view = RunView(run, lambda: now_s)
    _OPENED.append(view)
    while view.look():
        pass
    return view


def channel_of(run: Path, say: Callable[[str], object] = str) -> _Channel:
    folder = WatchedFolder(run.parent)
    found = folder.run(run.name)
    assert found is not None
    channel = _Channel(found, None, say)
    _OPENED.append(channel)
    return channel


def first(channel: _Channel) -> dict[str, Any]:
    text, is_whole = channel.changes()
    assert is_whole
    whole, again = json.loads(text or ""), json.loads(channel.whole())
    assert whole.pop("now")["joules"] == again.pop("now")["joules"]
    assert whole == again
    return dict(whole)


def test_it_holds_what_the_records_give(run: Path) -> None:
    page = SavedPage.of(run, RunInfo.read(run / "run.json"))
    assert page is not None
    messages = RunMessages(of_records(run, page.whole()["now"]["t"]))
    for ours, theirs in (
        (page.whole(), messages.whole()),
        (page.curves(), messages.curves()),
        *((page.step(step), messages.step(step)) for step in (0, 1, 99)),
    ):
        assert ours == json.loads(json.dumps(theirs))


def test_a_page_is_opened_without_the_logs(run: Path) -> None:
    (run / "events.sqlite").unlink()
    (run / "records.sqlite").unlink()
    channel = channel_of(run)
    whole = first(channel)
    assert whole["name"] == "run"
    assert whole["head"]["state"] == "finished"
    assert whole["head"]["doubts"] == []
    assert channel.changes() == (None, False)
    assert json.loads(channel.step(0))["places"][0][1] == whole["places"][0][1]
    assert ghost_of(WatchedFolder(run.parent).run("run"))["rows"][0][0] == 0


def test_another_run_in_its_place_is_read_from_its_records(run: Path) -> None:
    channel = channel_of(run)
    first(channel)
    shutil.rmtree(run)
    folder_of(run, "simulated", []).close()
    assert first(channel)["steps"] == []


def test_a_damaged_page_is_none_and_the_records_are_read(run: Path) -> None:
    steps = first(channel_of(run))["steps"]
    for damage in (b"", b"PK", (run / PAGE).read_bytes()[:-30]):
        (run / PAGE).write_bytes(damage)
        assert first(channel_of(run))["steps"] == steps
    with zipfile.ZipFile(run / PAGE, "w") as archive:
        archive.writestr("whole.json", "[1]")
    with pytest.raises(RunError, match=r"whole\.json: expected a message"):
        SavedPage(run).whole()


def test_the_first_who_opens_a_big_run_writes_it_and_says_so(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = (run / PAGE).read_bytes()
    (run / PAGE).unlink()
    monkeypatch.setattr(saved_page, "LEAST_BYTES", 1000)
    whole = first(channel_of(run, print))
    assert f"{run}: its 0 MB of records are read once, and kept in page.zip" in capsys.readouterr().out
    assert (run / PAGE).is_file()
    assert first(channel_of(run, print)) == whole
    assert capsys.readouterr().out == ""
    with zipfile.ZipFile(run / PAGE) as later, zipfile.ZipFile(io.BytesIO(written)) as at_its_end:
        assert later.namelist() == at_its_end.namelist()
        assert later.read("curves.json") == at_its_end.read("curves.json")


def test_figures_of_a_finished_run_are_read_without_the_logs(run: Path) -> None:
    channel = channel_of(run)
    read = open_metrics(families_of(of_records(run, 1e12)), "run")
    (run / "events.sqlite").unlink()
    (run / "records.sqlite").unlink()
    assert channel.metrics() == read
    assert 'roambench_run_info{run="run",' in read


def test_the_page_of_an_earlier_version_has_no_figures_and_the_records_are_read(run: Path) -> None:
    expected = channel_of(run).metrics()
    with zipfile.ZipFile(run / PAGE) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != "metrics.json"}
    with zipfile.ZipFile(run / PAGE, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)
    assert channel_of(run).metrics() == expected


def test_a_small_run_has_none(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    write_page(tmp_path / "run")
    assert not (tmp_path / "run" / PAGE).exists()
