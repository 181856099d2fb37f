"""Tell a person what an unattended campaign needs: by a shell command or a webhook.

A message never hurts the campaign: it is sent by its own thread, within a time, and what did not arrive
is kept and sent again with the next one. `notify.log` in the campaign's folder tells what was sent, what was
not and why; it names no URL, no command and nothing that either said, for these have secrets in them.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError, RoambenchError
from roambench.contract.line_file import append_lines
from roambench.contract.printable import printable
from roambench.extras.power.http import post
from roambench.extras.power.programs import run_program
from roambench.provision.leases.holding import LEASE_VARIABLE
from roambench.provision.leases.local_time import iso
from roambench.runner.screen import warn
from roambench.study.campaign.campaign_log import (
    CampaignEvent,
    CampaignRow,
    End,
    Listener,
    read_campaign,
)
from roambench.study.campaign.summary import headline, summary_of, summary_text

LOG_NAME: Final = "notify.log"
#: How long a command may take; and the thread at the campaign's end to send what is left.
COMMAND_S: Final = 30.0
_END_S: Final = 45.0
#: Messages that wait for a way that is broken; of more the oldest are dropped, and counted.
_MOST_WAITING: Final = 100
_MOST_HEARD: Final = 1000
_MOST_LOG_BYTES: Final = 1024 * 1024
_LOOK_S: Final = 20.0
_SCHEMES: Final = ("http://", "https://")

#: Sends a message; RoambenchError where it did not arrive.
Send = Callable[["Message"], None]


@dataclass(frozen=True, slots=True)
class Message:
    """`event` is a word of `CampaignEvent`, or point_failed, point_unfit, died, summary. `subject` is one
    line, `text` begins with it. `values` are the event's own (board, spare, point)."""

    event: str
    subject: str
    text: str
    campaign: str
    folder: str
    at_s: float
    values: Mapping[str, str]

    def environment(self) -> dict[str, str]:
        """Return what a command gets besides the text. NUL bytes, which no environment takes, are left
        out."""
        found = {
            "EVENT": self.event,
            "SUBJECT": self.subject,
            "CAMPAIGN": self.campaign,
            "FOLDER": self.folder,
            "AT": iso(self.at_s),
            **{name.upper(): value for name, value in self.values.items()},
        }
        return {f"ROAMBENCH_{name}": value.replace("\0", "") for name, value in found.items()}

    def as_json(self) -> dict[str, Any]:
        """Return what a webhook gets: `text` is what chat servers show."""
        return {
            "text": self.text,
            "event": self.event,
            "subject": self.subject,
            "campaign": self.campaign,
            "folder": self.folder,
            "at": iso(self.at_s),
            **self.values,
        }


def sender_of(notify: str) -> Send:
    """By POST to an http or https URL, else by a shell command; ConfigError for what can be neither."""
    if not notify.strip():
        raise ConfigError(["--notify: expected a shell command or an http(s) URL, got nothing"])
    if not notify.startswith(_SCHEMES):
        return lambda message: _by_command(notify, message)
    try:
        is_whole = bool(urlsplit(notify).hostname) and notify.isprintable() and " " not in notify
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ConfigError(["--notify: expected a whole URL, as https://chat.example.org/hooks/abc"])
    return lambda message: asyncio.run(post(notify, json.dumps(message.as_json())))


def _by_command(command: str, message: Message) -> None:
    environment = {**message.environment(), LEASE_VARIABLE: ""}  # what it does on the bench waits its turn
    words = ["/bin/sh", "-c", command]
    ran = asyncio.run(
        run_program(words, "the command", COMMAND_S, stdin=message.text + "\n", environment=environment)
    )
    if ran.exit_code:
        raise RoambenchError(f"the command: exit status {ran.exit_code}")


def summary_hour(text: str) -> tuple[int, int]:
    """(7, 0) of "07:00"; ConfigError."""
    try:
        found = datetime.strptime(text, "%H:%M")  # a time of day: it has no zone
    except ValueError:
        raise ConfigError([f'--summary-at: {text!r}: expected a local time as "07:00"']) from None
    return found.hour, found.minute


