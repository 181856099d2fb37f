"""A bench's list of revoked serials: one file, read again whenever it has changed.

    5f3c09...   # pi-07 2026-11-21: board lost

One hexadecimal serial a line; what follows a # is for people.
"""

from __future__ import annotations

from pathlib import Path

from roambench.contract.errors import IdentityError
from roambench.contract.whole_file import write_whole


class RevocationList:
    """Fails closed: a list that is missing or has an unreadable line is an IdentityError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._serials: frozenset[int] = frozenset()

    @classmethod
    def create(cls, path: Path) -> RevocationList:
        """The list at `path`; an empty one is written where there is none."""
        if not path.exists():
            write_whole(path, "# serial (hexadecimal)  # who, when, why\n", mode=0o644)
        return cls(path)

    def serials(self) -> frozenset[int]:
        """The list as it is now; a look at an unchanged file costs one stat."""
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._serials = _parsed(self.path.read_text(encoding="utf-8"), self.path)
                self._seen = seen
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise IdentityError(f"{self.path}: the revocation list cannot be read ({reason})") from None
        return self._serials

    def add(self, serial: int, note: str) -> bool:
        """Put a serial on the list; False if it is there already. `note` is one line."""
        if serial in self.serials():
            return False
        text = self.path.read_text(encoding="utf-8")
        line = f"{serial:x}  # {' '.join(note.split())}\n"
        write_whole(self.path, (text.rstrip("\n") + "\n" + line).lstrip("\n"), mode=0o644)
        return True


def _parsed(text: str, path: Path) -> frozenset[int]:
    serials = set()
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        try:
            serials.add(int(word.replace(":", ""), 16))
        except ValueError:
            raise IdentityError(
                f"{path}:{number}: expected a hexadecimal serial, got {word[:60]!r}"
            ) from None
    return frozenset(serials)
