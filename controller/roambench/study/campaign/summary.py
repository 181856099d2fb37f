"""The state of a campaign, from its folder: what is done, which boards made trouble, when it will end. It may
run meanwhile, in another process, or have died."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.contract.printable import printable
from roambench.provision.leases.local_time import shown
from roambench.runs.lock import is_held
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow, End, read_campaign

_GIB: Final = 2**30
_BEGINNINGS: Final = (CampaignEvent.BEGAN, CampaignEvent.RESUMED)
#: Troubles of a board, as they are counted.
_TROUBLES: Final = {
    CampaignEvent.BOARD_FAILED: "spoilt a run",
    CampaignEvent.POWER_CYCLED: "power-cycled",
    CampaignEvent.REPLACED: "replaced",
    CampaignEvent.LEFT_OUT: "left out",
    CampaignEvent.CAME_BACK: "came back",
}
_MOST_LETTERS: Final = 160


@dataclass(slots=True)
class BoardTroubles:
    """The troubles of a board: how often each, whether it takes no part now, and the latest reason."""

    counted: dict[str, int] = field(default_factory=dict)
    spare: str = ""
    left_out: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """`state` in words. Of the `points`, `done` finished and are fit, `unfit` finished and are not, `failed`
    did not finish when they were tried last, `still_open` are to come (those that failed, or are unfit and
    may be tried again, among them). `repeated` were tried more than once. `measured_j` of those that
    finished, None where nothing is measured. `lasted_s`: from its beginning until now, or to its end.
    `ends_s`: None where it is not known yet."""

    name: str
    state: str
    at_s: float
    points: int
    done: int
    unfit: tuple[str, ...]
    failed: tuple[str, ...]
    still_open: int
    repeated: int
    sessions: int
    running: str
    boards: dict[str, BoardTroubles]
    measured_j: float | None
    began_s: float
    lasted_s: float
    waited_s: float
    ends_s: float | None
    free_bytes: int
    wanted_bytes: int

    def as_json(self) -> dict[str, Any]:
        """For programs: lists and numbers, times in seconds since the epoch."""
        boards = {
            name: {**board.counted, "left_out_now": board.left_out, "spare": board.spare, "why": board.reason}
            for name, board in self.boards.items()
        }
        names = [name for name in self.__slots__ if name != "boards"]
        return {**{name: getattr(self, name) for name in names}, "boards": boards}


def summary_of(folder: Path, now_s: float | None = None) -> CampaignSummary:
    """RunError where there is no campaign's log."""
    now_s = time.time() if now_s is None else now_s
    try:
        rows = read_campaign(folder)
    except OSError as error:
        raise RunError(f"{folder}: {error.strerror or error}") from None
    if not rows:
        raise RunError(
            f"{folder}: no log of a campaign; expected the folder of a sweep or a comparison (--output)"
        )
    return summarised(
        folder.resolve().name,
        rows,
        now_s,
        is_running=is_held(folder / "lock"),
        measured_j=_measured_j(folder),
        free_bytes=shutil.disk_usage(folder).free,
    )


def summarised(
    name: str,
    rows: Sequence[CampaignRow],
    now_s: float,
    *,
    is_running: bool,
    measured_j: float | None,
    free_bytes: int,
) -> CampaignSummary:
    """From the rows of a log alone, and what only the disk knows."""
    begins = [number for number, row in enumerate(rows) if row.event in _BEGINNINGS]
    session = rows[begins[-1] :] if begins else rows
    total, were_open = session[0].points, session[0].open_points
    ends: dict[str, list[CampaignRow]] = {}
    for row in rows:
        if row.event is CampaignEvent.POINT_ENDED:
            ends.setdefault(row.point, []).append(row)
    last = {point: ended[-1] for point, ended in ends.items()}
    latest = {row.point: row for row in session if row.event is CampaignEvent.POINT_ENDED}
    finished = sum(row.end is End.FINISHED for row in latest.values())
    still_open = max(0, were_open - finished)
    ended = session[-1] if session[-1].event is CampaignEvent.ENDED else None
    if ended is not None:
        still_open = ended.open_points
    troubled = {
        end: tuple(row.label or row.point for row in last.values() if row.end is end)
        for end in (End.UNFIT, End.FAILED)
    }
    # What ended unfit in this session may be tried again; in an earlier one, and not again since, it was not.
    closed = [row for row in last.values() if row.end is End.UNFIT and (ended or row.point not in latest)]
    per_point_s = _per_point_s(rows, now_s if is_running else None)
    disk = [row for row in session if row.event in (CampaignEvent.DISK_LOW, CampaignEvent.DISK_ENOUGH)]
    return CampaignSummary(
        name=name,
        state=_state(session, ended, is_running=is_running),
        at_s=now_s,
        points=total,
        done=max(0, total - still_open - len(closed)),
        unfit=troubled[End.UNFIT],
        failed=troubled[End.FAILED],
        still_open=still_open,
        repeated=sum(len(tried) > 1 for tried in ends.values()),
        sessions=max(1, len(begins)),
        running=_running(session) if is_running else "",
        boards=_boards(rows),
        measured_j=measured_j,
        began_s=rows[0].at.timestamp(),
        lasted_s=(now_s if ended is None else ended.at.timestamp()) - rows[0].at.timestamp(),
        waited_s=sum(row.wall_s or 0.0 for row in rows if row.event is CampaignEvent.WAITED),
        ends_s=now_s + still_open * per_point_s
        if ended is None and is_running and per_point_s is not None
        else None,
        free_bytes=free_bytes,
        wanted_bytes=disk[-1].wanted_bytes if disk and disk[-1].event is CampaignEvent.DISK_LOW else 0,
    )