def is_due(at: tuple[int, int], last_s: float, now_s: float) -> bool:
    """Return whether that time of day, in local time, came between these moments."""
    today = datetime.fromtimestamp(now_s).replace(hour=at[0], minute=at[1], second=0, microsecond=0, fold=0)
    days = (today, today - timedelta(days=1))
    return any(last_s < moment.timestamp() <= now_s for moment in days)


@contextmanager
def notifying(
    folder: Path, notify: str | None, summary_at: str | None, console: Console
) -> Iterator[Listener]:
    """Listen to the campaign that runs in `folder` while the body lasts; None without `notify`.
    ConfigError, before the body begins, for what is no way or no hour."""
    hour = None if summary_at is None else summary_hour(summary_at)
    if notify is None:
        if hour is not None:
            raise ConfigError(["--summary-at: expected --notify, which says to whom it goes"])
        yield lambda row: None
        return
    report = partial(warn, console)
    notifier = Notifier(folder, sender_of(notify), report, hour)
    try:
        yield notifier.hear
    finally:
        notifier.close()


class Notifier:
    """Hears the campaign in `folder` and sends what a person has to know; `close` sends the rest.

    `summary_at`: hour and minute of the daily summary, None for none. `send` is called by one thread.
    """

    def __init__(
        self,
        folder: Path,
        send: Send,
        report: Callable[[str], None],
        summary_at: tuple[int, int] | None = None,
        now_s: Callable[[], float] = time.time,
        look_s: float = _LOOK_S,
    ) -> None:
        self._folder, self._send, self._report, self._now_s = folder, send, report, now_s
        self._summary_at, self._look_s = summary_at, look_s
        self._heard: queue.Queue[Message | None] = queue.Queue(_MOST_HEARD)
        self._waiting: deque[Message] = deque()
        self._dropped = 0
        self._bad_ends: dict[str, CampaignRow] = {}
        self._under_way: set[str] = set()
        self._silent = False
        self._last_look_s = now_s()
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
        self._thread.start()

    def hear(self, row: CampaignRow) -> None:
        """A `campaign_log.Listener`: never raises and never waits."""
        self._hear_point(row)
        subject = _subject(row)
        if subject:
            values = {"board": row.board, "spare": row.spare, "point": row.label or row.point}
            self._tell(row.event.value, subject, {name: value for name, value in values.items() if value})
        elif row.event is CampaignEvent.RESUMED:
            died = _died_before(self._folder)
            self._tell("died" if died else "resumed", "had died; it goes on now" if died else "goes on", {})

    def close(self) -> None:
        """Send what is left, for so long as a broken way may take."""
        with suppress(queue.Full):
            self._heard.put(None, timeout=_END_S)
            self._thread.join(_END_S)

    def _hear_point(self, row: CampaignRow) -> None:
        """A point that ended badly is reported when something else comes after it; of several that run at a
        time, which may be tried again after the others, at the end."""
        if row.event is CampaignEvent.POINT_BEGAN:
            self._under_way.add(row.point)
            self._bad_ends.pop(row.point, None)
            if len(self._under_way) == 1:
                self._tell_bad_ends()
        elif row.event is CampaignEvent.POINT_ENDED:
            self._under_way.discard(row.point)
            if row.end in (End.FAILED, End.UNFIT):
                self._bad_ends[row.point] = row
        elif row.event is CampaignEvent.ENDED and row.end is not End.INTERRUPTED:
            self._tell_bad_ends()

    def _tell_bad_ends(self) -> None:
        for row in self._bad_ends.values():
            self._tell_bad_end(row)
        self._bad_ends = {}

    def _tell_bad_end(self, row: CampaignRow) -> None:
        event = "point_failed" if row.end is End.FAILED else "point_unfit"
        what = "failed" if row.end is End.FAILED else "is not fit"
        name = row.label or row.point
        tries = f" after {row.attempt} tries" if row.attempt > 1 else ""
        self._tell(event, f"{name} {what}{tries}: {printable(row.reason)}", {"point": name})

    def _tell(self, event: str, subject: str, values: Mapping[str, str]) -> None:
        name = self._folder.resolve().name
        line = f"{name}: {subject}"
        self._heard.put(Message(event, line, line, name, str(self._folder.resolve()), self._now_s(), values))

    def _work(self) -> None:
        while True:
            try:
                message = self._heard.get(timeout=self._look_s)
            except queue.Empty:
                pass
            else:
                if message is None:
                    if self._waiting:
                        self._deliver()
                    return
                self._waiting.append(_with_standing(message, self._folder))
                self._deliver()
            if self._summary_is_due():
                self._waiting.append(self._summary())
                self._deliver()

    def _summary_is_due(self) -> bool:
        before_s, now_s = self._last_look_s, self._now_s()
        self._last_look_s = now_s
        return self._summary_at is not None and is_due(self._summary_at, before_s, now_s)

    def _summary(self) -> Message:
        name = self._folder.resolve().name
        try:
            found = summary_of(self._folder)
        except (RoambenchError, ValueError, OSError) as error:
            subject = text = f"{name}: no summary could be made: {error}"
        else:
            subject, text = headline(found), summary_text(found)
        return Message("summary", subject, text, name, str(self._folder.resolve()), self._now_s(), {})

    def _deliver(self) -> None:
        """All that waits, in its order, until one does not arrive."""
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        while self._waiting:
            message = self._waiting[0]
            try:
                self._send(message)
            except Exception as error:  # any failure of a message: the campaign goes on
                reason = str(error) if isinstance(error, RoambenchError) else type(error).__name__
                waiting = len(self._waiting)
                line = f"not sent: {message.event}: {reason}; {waiting} wait for the next event"
                if not self._silent:
                    self._report(f"notify: {line}")
                self._silent = True
                self._note(line)
                return
            self._silent = False
            self._waiting.popleft()
            lost = f"; {self._dropped} older ones were dropped" if self._dropped else ""
            self._dropped = 0
            self._note(f"sent: {message.event}{lost}")

    def _note(self, line: str) -> None:
        path = self._folder / LOG_NAME
        try:
            if path.exists() and path.stat().st_size >= _MOST_LOG_BYTES:
                path.replace(path.with_suffix(".1.log"))
            append_lines(path, [f"{iso(self._now_s())} {line}"], lambda last: True)
        except OSError:  # a full disk is reported by the campaign
            pass


