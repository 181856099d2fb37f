"""The live page of a finished run, in a file of its folder: to read a log of a gigabyte takes half a minute.

A zip file of JSON: `whole.json`, `curves.json` and, step by step, `steps/N.json`, as `RunMessages` makes
them, and `metrics.json`. The end of a run writes it, or the first opening of a run that has none. Like the
run's recorded figures it is believed; `roambench check` compares it with the records.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from roambench.contract.errors import RunError
from roambench.contract.printable import printable
from roambench.contract.whole_file import replaced
from roambench.live.messages import DETAILS, Message, RunMessages, encoded, shown_with
from roambench.live.metrics import Family, families_of
from roambench.live.view import RunView
from roambench.runs.database import naming
from roambench.runs.info import RunInfo, RunState
from roambench.runs.marks import EVENTS, RECORDS

PAGE: Final = "page.zip"
#: A run whose logs hold less is read within a second.
LEAST_BYTES: Final = 32 << 20
_MOST_BYTES: Final = 256 << 20  # of one message
_WHOLE, _CURVES, _STEP = "whole.json", "curves.json", "steps/{}.json"
METRICS: Final = "metrics.json"


def write_page(path: Path, least_bytes: int = LEAST_BYTES) -> None:
    """Write the page of the finished run in a folder, unless its logs hold less than that; RunError where
    they cannot be read, or the disk refuses."""
    if _log_bytes(path) < least_bytes:
        return
    with (
        naming(path / PAGE),
        replaced(path / PAGE) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, message in page_messages(path, round(time.time(), 2)):
            # A fixed date: the same run is the same file.
            archive.writestr(zipfile.ZipInfo(name), encoded(message), zipfile.ZIP_DEFLATED)


def page_messages(path: Path, now_s: float) -> Iterator[tuple[str, Message]]:
    """The messages by their names in the file, from the run's records as they are seen at `now_s`."""
    view = RunView(path, lambda: now_s)
    try:
        while view.look():
            pass
        messages = RunMessages(view)
        yield _WHOLE, messages.whole()
        yield _CURVES, messages.curves()
        for step in sorted(view.history.steps):
            yield _STEP.format(step), messages.details([step])
        yield METRICS, {"families": [asdict(family) for family in families_of(view)]}
    finally:
        view.close()


class SavedPage:
    """The page of a run; what is read of it is read when it is asked for."""

    def __init__(self, run: Path) -> None:
        self.path = run / PAGE
        self._stamp = _stamp(run)

    @classmethod
    def of(cls, run: Path, info: RunInfo | None) -> Self | None:
        """The page of the run in a folder; None where its end wrote none."""
        finished = info is not None and info.state is RunState.FINISHED
        return cls(run) if finished and (run / PAGE).is_file() else None

    @classmethod
    def opened(cls, run: Path, info: RunInfo | None, say: Callable[[str], object] = str) -> Self | None:
        """The same, written now where a finished run with large logs has none and its folder is writable."""
        found = cls.of(run, info)
        if found is None and info is not None and info.state is RunState.FINISHED:
            with suppress(RunError, OSError):  # half a folder, or a disk that takes nothing
                if (size := _log_bytes(run)) >= LEAST_BYTES and os.access(run, os.W_OK):
                    say(f"{run}: its {size / 1e6:,.0f} MB of records are read once, and kept in {PAGE}")
                    write_page(run, size)
            found = cls.of(run, info)
        return found

    @property
    def is_current(self) -> bool:
        """False once another run, or none, is in the folder."""
        return self._stamp == _stamp(self.path.parent)

    def whole(self) -> Message:
        """Return what `RunMessages.whole` gave; RunError for a damaged file."""
        return self.message(_WHOLE) or {}

    def curves(self) -> Message:
        """Return what `RunMessages.curves` gave; RunError."""
        return self.message(_CURVES) or {}

    def step(self, step: int) -> Message:
        """Return what `RunMessages.step` gave; RunError."""
        known = [self.message(_STEP.format(each)) or {} for each in shown_with(step)]
        return {name: [row for one in known for row in one.get(name, ())] for name in DETAILS}

    def metrics(self) -> tuple[Family, ...] | None:
        """Return what `families_of` gave, None in an earlier version's page; RunError for a damaged one."""
        message = self.message(METRICS)
        if message is None:
            return None
        try:
            return tuple(Family(**family) for family in message["families"])
        except (KeyError, TypeError):
            raise RunError(f"{self.path}: {METRICS}: expected families of samples") from None

    def message(self, name: str) -> Message | None:
        """The message of that name in the file; None where it has none, RunError for a damaged file."""
        with naming(self.path):
            try:
                with zipfile.ZipFile(self.path) as archive, archive.open(name) as entry:
                    text = entry.read(_MOST_BYTES + 1)
                    found: Any = json.loads(text) if len(text) <= _MOST_BYTES else None
            except KeyError:
                return None
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
                raise RunError(f"{self.path}: {name}: {printable(str(error))}") from None
        if not isinstance(found, dict):
            raise RunError(f"{self.path}: {name}: expected a message of at most {_MOST_BYTES:,} bytes")
        return found


def _log_bytes(run: Path) -> int:
    return sum((run / name).stat().st_size for name in (EVENTS, RECORDS))


def _stamp(run: Path) -> tuple[int, int] | None:
    try:
        stat = (run / "run.json").stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino
