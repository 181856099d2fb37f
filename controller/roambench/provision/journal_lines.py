"""The lines that a host's agent wrote to the systemd journal."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from roambench.contract.printable import printable
from roambench.provision import layout
from roambench.provision.ssh.channel import CommandResult
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script

_JOURNAL: Final = Script(
    f"env TZ=UTC journalctl --unit {layout.UNIT} --no-pager --quiet --all "
    '--output json --output-fields MESSAGE,PRIORITY "$@"'
)
#: Input ends when the link does, and with it journalctl, which would notice at its next line only.
_FOLLOWED: Final = Script(
    f"exec 3<&0; {_JOURNAL} --follow </dev/null & journal=$!; "
    "{ cat <&3 >/dev/null; kill $journal; } & waiting=$!; "
    "wait $journal; code=$?; kill $waiting; exit $code"
)
#: How long a journal is followed at most.
_FOLLOWED_S: Final = 30 * 86400.0
#: Bytes of an entry; of what is longer only the beginning is kept, as text.
_LONGEST_ENTRY: Final = 2**18


@dataclass(frozen=True, slots=True, order=True)
class JournalLine:
    """`at` is UTC by the host's own clock in ISO 8601 (it sorts as time does), "" where the host tells none;
    `level` is syslog's, from 0 (emergency) to 7 (debug), 6 where it tells none."""

    at: str
    host: str
    line: str
    level: int = 6

    def to_text(self) -> str:
        """For a terminal."""
        return f"{self.at} {self.host}: {self.line}".lstrip()

    def to_json(self) -> str:
        """One object."""
        return json.dumps(asdict(self), ensure_ascii=False)


def journal(link: HostLink, lines: int, since: str = "") -> list[JournalLine]:
    """The newest `lines` of the agent's journal, oldest first; `since` as journalctl has it, dates in UTC."""
    said = link.must(_JOURNAL, *_options(lines, since), root=True)
    return [one for entry in said.splitlines() for one in _read(link.host.name, entry)]


def follow(link: HostLink, lines: int, since: str, take: Callable[[list[JournalLine]], None]) -> None:
    """Do as `journal`, then pass on every line as it is written, until the link is hung up.

    HostError when it is lost or the journal cannot be followed.
    """
    begun = b""

    def pieces(piece: bytes) -> None:
        nonlocal begun
        *entries, begun = (begun + piece).split(b"\n")
        if len(begun) > _LONGEST_ENTRY:
            entries.append(begun)
            begun = b""
        take([one for entry in entries for one in _read(link.host.name, entry)])

    complaint = b""

    def complained(piece: bytes) -> None:
        nonlocal complaint
        complaint = (complaint + piece)[-_LONGEST_ENTRY:]

    options = _options(lines, since)
    code = link.stream(_FOLLOWED, pieces, complained, *options, root=True, stdin=None, timeout_s=_FOLLOWED_S)
    raise HostError(link.host.name, f"its journal ended: {CommandResult(code, b'', complaint).why}")


def _options(lines: int, since: str) -> list[str]:
    return [f"--lines={lines}", *([f"--since={since}"] if since else [])]


def _read(host: str, entry: bytes) -> list[JournalLine]:
    """The lines of one entry; what is no entry of a journal is a line as it stands."""
    if not entry.strip():
        return []
    try:
        found: Any = json.loads(entry)
        at = dt.datetime.fromtimestamp(int(found["__REALTIME_TIMESTAMP"]) * 1e-6, dt.UTC)
        message, level = found["MESSAGE"], int(found.get("PRIORITY", 6))
        if isinstance(message, list):  # journald's way to write what is no text
            message = bytes(message).decode(errors="replace")
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return [JournalLine(stamp, host, printable(line), level) for line in str(message).split("\n")]
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return [JournalLine("", host, printable(entry[:_LONGEST_ENTRY].decode(errors="replace")))]