def _with_standing(message: Message, folder: Path) -> Message:
    """Return how the campaign stands goes with every message, all of it at the end."""
    try:
        found = summary_of(folder)
    except (RoambenchError, ValueError, OSError):
        return message
    whole = message.event in (CampaignEvent.ENDED.value, "died")
    more = summary_text(found) if whole else headline(found)
    return Message(
        message.event,
        message.subject,
        f"{message.text}\n\n{more}",
        message.campaign,
        message.folder,
        message.at_s,
        message.values,
    )


def _died_before(folder: Path) -> bool:
    """Return whether the session before the one that begins had no end."""
    try:
        rows = read_campaign(folder)
    except OSError:
        return False
    return len(rows) > 1 and rows[-2].event is not CampaignEvent.ENDED


def _subject(row: CampaignRow) -> str:
    """Return the row as a line, "" for what is not urgent."""
    why = f": {printable(row.reason)}" if row.reason else ""
    match row.event:
        case CampaignEvent.BEGAN:
            return f"begins, {count(row.points, 'point')}{why}"
        case CampaignEvent.POWER_CYCLED:
            how = "was switched off and on" if row.done else "was switched off and on without effect"
            return f"{row.board} {how}{why}"
        case CampaignEvent.REPLACED:
            if row.done:
                return f"{row.board} is played by {row.spare} from now on{why}"
            return f"{row.spare} could not take the place of {row.board}{why}"
        case CampaignEvent.LEFT_OUT:
            return f"{row.board} is left out{why}"
        case CampaignEvent.CAME_BACK:
            return f"{row.board} takes part again{why}"
        case CampaignEvent.WAITED | CampaignEvent.DISK_LOW if not row.wall_s:
            return f"waits{why}"
        case CampaignEvent.WAITED | CampaignEvent.DISK_ENOUGH:
            return f"goes on after {(row.wall_s or 0.0) / 60.0:.0f} min{why}"
        case CampaignEvent.ENDED:
            words = {End.FINISHED: "ended, complete", End.INTERRUPTED: "was stopped"}
            return words.get(row.end or End.FAILED, "ended, not complete") + why
    return ""