def headline(found: CampaignSummary) -> str:
    """grid: 17 of 24 points done, 6 open, 1 unfit."""
    parts = [f"{found.done} of {found.points} points done"]
    if found.still_open:
        parts.append(f"{found.still_open} open")
    parts += [
        f"{len(these)} {what}" for these, what in ((found.failed, "failed"), (found.unfit, "unfit")) if these
    ]
    return f"{found.name}: {', '.join(parts)}"


def summary_text(found: CampaignSummary) -> str:
    """The summary as text: a line a matter, those that need a person first."""
    lines = [headline(found), f"as of     {shown(found.at_s)}: {found.state}"]
    if found.running:
        lines.append(f"running   {found.running}")
    if found.ends_s is not None and found.still_open:
        lines.append(f"ends      {shown(found.ends_s)}, at the pace so far")
    for what, these in (("failed", found.failed), ("unfit", found.unfit)):
        lines += [f"{what:<9} {label}" for label in these[:10]]
        if len(these) > 10:
            lines.append(f"{'':<9} and {len(these) - 10} more")
    if found.repeated:
        lines.append(f"repeated  {count(found.repeated, 'point')} took more than one try")
    for name, board in found.boards.items():
        lines.append(f"board     {name}: {_told(board)}")
    if not found.boards:
        lines.append("boards    no trouble")
    if found.wanted_bytes:
        wanted = f"{_gib(found.wanted_bytes)} wanted; it waits for room"
        lines.append(f"disk      FULL: {_gib(found.free_bytes)} free, {wanted}")
    else:
        lines.append(f"disk      {_gib(found.free_bytes)} free")
    took = f"{_hours(found.lasted_s)}, in {count(found.sessions, 'session')}"
    if found.waited_s >= 60.0:
        took += f"; {_hours(found.waited_s)} of them it waited"
    if found.measured_j is not None:
        took += f"; {found.measured_j:,.0f} J measured in active phases"
    return "\n".join([*lines, f"lasted    {took}"])


def _state(session: Sequence[CampaignRow], ended: CampaignRow | None, *, is_running: bool) -> str:
    if ended is not None:
        if ended.end is End.FINISHED:
            return "ended, complete"
        word = "stopped by hand" if ended.end is End.INTERRUPTED else "ended, not complete"
        return f"{word}: {ended.reason}" if ended.reason else word
    if not is_running:
        return "died; the same command goes on"
    waits = _waits(session)
    return f"waits: {waits}" if waits else "runs"


def _waits(session: Sequence[CampaignRow]) -> str:
    """Return what it waits for now: nothing else has happened since."""
    row = session[-1]
    begins = row.event is CampaignEvent.WAITED and not row.wall_s
    return row.reason if begins or row.event is CampaignEvent.DISK_LOW else ""


def _running(session: Sequence[CampaignRow]) -> str:
    for row in reversed(session):
        if row.event is CampaignEvent.POINT_ENDED:
            return ""
        if row.event is CampaignEvent.POINT_BEGAN:
            again = f", try {row.attempt}" if row.attempt > 1 else ""
            return f"{row.label or row.point}{again}, since {shown(row.at.timestamp())}"
    return ""


def _per_point_s(rows: Sequence[CampaignRow], now_s: float | None) -> float | None:
    """Return the seconds per point of all session time, waits and repetitions among it; None before a point
    finished."""
    total_s, began_s, last_s = 0.0, rows[0].at.timestamp(), rows[0].at.timestamp()
    for row in rows:
        if row.event in _BEGINNINGS:
            total_s += last_s - began_s
            began_s = row.at.timestamp()
        last_s = row.at.timestamp()
    total_s += (last_s if now_s is None else now_s) - began_s
    finished = {row.point for row in rows if row.end is End.FINISHED}
    return max(0.0, total_s) / len(finished) if finished else None


def _boards(rows: Iterable[CampaignRow]) -> dict[str, BoardTroubles]:
    found: dict[str, BoardTroubles] = {}
    for row in rows:
        if row.event not in _TROUBLES or not row.board:
            continue
        board = found.setdefault(row.board, BoardTroubles())
        what = _TROUBLES[row.event] + ("" if row.done else " without success")
        board.counted[what] = board.counted.get(what, 0) + 1
        board.reason = printable(row.reason) or board.reason
        if row.event is CampaignEvent.REPLACED and row.done:
            board.spare, board.left_out = row.spare, False
        elif row.event in (CampaignEvent.LEFT_OUT, CampaignEvent.CAME_BACK):
            board.left_out = row.event is CampaignEvent.LEFT_OUT
    return dict(sorted(found.items()))


def _told(board: BoardTroubles) -> str:
    words = [f"{what} {times} times" if times > 1 else what for what, times in board.counted.items()]
    now = "LEFT OUT now" if board.left_out else f"played by {board.spare}" if board.spare else ""
    text = ", ".join([now, *words] if now else words)
    return f"{text}; last: {board.reason[:_MOST_LETTERS]}" if board.reason else text


def _measured_j(folder: Path) -> float | None:
    found = []
    for path in sorted((folder / "points").glob("*/result.json")):
        result = kept_in(dict[str, object], path) or {}
        figures = result.get("figures")
        joules = figures.get("measured_j") if isinstance(figures, dict) and not result.get("reason") else None
        if isinstance(joules, float):
            found.append(joules)
    return math.fsum(found) if found else None


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f} GiB"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600.0:.1f} h" if seconds >= 5400.0 else f"{seconds / 60.0:.0f} min"
