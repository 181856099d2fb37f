"""Files that are replaced as a whole: after a crash, a full disk or a power cut it is the old one or the new.

What is written lies beside the old file, under another name, until it is synced; then it takes the old
one's place, and the folder is synced, so that the new one is still there after a power cut when the call is
over. With `synced=False` both are left to the system, which costs no wait for the disk: a power cut within
the next half minute may leave an empty file. That is for what can be made again at any time (pages, pictures)
and for what is not needed after a reboot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path, *, mode: int | None = None, synced: bool = True) -> Iterator[Path]:
    """The file to write instead of `path`: when the body is done it takes `path`'s place.

    It gets `mode`, or the access rights of the file that it replaces. When the body raises it is removed. A
    link stays one: what it points to is replaced. What is no file of a disk (a pipe, /dev/null) is given
    itself. OSError, which names `path`, where the disk refuses.
    """
    place = path.resolve() if path.is_symlink() else path
    if place.exists() and not place.is_file():
        yield place
        return
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        yield beside
        with contextlib.suppress(FileNotFoundError):
            if mode is None:
                shutil.copymode(place, beside)
            else:
                beside.chmod(mode)
        take_place(beside, place, synced=synced)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(beside)):
            error.filename = str(place)  # a write's error names none
        beside.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes, *, mode: int | None = None, synced: bool = True) -> None:
    """Put `content` in the place of `path`, as `replaced` does; whom `mode` keeps out never gets to read it
    in between. Text is UTF-8; half a surrogate pair, as in a file's name of other bytes, is written as JSON
    escapes it."""
    with replaced(path, mode=mode, synced=synced) as file:
        rights = 0o666 if mode is None else mode
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, rights), "wb") as out:
            out.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)


def take_place(draft: Path, path: Path, *, synced: bool = True) -> None:
    """Rename the finished `draft` to `path`, of the same file system, and sync both; OSError."""
    if synced:
        sync(draft)
    draft.replace(path)
    if synced:
        sync(path.parent)


def sync(path: Path) -> None:
    """Make what was written to a file, or which names a folder has, survive a power cut; OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems know no syncing of folders
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
