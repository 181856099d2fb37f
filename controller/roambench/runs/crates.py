"""Runs that were packed as a crate, a folder or a zip file: unpacked where no entry can do harm."""

from __future__ import annotations

import atexit
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.printable import printable
from roambench.runs.database import naming

#: What makes a folder a crate.
CRATE: Final = "ro-crate-metadata.json"
_MOST_ENTRIES: Final = 100_000
_MOST_BYTES: Final = 16 << 30
#: Bytes that a zip of some bytes may hold: databases of JSON shrink to a tenth, bombs to a thousandth.
_MOST_TIMES: Final = 100
_ALWAYS_BYTES: Final = 64 << 20
_BLOCK: Final = 1 << 20

#: Folders that zip files were unpacked to, until this process ends.
_unpacked: Final[dict[Path, Path]] = {}


def crate_of(run: Path) -> Path | None:
    """The crate that a run lies in; None for a run on its own."""
    above = run.parent.parent
    return above if run.parent.name == "runs" and (above / CRATE).is_file() else None


def source_of(path: Path) -> Path:
    """The zip file that a path was unpacked from; the path itself for any other."""
    return next((_unpacked[folder] for folder in path.parents if folder in _unpacked), path)


def unpacked(path: Path) -> Path:
    """The folder of a crate that is a zip file; any other path as it is. RunError names what is wrong."""
    if path.suffix != ".zip" or not path.is_file():
        return path
    folder = Path(tempfile.mkdtemp(prefix="roambench-crate-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = folder / path.stem
    with naming(path):
        place.mkdir()
        try:
            with zipfile.ZipFile(path) as archive:
                _unpack(path, archive, place)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
            raise RunError(f"{path}: not a whole zip file ({printable(str(error))})") from None
    _unpacked[place] = path
    return place


def _unpack(path: Path, archive: zipfile.ZipFile, place: Path) -> None:
    left = min(_MOST_BYTES, _MOST_TIMES * path.stat().st_size + _ALWAYS_BYTES)
    for entry, name in _entries(path, archive):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as packed, target.open("xb") as out:
            while block := packed.read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise RunError(
                        f"{path}: {printable(entry.filename)}: more than a crate of its size holds"
                    )
                out.write(block)


def _entries(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """The files, each with its path below the crate; RunError for an entry that is none of a crate."""
    entries = archive.infolist()
    if len(entries) > _MOST_ENTRIES:
        raise RunError(f"{path}: {len(entries):,} entries; a crate has at most {_MOST_ENTRIES:,}")
    seen = set()
    for entry in entries:
        name = PurePosixPath(entry.filename)
        where = f"{path}: {printable(entry.filename)[:200]}"
        if (
            name.is_absolute()
            or ".." in name.parts
            or "\\" in entry.filename
            or not entry.filename.isprintable()
        ):
            raise RunError(f"{where}: expected a path within the crate")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise RunError(f"{where}: expected a file or a folder")
        if entry.flag_bits & 1:
            raise RunError(f"{where}: is encrypted; expected a crate without a password")
        if entry.is_dir():
            continue
        if name in seen:
            raise RunError(f"{where}: is in it twice")
        seen.add(name)
        yield entry, name
