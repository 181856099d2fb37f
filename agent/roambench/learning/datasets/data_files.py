"""Files of a data set: where they lie, which of them are missing, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.archives import Limits, read_members
from roambench.learning.datasets.downloads import Download, fetch


def default_folder(name: str) -> Path:
    """Return where a data set's files are kept: $ROAMBENCH_DATA/<name>, else the user's cache folder."""
    chosen = os.environ.get("ROAMBENCH_DATA")
    if chosen:
        return Path(chosen) / name
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "roambench" / name


@dataclass(frozen=True, slots=True)
class Found:
    """One file's content and where it came from, for messages."""

    content: bytes
    where: str


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files of a data set: loose in its folder, in the folder its archive makes, or in the archive."""

    title: str  # "CIFAR-10"
    name: str  # its folder in the cache
    folder: str  # what the archive's members lie in
    members: tuple[str, ...]  # below `folder`
    archive: Download
    limits: Limits
    #: (file or folder, what to say) of a version that people have and that is not read.
    mistaken: tuple[tuple[str, str], ...] = ()

    def place(self, folder: Path | None) -> Path:
        """The folder of the files: `folder`, or the data set's own in the cache."""
        return default_folder(self.name) if folder is None else folder

    def missing(self, folder: Path | None = None) -> list[str]:
        """One line for every file that is nowhere, and for every mistaken version; empty if all is there."""
        place = self.place(folder)
        if (place / self.archive.name).is_file():
            return []
        absent = [member for member in self.members if self._loose(place, member) is None]
        if not absent:
            return []
        problems = [
            f"{place / member}: missing {self.title} file (also looked for in {self.folder}/ and in "
            f"{self.archive.name} there)"
            for member in absent
        ]
        problems += [f"{place / name}: {why}" for name, why in self.mistaken if (place / name).exists()]
        return problems

    def read(self, folder: Path | None = None, *, download: bool = False) -> dict[str, Found]:
        """The content of every member. Loose files go before the archive.

        ConfigError lists what is missing (with `download` the archive is fetched first), DataError names a
        file that cannot be read.
        """
        place = self.place(folder)
        problems = self.missing(place)
        if problems and download:
            fetch(self.archive, place)
        elif problems:
            raise ConfigError(problems)
        loose = {member: self._loose(place, member) for member in self.members}
        found = {
            member: Found(read_file(path, self.limits.member_bytes), str(path))
            for member, path in loose.items()
            if path is not None
        }
        if len(found) < len(self.members):
            found |= self._packed(place / self.archive.name, set(self.members) - set(found))
        return found

    def _packed(self, path: Path, members: set[str]) -> dict[str, Found]:
        wanted = {f"{self.folder}/{member}": member for member in members}
        found = {
            wanted[name]: Found(content, f"{path}: {name}")
            for name, content in read_members(path, str(path), wanted.__contains__, self.limits)
        }
        lacking = sorted(members - set(found))
        if lacking:
            raise DataError(f"{path}: lacks {', '.join(f'{self.folder}/{member}' for member in lacking)}")
        return found

    def _loose(self, place: Path, member: str) -> Path | None:
        return next((path for path in self._spellings(place, member) if path.is_file()), None)

    def _spellings(self, place: Path, member: str) -> Iterator[Path]:
        for base in (place, place / self.folder):
            yield base / member
            if member.endswith(".gz"):
                yield base / member.removesuffix(".gz")


def read_file(path: Path, max_bytes: int) -> bytes:
    """The whole file. DataError if it cannot be read or is longer than `max_bytes`."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    if len(content) > max_bytes:
        raise DataError(f"{path}: holds more than {max_bytes} bytes")
    return content
