"""Campaigns that nobody ended: found among runs, and gone on with by their own command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forked_commands import roambench
from roambench.contract.errors import RunError
from roambench.runner.stopping import BY_THE_USER
from roambench.study.campaign.campaign_log import (
    CampaignEvent,
    CampaignLog,
    CampaignRow,
    End,
    read_campaign,
)
from roambench.study.campaign.interrupted import COMMAND_NAME, carry_on, interrupted_campaigns

_CLI = [sys.executable, "-m", "roambench.cli.main"]


def campaign(runs: Path, name: str, *rows: CampaignRow) -> Path:
    (runs / name).mkdir(parents=True)
    log = CampaignLog(runs / name, lambda row: None)
    for row in (CampaignRow(CampaignEvent.BEGAN), *rows):
        log.note(row)
    return runs / name


def ended(end: End, reason: str = "") -> CampaignRow:
    return CampaignRow(CampaignEvent.ENDED, reason, end=end)


def test_only_what_nobody_ended_is_gone_on_with(tmp_path: Path) -> None:
    campaign(tmp_path, "finished", ended(End.FINISHED))
    campaign(tmp_path, "failed", ended(End.FAILED, "too few boards"))
    campaign(tmp_path, "ctrl-c", ended(End.INTERRUPTED, BY_THE_USER))
    booted = campaign(tmp_path, "booted", ended(End.INTERRUPTED, "stopped by SIGTERM"))
    killed = campaign(tmp_path, "killed", CampaignRow(CampaignEvent.POINT_BEGAN))
    assert interrupted_campaigns(tmp_path) == [booted, killed]
    assert interrupted_campaigns(tmp_path / "nowhere") == []


@pytest.mark.parametrize("words", [None, [], ["fleet", "exec", "rm"]])
def test_a_command_that_is_none_of_a_campaign_is_not_run(tmp_path: Path, words: list[str] | None) -> None:
    path = campaign(tmp_path, "killed")
    if words is not None:
        (path / COMMAND_NAME).write_text(json.dumps({"words": words, "folder": str(tmp_path)}))
    with pytest.raises(RunError, match="does not tell by which command"):
        carry_on(path)


@pytest.mark.lengthy
def test_resume_goes_on_with_a_sweep_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'fleet = "rehearsal"\nmetrics = ["aggregated_per_step"]\n[experiment]\nsystems = ["mohawk"]\n'
        "trace = { parameters = { devices = 60, steps = 240 } }\nfleet = { agents = 60 }\n"
        "[grid]\ntrace.steps = [4, 240]\n"
    )
    words = [*_CLI, "sweep", "s.toml", "--jobs", "1"]
    out = tmp_path / "runs" / "s"
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        while not any(row.event is CampaignEvent.POINT_ENDED for row in rows_of(out)):
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    done = roambench("resume", "runs", cwd=tmp_path)
    done.check_returncode()
    said = done.stdout
    assert "goes on: runs/s" in said
    rows = rows_of(out)
    assert (rows[-1].event, rows[-1].end, rows[-1].open_points) == (CampaignEvent.ENDED, End.FINISHED, 0)
    assert sum(row.event is CampaignEvent.RESUMED for row in rows) == 1
    assert interrupted_campaigns(tmp_path / "runs") == []
    again = roambench("resume", "runs", cwd=tmp_path)
    again.check_returncode()
    assert "no run to go on with" in again.stdout


def rows_of(out: Path) -> list[CampaignRow]:
    return read_campaign(out)
