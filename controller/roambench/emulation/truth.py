"""The true power of emulated boards on disk, one CSV per board, and its exact integral.

ns,watts,idle_watts
1000000000,2.7,       from here on 2.7 W (lines may be out of order: each holds to the next stamp)
1000000000,,1.9       from here on it would draw 1.9 W if it had nothing to do
3000000000,,          still so (a heartbeat: the truth is known up to here)
4000000000,nan,       from here on unknown: the emulator was stopped, or had died

Beside it, if asked for, the lines that the meter printed on its serial port and when, for proofs that every
reading is one of its lines:

1000000123,26,352e3136...     device time just before it was printed, bytes that the port took, the bytes
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import MeterError
from roambench.contract.line_file import mend_last_line
from roambench.emulation.electric.signal import PowerSignal

HEADER = "ns,watts,idle_watts"


class TruthLog:
    """Appends one board's truth to `path`; every line is handed to the kernel at once.

    A file that is there already is continued; the time in between is unknown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            mend_last_line(path)
            lines = path.read_bytes().count(b"\n") if path.exists() else 0
            self._file = path.open("a", buffering=1, encoding="ascii")
            if not lines:
                self._file.write(HEADER + "\n")
            if lines > 1:
                signal, _, until_ns = _read(path)
                if not math.isnan(signal.watts_at(until_ns)):
                    self._file.write(f"{until_ns},nan,\n")
        except MeterError:
            raise
        except OSError as error:
            raise MeterError(f"truth file {path}: cannot be written ({error.strerror})") from None

    def power(self, ns: int, watts: float) -> None:
        """Log the watts that hold from this device time on."""
        self._file.write(f"{ns},{watts!r},\n")

    def idle(self, ns: int, watts: float) -> None:
        """From `ns` on the board would draw so much if it had nothing to do."""
        self._file.write(f"{ns},,{watts!r}\n")

    def alive(self, ns: int) -> None:
        """The power is known up to `ns`."""
        self._file.write(f"{ns},,\n")

    def close(self, ns: int) -> None:
        """Log that power is unknown from here on, and close the file."""
        self._file.write(f"{ns},nan,\n")
        self._file.close()


def read_truth(path: Path) -> PowerSignal:
    """The whole truth of a board; NaN watts where it is not known, also after the last heartbeat.

    MeterError names file and line of anything that a TruthLog does not write; half a last line (the
    emulator was killed) is ignored.
    """
    return read_truths(path)[0]


def read_truths(path: Path) -> tuple[PowerSignal, PowerSignal | None]:
    """The same, and what the board would have drawn idling (None: the file does not say)."""
    signal, idle, known_until_ns = _read(path)
    signal.change(known_until_ns, math.nan)
    return signal, idle


def energy_j(path: Path, start_ns: int, end_ns: int) -> float:
    """True joules of the board over [start_ns, end_ns); MeterError unless all of it is known."""
    try:
        joules = read_truth(path).energy_j(start_ns, end_ns)
    except ValueError as error:
        raise MeterError(f"truth file {path}: {error}") from None
    if math.isnan(joules):
        raise MeterError(f"truth file {path}: not known throughout {start_ns} to {end_ns} ns")
    return joules


def _read(path: Path) -> tuple[PowerSignal, PowerSignal | None, int]:
    """The signals as logged and the last stamp up to which they are known."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"truth file {path}: cannot be read ({error})") from None
    complete, _, _ = text.rpartition("\n")
    lines = complete.split("\n")
    changes: list[tuple[int, float]] = []
    idle: list[tuple[int, float]] = []
    until_ns = None
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line != HEADER:
                raise MeterError(f"truth file {path}:1: expected {HEADER!r}")
            continue
        stamp, _, values = line.partition(",")
        watts, _, idle_watts = values.partition(",")
        try:
            ns = int(stamp)
            if watts:
                changes.append((ns, float(watts)))
            if idle_watts:
                idle.append((ns, float(idle_watts)))
        except ValueError:
            raise MeterError(
                f"truth file {path}:{number}: expected a stamp and watts, got {line!r}"
            ) from None
        until_ns = ns if until_ns is None else max(until_ns, ns)
    if not changes or until_ns is None:
        raise MeterError(f"truth file {path}: holds no power")
    return _signal(changes), _signal(idle) if idle else None, until_ns


def _signal(changes: list[tuple[int, float]]) -> PowerSignal:
    changes.sort(key=lambda change: change[0])
    signal = PowerSignal(*changes[0])
    for ns, value in changes[1:]:
        signal.change(ns, value)
    return signal


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line that was printed: `taken` bytes of `data` went into the port, and may never have been read."""

    ns: int
    taken: int
    data: bytes


class PrintLog:
    """The log of a meter's lines: appends to `path`; every line is handed to the kernel at once."""

    def __init__(self, path: Path) -> None:
        mend_last_line(path)
        try:
            self._file = path.open("a", buffering=1, encoding="ascii")
        except OSError as error:
            raise MeterError(f"meter's notes {path}: cannot be written ({error.strerror})") from None

    def add(self, ns: int, taken: int, data: bytes) -> None:
        """Note a line: when it was printed and how many of its bytes were taken."""
        self._file.write(f"{ns},{taken},{data.hex()}\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_print_log(path: Path) -> list[PrintedLine]:
    """Everything noted, in order; half a last line (the emulator was killed) is ignored."""
    complete, _, _ = path.read_text(encoding="ascii").rpartition("\n")
    lines = []
    for number, line in enumerate(complete.split("\n") if complete else (), 1):
        try:
            ns, taken, data = line.split(",")
            lines.append(PrintedLine(int(ns), int(taken), bytes.fromhex(data)))
        except ValueError:
            raise MeterError(f"meter's notes {path}:{number}: expected ns,bytes,hex, got {line!r}") from None
    return lines
