"""Who is told of what, by a real command and a real HTTP server, which cannot hurt a campaign."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from roambench.contract.errors import ConfigError
from roambench.extras.notify.notify import (
    LOG_NAME,
    Message,
    Notifier,
    is_due,
    notifying,
    sender_of,
    summary_hour,
)
from roambench.provision.leases.holding import LEASE_VARIABLE
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, CampaignRow, End

pytestmark = pytest.mark.lengthy

BEGAN = CampaignRow(CampaignEvent.BEGAN, "sweep grid.toml", points=3, open_points=3)


def began(point: str, attempt: int = 1) -> CampaignRow:
    return CampaignRow(CampaignEvent.POINT_BEGAN, point=point, label=f"seed {point}", attempt=attempt)


def ended(point: str, end: End, reason: str = "", attempt: int = 1) -> CampaignRow:
    return CampaignRow(
        CampaignEvent.POINT_ENDED, reason, point=point, label=f"seed {point}", end=end, attempt=attempt
    )


@dataclass
class Hook:
    """A webhook as a chat server has it; `status` is what it answers, None: nothing at all."""

    status: int | None = 200
    got: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    let_go: threading.Event = field(default_factory=threading.Event)


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.status is None:
                hook.let_go.wait(60)
                return
            assert self.headers["Content-Type"] == "application/json"
            if hook.status == 200:
                hook.got.append(json.loads(body))
            self.send_response(hook.status)
            self.end_headers()
            self.wfile.write(b"ok " * 100_000)  # more than anybody wants to read

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_port}/hooks/s3cr3t?token=h1dden"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hook
        finally:
            hook.let_go.set()
            server.shutdown()
            thread.join()


def until(true: Callable[[], bool]) -> None:
    for _ in range(4000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("did not come true")


def test_a_webhook_hears_of_all_that_a_person_has_to_know_and_of_no_more(tmp_path: Path) -> None:
    with webhook() as hook, notifying(tmp_path, hook.url, None, Console()) as heard:
        log = CampaignLog(tmp_path, heard)
        for row in (
            BEGAN,
            began("a"),
            ended("a", End.FINISHED),
            began("b"),
            ended("b", End.UNFIT, "pi2: coverage 88.0 %, less than 95 %"),
            CampaignRow(CampaignEvent.BOARD_FAILED, "coverage", board="pi2", failures=1),
            began("b", 2),
            ended("b", End.UNFIT, "pi2: coverage 70.0 %", 2),
            CampaignRow(CampaignEvent.POWER_CYCLED, board="pi2"),
            CampaignRow(CampaignEvent.REPLACED, "was silent", board="pi2", spare="pi4"),
            began("c"),
            ended("c", End.FAILED, "the fleet is gone"),
            began("c", 2),
            CampaignRow(CampaignEvent.WAITED, "bench36: waiting for ben", wall_s=0.0),
            CampaignRow(CampaignEvent.WAITED, "the bench is ours", wall_s=600.0),
            ended("c", End.FINISHED, attempt=2),
            CampaignRow(CampaignEvent.ENDED, end=End.FAILED, reason="1 of 3 is unfit"),
        ):
            log.note(row)
        until(lambda: len(hook.got) == 7)
    assert [message["subject"].partition(": ")[2] for message in hook.got] == [
        "begins, 3 points: sweep grid.toml",
        "pi2 was switched off and on",
        "pi2 is played by pi4 from now on: was silent",
        "seed b is not fit after 2 tries: pi2: coverage 70.0 %",
        "waits: bench36: waiting for ben",
        "goes on after 10 min: the bench is ours",
        "ended, not complete: 1 of 3 is unfit",
    ]
    replaced = hook.got[2]
    assert (replaced["event"], replaced["board"], replaced["spare"]) == ("replaced", "pi2", "pi4")
    assert "points done" in replaced["text"]
    assert "board     pi2: played by pi4" in hook.got[-1]["text"]


def test_a_command_gets_the_text_and_variables_and_not_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, "7 /some/lease.sqlite")
    out = tmp_path / "out"
    command = f"cat >> {out}; env | grep ROAMBENCH_ | sort >> {out}"
    with notifying(tmp_path, command, None, Console()) as heard:
        log = CampaignLog(tmp_path, heard)
        log.note(BEGAN)
        log.note(CampaignRow(CampaignEvent.LEFT_OUT, "no \x1b[2J sign of life", board="pi2"))
    said = out.read_text()
    assert f"{tmp_path.name}: pi2 is left out: no ?[2J sign of life\n" in said
    assert "ROAMBENCH_EVENT=left_out\n" in said
    assert "ROAMBENCH_BOARD=pi2\n" in said
    assert f"ROAMBENCH_FOLDER={tmp_path}\n" in said
    assert f"{LEASE_VARIABLE}=\n" in said


def test_what_could_not_be_sent_comes_with_the_next_event_and_no_log_has_the_secret(tmp_path: Path) -> None:
    told: list[str] = []
    with webhook() as hook:
        hook.status = 503
        notifier = Notifier(tmp_path, sender_of(hook.url), told.append, look_s=0.05)
        log = CampaignLog(tmp_path, notifier.hear)
        log.note(BEGAN)
        log.note(CampaignRow(CampaignEvent.LEFT_OUT, board="pi1"))
        until(lambda: (tmp_path / LOG_NAME).exists() and "2 wait" in (tmp_path / LOG_NAME).read_text())
        hook.status = 200
        log.note(CampaignRow(CampaignEvent.CAME_BACK, board="pi1"))
        until(lambda: len(hook.got) == 3)
        notifier.close()
    assert [message["event"] for message in hook.got] == ["began", "left_out", "came_back"]
    (line,) = told  # once, not at every try
    assert line == "notify: not sent: began: 127.0.0.1: answers 503; 1 wait for the next event"
    for path in tmp_path.rglob("*"):
        assert b"s3cr3t" not in path.read_bytes()
        assert b"h1dden" not in path.read_bytes()


def test_nobody_there_and_nobody_who_answers_hurt_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roambench.extras.notify import notify
    from roambench.extras.power import http

    monkeypatch.setattr(http, "ANSWER_S", 0.5)
    monkeypatch.setattr(notify, "COMMAND_S", 0.5)
    with webhook() as hook:
        hook.status = None
        for way in (hook.url, "http://127.0.0.1:9/x", "sleep 600 & sleep 600", "exit 7", "yes", "/no/such"):
            folder = tmp_path / str(abs(hash(way)))
            folder.mkdir()
            with notifying(folder, way, None, Console()) as heard:
                log = CampaignLog(folder, heard)
                log.note(BEGAN)
                log.note(CampaignRow(CampaignEvent.ENDED, end=End.FINISHED))
            assert log.lost == ""
            assert "not sent: began: " in (folder / LOG_NAME).read_text()


def test_a_way_that_is_broken_for_long_keeps_the_newest_messages(tmp_path: Path) -> None:
    sent: list[str] = []
    broken = threading.Event()
    broken.set()

    def send(message: Message) -> None:
        if broken.is_set():
            raise OSError("a secret of the way")
        sent.append(message.values["board"])

    notifier = Notifier(tmp_path, send, print, look_s=0.01)
    for number in range(130):
        notifier.hear(CampaignRow(CampaignEvent.CAME_BACK, board=str(number)))
    log = tmp_path / LOG_NAME
    until(lambda: log.exists() and len(log.read_text().splitlines()) == 130)
    broken.clear()
    notifier.hear(CampaignRow(CampaignEvent.CAME_BACK, board="last"))
    notifier.close()
    assert len(sent) == 100
    assert sent[-2:] == ["129", "last"]
    assert "older ones were dropped" in log.read_text()
    assert "a secret" not in log.read_text()


def test_several_points_at_a_time_are_told_of_when_they_are_not_tried_again(tmp_path: Path) -> None:
    sent: list[str] = []
    notifier = Notifier(tmp_path, lambda message: sent.append(message.event), print)
    for row in (
        began("a"),
        began("b"),
        ended("a", End.FAILED, "died"),
        began("c"),
        ended("b", End.FAILED, "died"),
        ended("c", End.FINISHED),
        began("a", 2),
        began("b", 2),
        ended("a", End.FINISHED, attempt=2),
        ended("b", End.FAILED, "died again", attempt=2),
        CampaignRow(CampaignEvent.ENDED, end=End.FAILED),
    ):
        notifier.hear(row)
    notifier.close()
    assert "".join(sent).count("point_failed") in (1, 2)
    assert sent[-1] == "ended"


def test_a_campaign_that_was_killed_is_told_of_by_the_next_start(tmp_path: Path) -> None:
    sent: list[str] = []
    for _ in range(2):
        notifier = Notifier(tmp_path, lambda message: sent.append(message.event), print)
        log = CampaignLog(tmp_path, notifier.hear)
        log.note(BEGAN if not sent else CampaignRow(CampaignEvent.RESUMED, points=3, open_points=3))
        log.note(began("a"))
        notifier.close()  # and no end on its log
    notifier = Notifier(tmp_path, lambda message: sent.append(message.event), print)
    log = CampaignLog(tmp_path, lambda row: None)
    log.note(CampaignRow(CampaignEvent.ENDED, end=End.INTERRUPTED))
    log = CampaignLog(tmp_path, notifier.hear)
    log.note(CampaignRow(CampaignEvent.RESUMED, points=3, open_points=3))
    notifier.close()
    assert sent == ["began", "died", "resumed"]


def test_the_summary_comes_once_each_morning_also_after_a_suspended_night(tmp_path: Path) -> None:
    sent: list[Message] = []
    clock = {"now_s": time.mktime((2026, 12, 1, 6, 59, 0, 0, 0, -1))}
    CampaignLog(tmp_path, lambda row: None).note(BEGAN)
    notifier = Notifier(tmp_path, sent.append, print, (7, 0), now_s=lambda: clock["now_s"], look_s=0.01)
    time.sleep(0.05)
    assert sent == []
    clock["now_s"] += 120.0
    until(lambda: len(sent) == 1)
    clock["now_s"] += 50 * 3600.0
    until(lambda: len(sent) == 2)
    time.sleep(0.05)
    notifier.close()
    assert [message.event for message in sent] == ["summary", "summary"]
    assert sent[0].text.startswith(f"{tmp_path.name}: 0 of 3 points done, 3 open\n")


def test_a_summary_is_due_once_a_day_over_the_changes_of_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for at in ((7, 0), (2, 30)):
            begins_s = time.mktime((2026, 10, 20, 12, 0, 0, 0, 0, -1))
            moments = [begins_s + 60.0 * minute for minute in range(10 * 24 * 60)]
            due = [now for last, now in itertools.pairwise(moments) if is_due(at, last, now)]
            assert [time.localtime(now)[3:5] for now in due] == [at] * 10
            assert len({time.localtime(now)[:3] for now in due}) == 10
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize("text", ["", "7", "24:00", "07:00 CET", "seven"])
def test_what_is_no_hour_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r'--summary-at: .*: expected a local time as "07:00"'):
        summary_hour(text)


@pytest.mark.parametrize("way", ["", "  ", "https://", "http://[", "https://a b/c"])
def test_what_is_no_way_is_told_before_anything_runs(tmp_path: Path, way: str) -> None:
    with pytest.raises(ConfigError, match="--notify: expected "), notifying(tmp_path, way, None, Console()):
        pytest.fail("it ran")
    assert list(tmp_path.iterdir()) == []
