"""The true power of emulated boards on disk, one CSV per board, and its exact integral.

ns,watts
1000000000,1.9        from here on 1.9 W (lines may be out of order: each holds to the next stamp)
3000000000,           still so (a heartbeat: the truth is known up to here)
4000000000,nan        from here on unknown: the emulator was stopped, or had died
"""

from __future__ import annotations

import math
from pathlib import Path

from roambench.contract.errors import MeterError
from roambench.meters.emulator.signal import PowerSignal

HEADER = "ns,watts"


class TruthLog:
    """Appends one board's truth to `path`; every line is handed to the kernel at once.

    A file that is there already is continued; the time in between is unknown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        known = _read(path) if path.exists() and path.stat().st_size else None
        try:
            self._file = path.open("a", buffering=1, encoding="ascii")
            if known is None:
                self._file.write(HEADER + "\n")
            elif not math.isnan(known[0].watts_at(known[1])):
                self._file.write(f"{known[1]},nan\n")
        except OSError as error:
            raise MeterError(f"truth file {path}: cannot be written ({error.strerror})") from None

    def power(self, ns: int, watts: float) -> None:
        self._file.write(f"{ns},{watts!r}\n")

    def alive(self, ns: int) -> None:
        """The power is known up to `ns`."""
        self._file.write(f"{ns},\n")

    def close(self, ns: int) -> None:
        self._file.write(f"{ns},nan\n")
        self._file.close()


def read_truth(path: Path) -> PowerSignal:
    """The whole truth of a board; NaN watts where it is not known, also after the last heartbeat.

    MeterError names file and line of anything that a TruthLog does not write; half a last line (the
    emulator was killed) is ignored.
    """
    signal, known_until_ns = _read(path)
    signal.change(known_until_ns, math.nan)
    return signal


def energy_j(path: Path, start_ns: int, end_ns: int) -> float:
    """True joules of the board over [start_ns, end_ns); MeterError unless all of it is known."""
    try:
        joules = read_truth(path).energy_j(start_ns, end_ns)
    except ValueError as error:
        raise MeterError(f"truth file {path}: {error}") from None
    if math.isnan(joules):
        raise MeterError(f"truth file {path}: not known throughout {start_ns} to {end_ns} ns")
    return joules


def _read(path: Path) -> tuple[PowerSignal, int]:
    """The signal as logged and the last stamp up to which it is known."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"truth file {path}: cannot be read ({error})") from None
    complete, _, _ = text.rpartition("\n")
    lines = complete.split("\n")
    changes: list[tuple[int, float]] = []
    until_ns = None
    for number, line in enumerate(lines, 1):
        if number == 1:
            if line != HEADER:
                raise MeterError(f"truth file {path}:1: expected {HEADER!r}")
            continue
        stamp, _, watts = line.partition(",")
        try:
            ns = int(stamp)
            if watts:
                changes.append((ns, float(watts)))
        except ValueError:
            raise MeterError(
                f"truth file {path}:{number}: expected a stamp and watts, got {line!r}"
            ) from None
        until_ns = ns if until_ns is None else max(until_ns, ns)
    if not changes or until_ns is None:
        raise MeterError(f"truth file {path}: holds no power")
    changes.sort(key=lambda change: change[0])
    signal = PowerSignal(*changes[0])
    for ns, value in changes[1:]:
        signal.change(ns, value)
    return signal, until_ns
