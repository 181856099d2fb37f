"""A second, independent notebook of every reading, for proofs that the spool and its drains lose nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from roambench.contract.errors import MeterError
from roambench.contract.line_file import mend_last_line
from roambench.contract.records import Reading, ReadingFlag


class Witness:
    """A plain text file, handed to the kernel line by line.

    "+ns,volts,amps,watts,wh,flags,meter_ms" before the reading is spooled, "=seq" after it. A "+" without its
    "=" is what was in hand when the process died.
    """

    def __init__(self, path: Path) -> None:
        mend_last_line(path)
        self._file: TextIO = path.open("a", buffering=1, encoding="ascii")

    def before(self, reading: Reading) -> None:
        """Write down a reading that is about to be spooled."""
        values = (reading.volts, reading.amps, reading.watts, reading.watt_hours)
        numbers = ",".join(repr(value) for value in values)
        self._file.write(f"+{reading.monotonic_ns},{numbers},{int(reading.flags)},{reading.meter_ms}\n")

    def after(self, seq: int) -> None:
        """Write down the sequence number that the reading was given."""
        self._file.write(f"={seq}\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Witnessed:
    """`spooled` by (sequence number, reading); `in_hand` is what was read and perhaps not spooled."""

    spooled: tuple[tuple[int, Reading], ...]
    in_hand: tuple[Reading, ...]


def read_witness(path: Path) -> Witnessed:
    """The whole notebook, of all lives of its agent; empty where there is none."""
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    spooled: list[tuple[int, Reading]] = []
    in_hand: list[Reading] = []
    held: Reading | None = None
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith("+"):
                if held is not None:
                    in_hand.append(held)
                held = _reading(line[1:])
            elif held is not None:
                spooled.append((int(line[1:]), held))
                held = None
        except ValueError:
            if number < len(lines):
                raise MeterError(f"{path}:{number}: not a witness's line: {line!r}") from None
    if held is not None:
        in_hand.append(held)
    return Witnessed(tuple(spooled), tuple(in_hand))


def _reading(text: str) -> Reading:
    ns, volts, amps, watts, watt_hours, flags, meter_ms = text.split(",")
    numbers = (float(volts), float(amps), float(watts), float(watt_hours))
    return Reading(int(ns), *numbers, ReadingFlag(int(flags)), int(meter_ms))
