"""Treatments of a board that fails again and again: pure decisions over the campaign's log.

A board that made `failures` points in a row fail or unfit is power-cycled at its switch, once; where it has
none, or fails again, a spare takes its place; where there is none left, the points go on without it. A point
that finished clears all that took part. A board that was left out and came back healthy is out again at its
first failure, and is then looked at after twice as many points as the time before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow, End


class TreatmentKind(StrEnum):
    """A treatment of a board."""

    POWER_CYCLE = "power-cycle"
    REPLACE = "replace"
    LEAVE_OUT = "leave out"


@dataclass(frozen=True, slots=True)
class Treatment:
    """One treatment of one board. `spare` takes its place; `reason` says what it did."""

    kind: TreatmentKind
    board: str
    reason: str
    spare: str = ""


@dataclass(slots=True)
class BoardStanding:
    """A board over the campaign so far. `points_out`: how many points ended since it was left out.
    `forgiven`: its latest failure was over by itself; the next one counts."""

    failures: int = 0
    reason: str = ""
    cycled: bool = False
    dead: bool = False  # it did not come back from its power cycle
    left_out: bool = False
    times_left_out: int = 0
    points_out: int = 0
    forgiven: bool = False

    @property
    def is_looked_at(self) -> bool:
        """True if it is time to see if a board that was left out is healthy again."""
        return self.left_out and self.points_out >= 2 ** (self.times_left_out - 1) - 1


class Maintenance:
    """The boards' standing; `hear` every row of the log, those of earlier sessions first."""

    def __init__(self, failures: int, rows: Iterable[CampaignRow] = ()) -> None:
        self._failures = failures
        self._boards: dict[str, BoardStanding] = {}
        self._spent: set[str] = set()  # spares that were tried
        for row in rows:
            self.hear(row)

    def of(self, board: str) -> BoardStanding:
        """The standing of a board."""
        return self._boards.setdefault(board, BoardStanding())

    @property
    def left_out(self) -> tuple[str, ...]:
        """The boards that take no part."""
        return tuple(sorted(name for name, one in self._boards.items() if one.left_out))

    def hear(self, row: CampaignRow) -> None:
        """Take note of what happened."""
        if row.event is CampaignEvent.POINT_ENDED:
            self._ended(row)
        if not row.board:
            return
        board = self.of(row.board)
        match row.event:
            case CampaignEvent.BOARD_FAILED:
                board.failures, board.reason = row.failures, row.reason
                board.forgiven = row.wall_s is not None
            case CampaignEvent.POWER_CYCLED:
                board.cycled, board.dead, board.failures = True, not row.done, 0
            case CampaignEvent.REPLACED:
                self._spent.add(row.spare)
                if row.done:
                    self._boards[row.board] = BoardStanding(times_left_out=board.times_left_out)
            case CampaignEvent.LEFT_OUT:
                board.left_out, board.points_out = True, 0
                board.times_left_out += 1
            case CampaignEvent.CAME_BACK:
                board.left_out, board.dead, board.failures = False, False, 0

    def _ended(self, row: CampaignRow) -> None:
        for name, board in self._boards.items():
            if board.left_out:
                board.points_out += row.end is not None
            elif row.end is End.FINISHED and name not in row.without:
                self._boards[name] = BoardStanding()

    def treatments(self, switched: Collection[str], spares: Sequence[str]) -> list[Treatment]:
        """Return what is to be done now, one a board at most. `switched`: boards that something can switch;
        `spares`: hosts that may take a board's place."""
        free = [spare for spare in spares if spare not in self._spent]
        found = []
        for name, board in sorted(self._boards.items()):
            patience = 1 if board.cycled or board.times_left_out else self._failures
            if board.left_out or not (board.dead or board.failures >= patience):
                continue
            if name in switched and not board.cycled and not board.times_left_out:
                found.append(Treatment(TreatmentKind.POWER_CYCLE, name, board.reason))
            elif free:
                found.append(Treatment(TreatmentKind.REPLACE, name, board.reason, free.pop(0)))
            else:
                found.append(Treatment(TreatmentKind.LEAVE_OUT, name, board.reason))
        return found


def common_cause(failing: Collection[str], taking_part: int) -> bool:
    """True where the number of failing boards speaks for a common cause: a switch, the network, the
    controller. Nothing is done to boards then."""
    return len(failing) > 1 and len(failing) > taking_part / 2
