"""The log of a campaign: `campaign.jsonl` in the folder of a sweep or a comparison, a line per happening.

A reader of it (a summary, a notification, the campaign that goes on) calls `read_campaign(folder)`, which
gives `CampaignRow`s, oldest first; each has a time, a `CampaignEvent`, and those of its other fields that the
event tells (`CampaignEvent` says which). Who wants to hear of a row as it is written gives `CampaignLog` a
listener.

Every row is durable before the campaign goes on. A line that a kill or a power cut tore is no row, and
neither is one of a version that knew other events. The log is bounded: a file that has grown to `MOST_BYTES`
is put aside as `campaign.1.jsonl`, and the one that lay there goes; both are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from roambench.contract.json_values import json_or_none, without_nan
from roambench.contract.line_file import append_lines, whole_lines

LOG_NAME: Final = "campaign.jsonl"
#: What was written before the file was full.
OLDER_NAME: Final = "campaign.1.jsonl"
MOST_BYTES: Final = 16 * 2**20
#: Rows that wait for a disk that takes nothing; the oldest of more are lost.
_MOST_WAITING: Final = 1000
_LONGEST: Final = 600  # characters of a reason


class CampaignEvent(StrEnum):
    """An event, and the fields of its row (`reason` says why wherever there is a why)."""

    #: The campaign's first session, and every later one: `reason` is what it is called, `points` how many it
    #: has, `open_points` how many of them have not finished.
    BEGAN = "began"
    RESUMED = "resumed"
    #: It had to wait, for the bench or for the boards: `reason`, `wall_s` once it is over (0.0 as it begins).
    WAITED = "waited"
    #: `free_bytes` are less than `wanted_bytes`: it waits; and there is room again, after `wall_s`.
    DISK_LOW = "disk_low"
    DISK_ENOUGH = "disk_enough"
    #: The boards cooled for `wall_s`; `reason` where they did not get there.
    COOLED = "cooled"
    #: `point` (its folder's name), `label` (for people), `attempt`, `without` (boards left out).
    POINT_BEGAN = "point_began"
    #: The same, and `end`, `wall_s`, `reason` where it did not finish or is not fit.
    POINT_ENDED = "point_ended"
    #: `board` made a point fail or unfit, the `failures`-th time in a row; with `wall_s` it was healthy again
    #: after this long, and that is not counted.
    BOARD_FAILED = "board_failed"
    #: `board` was switched off and on at its switch; `done`: it is healthy again, else `reason`.
    POWER_CYCLED = "power_cycled"
    #: `spare` plays `board` from now on; not `done`: it could not, `reason`.
    REPLACED = "replaced"
    #: Points run without `board`, and with it again.
    LEFT_OUT = "left_out"
    CAME_BACK = "came_back"
    #: A session's end: `end` (failed: points did), `reason`, `open_points`. A killed
    #: session has none.
    ENDED = "ended"


class End(StrEnum):
    """The end of a point or of a session of the campaign."""

    FINISHED = "finished"
    FAILED = "failed"
    UNFIT = "unfit"  # it finished, and its record says that it is not to be trusted
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """One happening. `at_utc` is ISO 8601 with milliseconds, and set by the log; a field that the event does
    not tell is empty."""

    event: CampaignEvent
    reason: str = ""
    at_utc: str = ""
    point: str = ""
    label: str = ""
    attempt: int = 0
    end: End | None = None
    wall_s: float | None = None
    board: str = ""
    spare: str = ""
    done: bool = True
    failures: int = 0
    without: tuple[str, ...] = ()
    points: int = 0
    open_points: int = 0
    free_bytes: int = 0
    wanted_bytes: int = 0

    @property
    def at(self) -> datetime:
        """The time of the event; ValueError in an edited file."""
        return datetime.fromisoformat(self.at_utc)


#: Called with every row, after it was written.
Listener = Callable[[CampaignRow], None]


class CampaignLog:
    """Writes the log. A disk that takes nothing costs no campaign: rows wait in memory and are written with
    the next one; `lost` says why they wait."""

    def __init__(self, folder: Path, heard: Listener) -> None:
        self.path = folder / LOG_NAME
        self.lost = ""
        self._heard = heard
        self._waiting: list[str] = []

    def note(self, row: CampaignRow) -> CampaignRow:
        """Append it as of now; durable when it returns, unless `lost` says otherwise. Returns what was
        written."""
        reason = " ".join(row.reason.split())
        reason = reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
        at_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = replace(row, at_utc=at_utc, reason=reason)
        empty = asdict(CampaignRow(row.event))
        values = {
            name: value for name, value in asdict(row).items() if name == "event" or value != empty[name]
        }
        line = json.dumps(without_nan(values), ensure_ascii=False)
        self._waiting = [*self._waiting, line][-_MOST_WAITING:]
        try:
            if self.path.exists() and self.path.stat().st_size >= MOST_BYTES:
                self.path.replace(self.path.with_name(OLDER_NAME))
            append_lines(self.path, self._waiting, _is_row)
            self._waiting, self.lost = [], ""
        except OSError as error:
            self.lost = f"{self.path}: {error.strerror or error}"
        self._heard(row)
        return row


def read_campaign(folder: Path) -> list[CampaignRow]:
    """The rows of the campaign in `folder` (a sweep's, a comparison's), oldest first; none where there is no
    log. OSError where it cannot be read."""
    rows: list[CampaignRow] = []
    for name in (OLDER_NAME, LOG_NAME):
        try:
            lines = whole_lines(folder / name, _is_row)
        except (FileNotFoundError, UnicodeDecodeError):  # none, or none of ours
            continue
        rows += [row for line in lines if (row := json_or_none(CampaignRow, line)) is not None]
    return rows


def _is_row(line: str) -> bool:
    return json_or_none(CampaignRow, line) is not None
