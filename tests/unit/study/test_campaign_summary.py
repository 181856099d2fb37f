"""What a campaign's summary says, from logs as campaigns write them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.runs.lock import WriterLock
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, CampaignRow, End
from roambench.study.campaign.summary import CampaignSummary, summarised, summary_text

BEGINNING = datetime(2026, 12, 1, 20, 0, tzinfo=UTC)


def at(minutes: float, row: CampaignRow) -> CampaignRow:
    return replace(row, at_utc=(BEGINNING + timedelta(minutes=minutes)).isoformat(timespec="milliseconds"))


def point(minutes: float, name: str, end: End, attempt: int = 1, reason: str = "") -> list[CampaignRow]:
    began = CampaignRow(CampaignEvent.POINT_BEGAN, point=name, label=f"seed {name}", attempt=attempt)
    ended = replace(began, event=CampaignEvent.POINT_ENDED, end=end, reason=reason, wall_s=540.0)
    return [at(minutes, began), at(minutes + 9.0, ended)]


def night() -> list[CampaignRow]:
    """Four points in an hour: one in two tries, one that failed; pi2 is replaced, pi3 left out."""
    began = CampaignRow(CampaignEvent.BEGAN, "sweep grid.toml", points=6, open_points=6)
    return [
        at(0, began),
        *point(0, "a", End.FINISHED),
        *point(10, "b", End.UNFIT, reason="pi2: coverage 88 %"),
        at(20, CampaignRow(CampaignEvent.BOARD_FAILED, "coverage 88 %", board="pi2", failures=1)),
        at(20, CampaignRow(CampaignEvent.POWER_CYCLED, "no answer", board="pi2", done=False)),
        at(20, CampaignRow(CampaignEvent.REPLACED, "no answer", board="pi2", spare="pi4")),
        *point(20, "b", End.FINISHED, 2),
        at(30, CampaignRow(CampaignEvent.LEFT_OUT, "no meter", board="pi3")),
        *point(30, "c", End.FAILED, reason="the fleet is gone"),
        at(40, CampaignRow(CampaignEvent.WAITED, "the bench is ours", wall_s=600.0)),
        *point(50, "d", End.FINISHED),
    ]


def summed(rows: list[CampaignRow], *, is_running: bool = True, minutes: float = 60.0) -> CampaignSummary:
    now_s = (BEGINNING + timedelta(minutes=minutes)).timestamp()
    return summarised("grid", rows, now_s, is_running=is_running, measured_j=1234.5, free_bytes=43 * 2**30)


def test_it_counts_points_and_tells_when_the_rest_will_be_done() -> None:
    found = summed(night())
    assert (found.points, found.done, found.still_open, found.repeated) == (6, 3, 3, 1)
    assert (found.failed, found.unfit, found.state) == (("seed c",), (), "runs")
    assert found.ends_s == (BEGINNING + timedelta(minutes=120)).timestamp()  # 3 in an hour, 3 to come
    assert found.boards["pi2"].spare == "pi4"
    assert found.boards["pi3"].left_out


def test_a_person_reads_a_line_a_matter() -> None:
    lines = summary_text(summed(night())).splitlines()
    assert lines[0] == "grid: 3 of 6 points done, 3 open, 1 failed"
    assert lines[1].endswith(": runs")
    assert "failed    seed c" in lines
    assert (
        "board     pi2: played by pi4, spoilt a run, power-cycled without success, replaced; last: no answer"
        in lines
    )
    assert "board     pi3: LEFT OUT now, left out; last: no meter" in lines
    assert "disk      43.0 GiB free" in lines
    assert lines[-1] == (
        "lasted    60 min, in 1 session; 10 min of them it waited; 1,234 J measured in active phases"
    )


def test_what_it_does_now_and_whether_it_lives_are_told() -> None:
    under_way = [*night(), *point(60, "e", End.FINISHED, 2)[:1]]
    assert summed(under_way).running.startswith("seed e, try 2, since ")
    assert summed(under_way, is_running=False).state == "died; the same command goes on"
    assert summed(under_way, is_running=False).ends_s is None
    waits = [*night(), at(60, CampaignRow(CampaignEvent.WAITED, "ben has booked it", wall_s=0.0))]
    assert summed(waits).state == "waits: ben has booked it"
    full = [*night(), at(60, CampaignRow(CampaignEvent.DISK_LOW, "full", free_bytes=1, wanted_bytes=2**33))]
    assert "disk      FULL: 43.0 GiB free, 8.0 GiB wanted; it waits for room" in summary_text(summed(full))
    ended = [*night(), at(60, CampaignRow(CampaignEvent.ENDED, "1 failed", end=End.FAILED, open_points=3))]
    assert summed(ended, is_running=False).state == "ended, not complete: 1 failed"
    assert "lasted    60 min, in 1 session" in summary_text(summed(ended, is_running=False, minutes=900.0))


def test_the_time_between_sessions_is_no_pace_and_a_later_session_counts_what_was_done() -> None:
    resumed = CampaignRow(CampaignEvent.RESUMED, "sweep grid.toml", points=6, open_points=3)
    rows = [*night(), at(600, resumed), *point(600, "c", End.FINISHED, 2)]
    found = summed(rows, minutes=610.0)
    assert (found.done, found.still_open, found.failed, found.sessions) == (4, 2, (), 2)
    pace_min = (59.0 + 10.0) / 4
    assert found.ends_s == pytest.approx(
        (BEGINNING + timedelta(minutes=610.0 + 2 * pace_min)).timestamp(), abs=1.0
    )


def test_unfit_points_that_nobody_tries_again_are_not_done() -> None:
    began = at(0, CampaignRow(CampaignEvent.BEGAN, points=2, open_points=2))
    ended = at(30, CampaignRow(CampaignEvent.ENDED, end=End.FINISHED, open_points=0))
    rows = [began, *point(0, "a", End.FINISHED), *point(10, "b", End.UNFIT, 3, "pi1: silent"), ended]
    found = summed(rows, is_running=False)
    assert (found.done, found.still_open, found.unfit) == (1, 0, ("seed b",))
    again = at(40, CampaignRow(CampaignEvent.RESUMED, points=2, open_points=0))
    assert summed([*rows, again]).done == 1


def call(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_the_command_reads_the_folder_of_a_campaign_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("campaign", tmp_path) == 1
    assert f"{tmp_path}: no log of a campaign; expected the folder of a sweep" in capsys.readouterr().err
    log = CampaignLog(tmp_path, lambda row: None)
    log.note(CampaignRow(CampaignEvent.BEGAN, points=2, open_points=2))
    log.note(CampaignRow(CampaignEvent.POINT_BEGAN, point="a", label="45 °C", attempt=1))
    with (tmp_path / "campaign.jsonl").open("ab") as file:
        file.write('{"event": "waited", "reason": "°'.encode()[:-1])  # a cut within a letter
    assert call("campaign", tmp_path) == 0
    assert "died; the same command goes on" in capsys.readouterr().out
    lock = WriterLock(tmp_path / "lock")
    try:
        assert call("campaign", tmp_path, "--json") == 0
    finally:
        lock.release()
    document = json.loads(capsys.readouterr().out)
    assert (document["points"], document["state"], document["boards"]) == (2, "runs", {})
    assert document["running"].startswith("45 °C, since ")
