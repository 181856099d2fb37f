"""A host's SD card: an ext4 file system in a file over the shared root, so that a full one is really full."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hosts.lab.command import do

#: The agent with its torch takes 1 GiB, twice while one build follows another.
SIZE_GIB = 6


class Card:
    """`folder` holds the card's file and what is mounted; `mounted` is the host's root directory."""

    def __init__(self, folder: Path, lower: Path, home_mib: int = 0) -> None:
        """`home_mib`: /home is a partition of its own of so many MiB."""
        self._file = folder / "card.ext4"
        self._home = folder / "home.ext4" if home_mib else None
        self._home_mib = home_mib
        self._card = folder / "card"
        self._lower = lower
        self.mounted = folder / "root"

    def flash(self) -> None:
        """An empty card: the host is as its image."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        _make(self._file, SIZE_GIB << 10)
        if self._home is not None:
            _make(self._home, self._home_mib)
            self.insert()
            try:
                do("cp", "-a", f"{self._lower}/home/.", self.mounted / "home")
            finally:
                self.pull()

    def insert(self) -> None:
        for folder in (self._card, self.mounted):
            folder.mkdir(exist_ok=True)
        do("mount", "-o", "loop,noatime", self._file, self._card)
        for name in ("upper", "work"):
            (self._card / name).mkdir(exist_ok=True)
        layers = f"lowerdir={self._lower},upperdir={self._card}/upper,workdir={self._card}/work"
        do("mount", "-t", "overlay", "-o", layers, "overlay", self.mounted)
        if self._home is not None:
            do("mount", "-o", "loop,noatime", self._home, self.mounted / "home")

    def pull(self) -> None:
        if self._home is not None:
            do("umount", self.mounted / "home")
        do("umount", self.mounted)
        do("umount", self._card)

    def discard(self) -> None:
        shutil.rmtree(self._file.parent, ignore_errors=True)


def _make(file: Path, mib: int) -> None:
    """A file of its own: another namespace may still have mounted what was there."""
    file.unlink(missing_ok=True)
    with file.open("wb") as empty:
        empty.truncate(mib << 20)  # sparse
    # Nobody cuts this machine's power: a journal would only cost.
    do("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", file)


@contextmanager
def opened(folder: Path, place: Path) -> Iterator[Path]:
    """The root of a card that is in no host, as in a card reader: what was written to it."""
    place.mkdir(exist_ok=True)
    # As it was in the host: another host's namespace may still have it, and one card is mounted in one way.
    do("mount", "-o", "loop,noatime", folder / "card.ext4", place)
    try:
        yield place / "upper"
    finally:
        do("umount", place)
