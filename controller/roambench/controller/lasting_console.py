"""A console that ends nothing: a run goes on in silence when nobody reads any more what it prints."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, cast

from rich.console import Console


def lasting_console(*, stderr: bool = False) -> Console:
    """On standard output or error, for what must not end with its reader (`| head`, a terminal that is gone,
    a log on a full disk): after the first refusal all that is printed there is thrown away."""
    return Console(file=cast(TextIO, _Lasting(sys.stderr if stderr else sys.stdout)))


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
