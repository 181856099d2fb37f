"""The ledger of certificates: a line of JSON for each, appended before it leaves for its device."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from roambench.contract.errors import IdentityError


@dataclass(frozen=True, slots=True)
class Issued:
    """A line of the ledger: serials in hexadecimal (`authority` is the signer's), times UTC in ISO 8601.

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
        return dt.datetime.fromisoformat(self.expires)


def read_ledger(path: Path) -> list[Issued]:
    """Oldest first; of two lines about one certificate the later tells. IdentityError names a line that is
    none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{path}: cannot be read ({error})") from None
    entries: dict[str, Issued] = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = Issued(**json.loads(line))
            entries[entry.serial] = entry
        except (ValueError, TypeError):
            raise IdentityError(f"{path}:{number}: not a line of the ledger") from None
    return list(entries.values())


def enter(path: Path, entry: Issued) -> None:
    """Durable when it returns; OSError where it cannot be written."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(entry)) + "\n")
        file.flush()
        os.fsync(file.fileno())
