"""Dartmouth's campus Wi-Fi (CRAWDAD dartmouth/campus): movement, a file per card, and the syslog behind it.

    1003868582  AcadBldg10AP3      movement: seconds since 1970, tab, access point; OFF: the card is gone
    1003868582  AcadBldg10AP3  ...  0040965cc5ce  ...  Reassociated      syslog: time, access point, text

The metadata of the syslog names time, access point, card and type of message, in this order, and no more;
several firmwares wrote it. So of a line the first cell is the time and the second the access point; the card
is the first MAC address after them, and the type the first word that is one. A card is where it last
(re)associated, until that access point says that it is gone: what another says by then is late.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.mobility.readers.account import check_id
from roambench.mobility.readers.documents import Document, Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.formats import intervals
from roambench.mobility.readers.overlaps import IntervalCollector
from roambench.mobility.readers.tables import BY_FILE
from roambench.mobility.readers.times import TIME_FORMATS
from roambench.mobility.readers.zones import time_form

_MOVEMENT: Final[Mapping[str, str]] = {"device": BY_FILE, "time": "0", "ap": "1"}
_MOVE: Final = re.compile(r"\d{9,10}(?:\.\d+)?\t[A-Za-z][^\t]*")
_CARD: Final = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{12}|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})(?![0-9a-f])",
    re.IGNORECASE,
)
#: Types of message, and whether the card comes (True), goes (False), or neither.
_TYPES: Final[Mapping[str, bool | None]] = {
    "associated": True,
    "reassociated": True,
    "ap-sta-connected": True,
    "disassociated": False,
    "deauthenticated": False,
    "disassociating": False,
    "deauthenticating": False,
    "ap-sta-disconnected": False,
    "authenticated": None,
    "roamed": None,
}
_TYPE: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(_TYPES)})(?![\w-])", re.IGNORECASE)
_OTHERS: Final = "messages that neither begin nor end an association"
_LATE: Final = "ends of associations that were over"


def read_movement(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """The stays of every card, which its file names. Raises ConfigError for a column map."""
    if options.columns:
        raise ConfigError(["--columns: none, the columns of dartmouth-movement are known"])
    return intervals.read(documents, replace(options, columns=_MOVEMENT))


def recognises_movement(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    return "lines of seconds since 1970, a tab and a name" if head.mostly(_MOVE) else None


def read_syslog(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """The stays that the messages of all files tell, whichever file each is in."""
    stays = IntervalCollector(options.file)
    messages = _Messages()
    parse = time_form(options.time_format, options.time_zone, options.time_doubts).one
    for document in documents:
        messages.files.append(document.path)
        with closing(document.lines()) as lines:
            for number, row in numbered_rows(lines):
                try:
                    kind = _type_of(row)
                    if kind is None:
                        stays.account.leave_out(_OTHERS)
                        continue
                    time, ap, text = _parts(row)
                    card = _CARD.search(text)
                    if card is None:
                        raise ValueError("no MAC address of a card after the access point")
                    messages.add(
                        int(parse(time)), _plain(card[0]), check_id(ap, "access point"), kind, number
                    )
                except (ValueError, OverflowError) as error:
                    stays.account.reject(number, str(error), document.path)
    messages.close(stays)
    return stays.fixes_without_positions(options.step_s, options.origin_s)


def _type_of(row: str) -> bool | None:
    """Tell if a message says that the card comes; None for those that say neither."""
    found = _TYPE.search(row)
    return None if found is None else _TYPES[found[0].lower()]


def _parts(row: str) -> tuple[str, str, str]:
    cells = row.split(None, 2)
    if len(cells) < 3:
        raise ValueError("expected a time, an access point and a message")
    return cells[0], cells[1].rstrip(":"), cells[2]


def _plain(card: str) -> str:
    return re.sub(r"[.:-]", "", card).lower()


class _Messages:
    """Grows columns of what cards did at access points, file after file."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._cards: dict[str, int] = {}
        self._aps: dict[str, int] = {}
        self._card, self._ap, self._file = array("i"), array("i"), array("i")
        self._second, self._line = array("q"), array("q")
        self._comes = array("b")

    def add(self, second: int, card: str, ap: str, comes: bool, line: int) -> None:
        self._second.append(second)
        self._card.append(self._cards.setdefault(card, len(self._cards)))
        self._ap.append(self._aps.setdefault(ap, len(self._aps)))
        self._comes.append(comes)
        self._file.append(len(self.files) - 1)
        self._line.append(line)

    def close(self, stays: IntervalCollector) -> None:
        """Add every stay; one that nothing ends lasts to the last message of all."""
        if not self._second:
            return
        cards, aps = tuple(self._cards), tuple(self._aps)
        order = sorted(
            range(len(self._second)),
            key=lambda row: (cards[self._card[row]], self._second[row], self._file[row], self._line[row]),
        )
        last_s = max(self._second)
        at: int | None = None  # the row that began the present stay
        for index, row in enumerate(order):
            if at is not None and self._card[at] != self._card[row]:
                self._stay(stays, at, last_s, cards, aps)
                at = None
            if self._comes[row]:
                if at is not None and self._ap[at] == self._ap[row]:
                    stays.account.duplicates += 1
                    continue
                if at is not None:
                    self._stay(stays, at, self._second[row], cards, aps)
                at = row
            elif at is not None and self._ap[at] == self._ap[row]:
                self._stay(stays, at, self._second[row], cards, aps)
                at = None
                stays.account.leave_out("ends of associations")
            else:
                stays.account.leave_out(_LATE)
            if index == len(order) - 1 and at is not None:
                self._stay(stays, at, last_s, cards, aps)

    def _stay(
        self, stays: IntervalCollector, row: int, end_s: int, cards: Sequence[str], aps: Sequence[str]
    ) -> None:
        try:
            stays.add(cards[self._card[row]], aps[self._ap[row]], self._second[row], end_s)
        except ValueError as error:
            stays.account.reject(self._line[row], str(error), self.files[self._file[row]])


def recognises_syslog(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    rows = head.rows[:10]
    matching = [row for row in rows if _TYPE.search(row) and _CARD.search(row) and _begins_with_time(row)]
    if rows and len(matching) >= 0.6 * len(rows):
        return "lines of a time, an access point, a MAC address and what it did"
    return None


def _begins_with_time(row: str) -> bool:
    try:
        TIME_FORMATS["auto"](_parts(row)[0])
    except ValueError:
        return False
    return True


DARTMOUTH_MOVEMENT: Final = Reader(
    "dartmouth-movement",
    "Dartmouth's Wi-Fi cards (CRAWDAD dartmouth/campus/movement): a file per card, time and access point",
    read_together=read_movement,
    recognises=recognises_movement,
    takes_columns=True,
)
DARTMOUTH_SYSLOG: Final = Reader(
    "dartmouth-syslog",
    "syslog of access points (CRAWDAD dartmouth/campus/syslog): time, access point, MAC, associated or not",
    read_together=read_syslog,
    recognises=recognises_syslog,
)
