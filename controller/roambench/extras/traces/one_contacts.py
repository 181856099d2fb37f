"""The ONE's connectivity (ConnectivityONEReport, StandardEventsReader): who meets whom, without positions.

    1.00 CONN 45 109 up            time CONN host host up|down [interface]

Some hosts are access points (`ap_hosts`); a device's access point in a step is the one it was in contact with
longest. Host names may carry a prefix (`p12`): their trailing digits count. Events of messages (C, S, DE, A,
DR, R) and contacts of two devices or two access points are left out. A contact that never goes down lasts to
the last event. Where both hosts reported one contact, it ends as in The ONE: with the first that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.mobility.readers.account import seconds
from roambench.mobility.readers.documents import Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.overlaps import IntervalCollector

_ROW: Final = re.compile(r"-?\d+(?:[.,]\d+)?\s+CONN\s+\S*\d\s+\S*\d\s+(?:up|down)(?:\s+\S+)?")
_HOST: Final = re.compile(r"(\d+)$", re.ASCII)
_OTHER_EVENTS: Final = frozenset(("C", "S", "DE", "A", "DR", "R"))


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """One fix per device and step with a contact, on a made-up grid of the access points.

    Raises ConfigError when no access points are named.
    """
    aps = hosts_that_are_aps(options)
    stays = IntervalCollector(options.file)
    account = stays.account
    open_since: dict[tuple[str, str], tuple[float, int]] = {}
    met: set[tuple[str, str]] = set()
    last_s = float("-inf")
    for line, row in numbered_rows(lines):
        try:
            cells = row.split()
            t_s = seconds(cells[0])
            if len(cells) > 1 and cells[1] in _OTHER_EVENTS:
                account.leave_out("events that are no contacts")
                continue
            if len(cells) not in (5, 6) or cells[1] != "CONN" or cells[4] not in ("up", "down"):
                raise ValueError("expected time CONN host host up|down")
            hosts = host(cells[2]), host(cells[3])
            last_s = max(last_s, t_s)
            if (hosts[0] in aps) == (hosts[1] in aps):
                account.leave_out("contacts of two devices or two access points")
                continue
            pair = hosts if hosts[1] in aps else (hosts[1], hosts[0])
            if cells[4] == "up":
                if pair in open_since:
                    account.duplicates += 1
                    continue
                open_since[pair] = (t_s, line)
                met.add(pair)
                account.used += 1
                continue
            if pair not in open_since and pair in met:
                account.leave_out("ends of contacts that were over")
                continue
            if pair not in open_since:
                raise ValueError(f"{pair[0]} and {pair[1]} part, but never met")
            since_s, _ = open_since[pair]
            stays.add(*pair, since_s, t_s)
            del open_since[pair]
        except ValueError as error:
            account.reject(line, str(error))
    for pair, (since_s, line) in open_since.items():
        account.used -= 1
        try:
            stays.add(*pair, since_s, max(since_s, last_s))
        except ValueError as error:
            account.reject(line, str(error))
    return stays.fixes_without_positions(options.step_s, options.origin_s, simulated=True)


def hosts_that_are_aps(options: ReaderOptions) -> frozenset[str]:
    """The hosts that `ap_hosts` names, by their numbers. Raises ConfigError when it names none."""
    if not options.ap_hosts:
        raise ConfigError(["--ap-hosts: needed, the hosts of the log that are access points, e.g. 0-9,45"])
    try:
        return frozenset(host(name) for name in options.ap_hosts)
    except ValueError as error:
        raise ConfigError([f"--ap-hosts: {error}"]) from None


def host(name: str) -> str:
    """The number of a host, which its name ends in. Raises ValueError for a name that does not."""
    found = _HOST.search(name)
    if found is None:
        raise ValueError(f"host {name[:32]!r} does not end in a number")
    return str(int(found[1][-18:]))


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_ROW):
        return "lines of time, CONN, two hosts, up or down"
    return None


ONE_CONTACTS: Final = Reader(
    "one-contacts",
    "The ONE's connectivity events; --ap-hosts names the hosts that are access points",
    read,
    recognises=recognises,
)
