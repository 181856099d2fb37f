"""The log of a campaign: durable rows, whatever tears the file, and never more of it than its bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roambench.study.campaign import campaign_log
from roambench.study.campaign.campaign_log import (
    LOG_NAME,
    OLDER_NAME,
    CampaignEvent,
    CampaignLog,
    CampaignRow,
    End,
    read_campaign,
)


def test_rows_come_back_as_they_were_noted(tmp_path: Path) -> None:
    heard: list[CampaignRow] = []
    log = CampaignLog(tmp_path, heard.append)
    log.note(CampaignRow(CampaignEvent.BEGAN, "a sweep", points=4, open_points=4))
    log.note(
        CampaignRow(
            CampaignEvent.POINT_ENDED,
            "coverage 97 %:\n pi2",
            point="mohawk-seed1",
            attempt=2,
            end=End.UNFIT,
            wall_s=12.5,
            without=("pi3",),
        )
    )
    found = read_campaign(tmp_path)
    assert found == heard
    assert found[1].reason == "coverage 97 %: pi2"
    assert found[1].without == ("pi3",)
    assert found[0].at <= found[1].at <= datetime.now(UTC)


def test_no_log_is_no_row(tmp_path: Path) -> None:
    assert read_campaign(tmp_path) == []


def test_a_file_cut_at_any_byte_costs_at_most_the_row_that_it_hits(tmp_path: Path) -> None:
    log = CampaignLog(tmp_path, lambda row: None)
    for board in ("pi1", "pi2"):
        log.note(CampaignRow(CampaignEvent.BOARD_FAILED, "silent: größer", board=board, failures=1))
    whole = (tmp_path / LOG_NAME).read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        (tmp_path / LOG_NAME).write_bytes(whole[:end])
        CampaignLog(tmp_path, lambda row: None).note(CampaignRow(CampaignEvent.LEFT_OUT, board="pi1"))
        events = [row.event for row in read_campaign(tmp_path)]
        assert events[0] is CampaignEvent.BOARD_FAILED
        assert events[-1] is CampaignEvent.LEFT_OUT
        assert len(events) in (2, 3)


def test_what_is_no_row_is_passed_over(tmp_path: Path) -> None:
    log = CampaignLog(tmp_path, lambda row: None)
    log.note(CampaignRow(CampaignEvent.BEGAN))
    with (tmp_path / LOG_NAME).open("a") as file:
        file.write('{"event": "of another version", "at_utc": ""}\nnothing\n')
    log.note(CampaignRow(CampaignEvent.ENDED, end=End.FINISHED))
    assert [row.event for row in read_campaign(tmp_path)] == [CampaignEvent.BEGAN, CampaignEvent.ENDED]


def test_it_never_grows_beyond_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_log, "MOST_BYTES", 1000)
    log = CampaignLog(tmp_path, lambda row: None)
    for failures in range(1, 101):
        log.note(CampaignRow(CampaignEvent.BOARD_FAILED, "x" * 5000, board="pi1", failures=failures))
    assert {path.name for path in tmp_path.iterdir()} == {LOG_NAME, OLDER_NAME}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * (1000 + 1000)
    kept = [row.failures for row in read_campaign(tmp_path)]
    assert kept == list(range(101 - len(kept), 101))


def test_rows_that_the_disk_refuses_are_written_when_it_takes_them(tmp_path: Path) -> None:
    folder = tmp_path / "not-yet-there"
    log = CampaignLog(folder, lambda row: None)
    log.note(CampaignRow(CampaignEvent.BEGAN))
    assert "No such file" in log.lost
    folder.mkdir()
    log.note(CampaignRow(CampaignEvent.ENDED, end=End.FINISHED))
    assert not log.lost
    assert [row.event for row in read_campaign(folder)] == [CampaignEvent.BEGAN, CampaignEvent.ENDED]


_WRITER = """
import sys
from pathlib import Path
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, CampaignRow
log = CampaignLog(Path(sys.argv[1]), lambda row: None)
for failures in range(1, 1000000):
    log.note(CampaignRow(CampaignEvent.BOARD_FAILED, board="pi1", failures=failures))
    print(failures, flush=True)
"""


@pytest.mark.lengthy
def test_every_row_that_was_noted_survives_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(5)]
        os.kill(process.pid, signal.SIGKILL)
        said += [int(line) for line in process.stdout.read().split("\n") if line.strip()]
    CampaignLog(tmp_path, lambda row: None).note(CampaignRow(CampaignEvent.RESUMED))
    rows = read_campaign(tmp_path)
    assert rows[-1].event is CampaignEvent.RESUMED
    kept = [row.failures for row in rows[:-1]]
    assert kept == list(range(1, len(kept) + 1))
    assert len(kept) >= said[-1]
