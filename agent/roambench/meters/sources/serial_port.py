"""A serial port, read by the running loop's file events.

The port is opened with pyserial's defaults and its modem lines are never touched again: at open both DTR and
RTS rise in one go, at close both fall, and the pair of transistors behind them only resets the meter's chip
when they differ. `dtr=False`, `rts=False` or `dsrdtr=True` make them differ, and the board that the meter
feeds loses power. Once it is open, the port is set to leave both up when it is closed (termios HUPCL off):
the next opening then changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import termios
from typing import Final

import serial

from roambench.meters.sources.source import Lost, Take, cause
from roambench.meters.sources.unit import unit_of_device

BAUD: Final = 115200
_CHUNK: Final = 65_536


class SerialPort:
    """A `Source`."""

    def __init__(self, path: str, baud: int = BAUD) -> None:
        self._path = path
        self._baud = baud
        self._serial: serial.Serial | None = None
        self.unit = ""

    async def open(self, take: Take, lost: Lost) -> None:
        """Open the device for ourselves alone, and hand over bytes as they come."""
        # exclusive: of two readers of one port each would get half of the bytes.
        port = serial.Serial(self._path, self._baud, timeout=0, exclusive=True)
        settings = termios.tcgetattr(port.fileno())
        settings[2] &= ~termios.HUPCL
        termios.tcsetattr(port.fileno(), termios.TCSANOW, settings)
        self._serial = port
        self.unit = unit_of_device(self._path)

        def gone(why: str) -> None:
            self._release()
            lost(why)

        follow(port.fileno(), take, gone)

    async def close(self) -> None:
        """Stop listening and close the device."""
        self._release()

    def _release(self) -> None:
        if self._serial is not None:
            asyncio.get_running_loop().remove_reader(self._serial.fileno())
            self._serial.close()
            self._serial = None


def follow(fd: int, take: Take, gone: Lost) -> None:
    """Have the running loop hand over an open port's bytes as they come; `gone` once, when it has gone."""

    def readable() -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            gone(cause(error))
            return
        if data:
            take(data)
        else:
            gone("the port has gone")

    asyncio.get_running_loop().add_reader(fd, readable)
