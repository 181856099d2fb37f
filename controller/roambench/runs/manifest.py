"""The digests of a run's files as its end wrote them, for `sha256sum -c` and `roambench check`.

Locks and SQLite's index are left out, as readers of a run change them. Pages that a report writes later lie
beside the run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.printable import printable
from roambench.runs.database import naming
from roambench.runs.whole_file import write_whole

MANIFEST: Final = "manifest.sha256"
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_MOST_BYTES: Final = 64 << 20
_LOCKS: Final = ("lock", "fleet.lock")
#: In the place of the digest of a link: no run writes one, and what it leads to is not the run's.
_LINK: Final = "a link"


def write_manifest(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the digests of all files in the folder, or of those `names`; RunError where the disk refuses."""
    found = digests(folder) if names is None else {name: _digest(folder / name) for name in sorted(names)}
    lines = (
        f"{digest}  {name}\n" for name, digest in found.items() if digest != _LINK and name.isprintable()
    )
    write_whole(folder / MANIFEST, "".join(lines))


def read_manifest(folder: Path) -> dict[str, str] | None:
    """The digest of each file by its path in the folder; None without a manifest, RunError for one that is
    none."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with naming(path):
        if path.stat().st_size > _MOST_BYTES:
            raise RunError(f"{path}: holds more than {_MOST_BYTES:,} bytes; expected a line for each file")
        text = path.read_text("utf-8", errors="replace")
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise RunError(
                f"{path}: line {number}: expected a SHA-256 and a file's path, as sha256sum writes them"
            )
        found[parts[2]] = parts[1]
    return found


def differences(folder: Path, manifest: Mapping[str, str]) -> list[str]:
    """Return which files are not as the manifest says, a phrase each."""
    now = digests(folder)
    return [
        *(
            f"{printable(name)} was changed"
            for name, digest in manifest.items()
            if now.get(name, digest) != digest
        ),
        *(f"{printable(name)} is missing" for name in manifest if name not in now),
        *(f"{printable(name)} was added" for name in now if name not in manifest),
    ]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file below the folder by its path there; RunError where one cannot be read."""
    found = {}
    for path in _files(folder):
        with suppress(FileNotFoundError):  # a log of a process that ends meanwhile
            found[path.relative_to(folder).as_posix()] = _digest(path)
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or (
            path.is_file() and name != MANIFEST and path.name not in _LOCKS and not is_index(path)
        ):
            yield path


def is_index(path: Path) -> bool:
    """True for SQLite's index of a log and for an empty log; one with something in it is part of its
    database."""
    if path.name.endswith(".sqlite-shm"):
        return True
    return path.name.endswith(".sqlite-wal") and path.stat().st_size == 0


def _digest(path: Path) -> str:
    if path.is_symlink():
        return _LINK
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from None
