"""Contacts of Haggle's iMotes (CRAWDAD cambridge/haggle): two hosts, from when to when, without positions.

    1 8 121 121 1 0          host host start end [the pair's how many-th contact, seconds since its last]

Cells are separated by blanks or tabs. Some hosts are access points (`ap_hosts`: the stationary iMotes); a
device's access point in a step is the one it was in contact with longest. Contacts of two devices or two
access points are left out. Of hosts that met, each may have written the contact: said twice, it counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from roambench.extras.traces.one_contacts import host, hosts_that_are_aps
from roambench.mobility.readers.account import seconds
from roambench.mobility.readers.documents import Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.overlaps import IntervalCollector

_ROW: Final = re.compile(r"\d+[ \t]+\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+[ \t]+\d+)?")
_CALENDAR_S: Final = 100_000_000  # earlier times count from the beginning of the experiment


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """One fix per device and step with a contact, on a made-up grid of the access points.

    Raises ConfigError when no access points are named.
    """
    aps = hosts_that_are_aps(options)
    stays = IntervalCollector(options.file)
    latest_s = 0.0
    for line, row in numbered_rows(lines):
        try:
            cells = row.split()
            if len(cells) not in (4, 6):
                raise ValueError(f"{len(cells)} columns, expected host host start end, or two more")
            one, two = host(cells[0]), host(cells[1])
            start_s, end_s = seconds(cells[2]), seconds(cells[3])
            if (one in aps) == (two in aps):
                stays.account.leave_out("contacts of two devices or two access points")
                continue
            stays.add(*((one, two) if two in aps else (two, one)), start_s, end_s)
            latest_s = max(latest_s, end_s)
        except ValueError as error:
            stays.account.reject(line, str(error))
    return stays.fixes_without_positions(options.step_s, options.origin_s, simulated=latest_s < _CALENDAR_S)


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if not head.mostly(_ROW):
        return None
    rows = [row.split() for row in head.rows if _ROW.fullmatch(row.strip())]
    if all(int(row[2]) <= int(row[3]) for row in rows):
        return "lines of two hosts, a start and an end"
    return None


HAGGLE: Final = Reader(
    "haggle",
    "contacts of iMotes (CRAWDAD cambridge/haggle); --ap-hosts names the hosts that are access points",
    read,
    recognises=recognises,
)
