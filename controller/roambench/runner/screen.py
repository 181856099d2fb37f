"""The output of a command while it works and at its end: how much of it (-q, -v), and how it is laid out.

A pipe, a file and a log get lines of any length: only a terminal has a width.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, Final, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from roambench.contract.json_values import without_nan
from roambench.contract.printable import for_terminal
from roambench.runner.harmless_print import HarmlessStream

#: Columns of what is no terminal: no table needs as many.
_PIPE_WIDTH: Final = 100_000


#: Of `roambench run`: check, prepare, run each system, compare.
RUN_PHASES: Final = 4
#: Of `roambench sweep`: check, run what is open, table.
SWEEP_PHASES: Final = 3


class Verbosity(IntEnum):
    """The amount of a command's output."""

    LITTLE = 0  # -q: what it found, where it is, warnings and errors
    USUAL = 1
    ALL = 2  # -v: each order of a run, and what libraries log


class _Asked:
    """The options of this process's command."""

    verbosity: Verbosity = Verbosity.USUAL
    log: logging.Handler | None = None


def tell(verbosity: Verbosity) -> None:
    """From now on this process tells so much."""
    root = logging.getLogger()
    if _Asked.log is not None:
        root.removeHandler(_Asked.log)
        root.setLevel(logging.WARNING)
        _Asked.log = None
    _Asked.verbosity = verbosity
    if verbosity is Verbosity.ALL:
        _Asked.log = _Log(logging.INFO)
        root.addHandler(_Asked.log)
        root.setLevel(logging.INFO)


def screen(*, stderr: bool = False) -> Console:
    """Standard output or error for what a command found.

    It ends nothing: when the reader is gone (`| head`, a terminal that is gone, a log on a full disk) the
    work goes on, and after the first refusal all that is printed there is dropped.
    """
    stream = sys.stderr if stderr else sys.stdout
    file = cast(TextIO, _Lasting(stream.stream if isinstance(stream, HarmlessStream) else stream))
    return _Screen(
        file=file, width=None if file.isatty() else _PIPE_WIDTH, highlight=False, markup=False, emoji=False
    )


def progress_screen(*, stderr: bool = False) -> Console:
    """The same for how its work goes, which -q leaves out."""
    console = screen(stderr=stderr)
    console.quiet = tells_little()
    return console


def say(console: Console, text: str) -> None:
    """A line as it is: nothing in it is markup, and no line is broken where there is no terminal."""
    console.print(Text(text), soft_wrap=True)


def warn(console: Console, text: str) -> None:
    """A line that -q does not leave out, in yellow."""
    with in_any_case(console):
        console.print(Text(text, style="yellow"), soft_wrap=True)


def detail(console: Console, text: str) -> None:
    """A line for -v alone."""
    if tells_all():
        console.print(Text(text, style="dim"), soft_wrap=True)


def phase(console: Console, number: int, of: int, what: str) -> None:
    """The work's next part: `[2/4] what`."""
    console.print(Text.assemble((f"[{number}/{of}] ", "bold"), what), soft_wrap=True)


def print_json(document: object) -> None:
    """One JSON document on standard output; numbers that are none become null, paths their text. Letters that
    the output has not are escaped."""
    plain, ascii_only = without_nan(document), (sys.stdout.encoding or "utf-8").lower() != "utf-8"
    text = json.dumps(plain, indent=2, ensure_ascii=ascii_only, allow_nan=False, default=str)
    print(text, file=cast(TextIO, _Lasting(sys.stdout)))


def tells_all() -> bool:
    """Return whether -v was asked for."""
    return _Asked.verbosity is Verbosity.ALL


def tells_little() -> bool:
    """Return whether -q was asked for."""
    return _Asked.verbosity is Verbosity.LITTLE


@contextmanager
def in_any_case(console: Console) -> Iterator[Console]:
    """While the body runs -q leaves nothing out: it prints what was found, or a warning."""
    before = console.quiet
    console.quiet = before and not tells_little()
    try:
        yield console
    finally:
        console.quiet = before


class _Screen(Console):
    """The same for tables and styled text: styles are ours, and what is in a text stays text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(for_terminal(segment.text), segment.style)


class _Log(logging.Handler):
    """A line per log record on standard error; tracebacks are for the log in the run folder."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it, where there is a reader."""
        with suppress(OSError):
            print(for_terminal(f"{record.name}: {record.getMessage()}"), file=sys.stderr)


class _Lasting:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._give_up()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self) -> None:
        """The stream itself must end well, too: the interpreter flushes it when it exits."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
