"""The record of issued certificates: a line of JSON for each, appended before it leaves for its device."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from roambench.contract.errors import ConfigError, IdentityError
from roambench.contract.json_values import from_json, json_or_none
from roambench.contract.line_file import append_lines, whole_lines


@dataclass(frozen=True, slots=True)
class Issued:
    """One certificate: serials in hexadecimal (`authority` is the signer's), times UTC in ISO 8601.

    Not `arrived`: the way to its device failed, which may still have the one before.
    """

    name: str
    serial: str
    issued: str
    expires: str
    authority: str
    arrived: bool = True

    @property
    def ends(self) -> dt.datetime:
        """The time at which the certificate expires."""
        return dt.datetime.fromisoformat(self.expires)


def read_issued(path: Path) -> list[Issued]:
    """Oldest first; of two lines about one certificate the later counts. IdentityError names a line that is
    none; half a last line is of a certificate that never left."""
    try:
        lines = whole_lines(path, _is_entry)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{path}: cannot be read ({error})") from None
    entries: dict[str, Issued] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = from_json(Issued, line, f"{path}:{number}")
        except ConfigError as error:
            raise IdentityError(f"{'; '.join(error.problems)}; mend it by hand, or remove it") from None
        entries[entry.serial] = entry
    return list(entries.values())


def enter(path: Path, entry: Issued) -> None:
    """Durable when it returns; OSError where it cannot be written."""
    append_lines(path, [json.dumps(asdict(entry))], _is_entry)


def _is_entry(line: str) -> bool:
    return json_or_none(Issued, line) is not None
