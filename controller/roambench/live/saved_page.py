"""The live page of a finished run, in a file of its folder: to read a log of a gigabyte takes half a minute.

A zip file of JSON: `whole.json`, `curves.json` and, step by step, `steps/N.json`, as `RunMessages` makes
them. Like the run's recorded figures it is believed; `roambench check` compares it with the records.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from roambench.contract.errors import RunError
from roambench.contract.printable import printable
from roambench.contract.whole_file import replaced
from roambench.live.messages import DETAILS, Message, RunMessages, encoded, shown_with
from roambench.live.view import RunView
from roambench.runs.database import naming
from roambench.runs.info import RunInfo, RunState
from roambench.runs.marks import EVENTS, RECORDS

PAGE: Final = "page.zip"
#: A run whose logs hold less is read within a second.
LEAST_BYTES: Final = 32 << 20
_MOST_BYTES: Final = 256 << 20  # of one message
_WHOLE, _CURVES, _STEP = "whole.json", "curves.json", "steps/{}.json"


def write_page(path: Path, least_bytes: int = LEAST_BYTES) -> None:
    """Write the page of the finished run in a folder, unless its logs hold less than that; RunError where
    they cannot be read, or the disk refuses."""
    if sum((path / name).stat().st_size for name in (EVENTS, RECORDS)) < least_bytes:
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
    finally:
        view.close()


class SavedPage:
    """The page that the end of a run wrote; what is read of it is read when it is asked for."""

    def __init__(self, run: Path) -> None:
        self.path = run / PAGE
        self._stamp = _stamp(run)

    @classmethod
    def of(cls, run: Path, info: RunInfo | None) -> Self | None:
        """The page of the run in a folder; None where its end wrote none."""
        finished = info is not None and info.state is RunState.FINISHED
        return cls(run) if finished and (run / PAGE).is_file() else None

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


def _stamp(run: Path) -> tuple[int, int] | None:
    try:
        stat = (run / "run.json").stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino
