"""Log of the lines that an emulated meter printed on its serial port and when, for proofs that every reading
is one of its lines.

1000000123,26,352e3136...     device time just before it was said, bytes that the port took, the bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import MeterError
from roambench.contract.line_file import mend_last_line


@dataclass(frozen=True, slots=True)
class Saying:
    """`taken` bytes of `data` went into the port, which nobody may have read."""

    ns: int
    taken: int
    data: bytes


class SaidNotes:
    """Appends to `path`; every line is handed to the kernel at once."""

    def __init__(self, path: Path) -> None:
        mend_last_line(path)
        try:
            self._file = path.open("a", buffering=1, encoding="ascii")
        except OSError as error:
            raise MeterError(f"meter's notes {path}: cannot be written ({error.strerror})") from None

    def said(self, ns: int, taken: int, data: bytes) -> None:
        """Note a line: when it was printed and how many of its bytes were taken."""
        self._file.write(f"{ns},{taken},{data.hex()}\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_said(path: Path) -> list[Saying]:
    """Everything noted, in order; half a last line (the emulator was killed) is ignored."""
    complete, _, _ = path.read_text(encoding="ascii").rpartition("\n")
    sayings = []
    for number, line in enumerate(complete.split("\n") if complete else (), 1):
        try:
            ns, taken, data = line.split(",")
            sayings.append(Saying(int(ns), int(taken), bytes.fromhex(data)))
        except ValueError:
            raise MeterError(f"meter's notes {path}:{number}: expected ns,bytes,hex, got {line!r}") from None
    return sayings
