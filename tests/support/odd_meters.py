"""Drivers of another package that fail: `words` at a line that is none of its own, `broken` when opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from foreign_packages import importable, install

_ODD: Final = """
from roambench.contract.records import Reading
from roambench.meters.driver import Driver, row_of
from roambench.meters.frames.parser import FrameParser
from roambench.meters.sources.serial_port import SerialPort


class Frames(FrameParser):
    def _line(self, line, received_ns):
        watts = {b"one": 1.0, b"two": 2.0}[line]
        return Reading(self._stamp(received_ns)[0], 5.0, watts / 5.0, watts)


class Broken:
    async def open(self, take, lost):
        raise RuntimeError("no device of this maker")

    async def close(self):
        pass


def row(name, source):
    return Driver(name, name, "/dev/x", (), "", row_of("hwmon"), source, lambda port: Frames(1.0))


WORDS = row("words", lambda port: SerialPort(port.address))
BROKEN = row("broken", lambda port: Broken())
"""


@contextmanager
def odd_meters(folder: Path) -> Iterator[None]:
    """Both are installed while the context lasts; `folder` keeps their package."""
    points = {"roambench.meters": {name: f"pocket_bench.odd:{name.upper()}" for name in ("words", "broken")}}
    with importable(install(folder, {"pocket_bench/odd.py": _ODD}, points)):
        yield
