"""Standard output and error of a command: no text that is printed there steers the terminal.

Tables and styled text go by `screen.screen`, whose own escape sequences pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from roambench.contract.printable import for_terminal


@contextmanager
def printing_harmlessly() -> Iterator[None]:
    """While the body runs nothing that is printed steers the terminal, with any text in it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, HarmlessStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class HarmlessStream:
    """`stream` for `print` and the like."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Return the length that was given."""
        self.stream.write(for_terminal(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
