"""Events of a device that comes to an access point: each is a stay until the device's next event."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from roambench.mobility.readers.overlaps import IntervalCollector, Ints, coded, in_order, numbered, possible
from roambench.mobility.readers.rows import Rows, Texts

_OFF: Final = "off"


def is_off(ap: str) -> bool:
    """Tell if the name stands for having left, and for no access point."""
    return ap.lower() == _OFF


class EventColumns:
    """Grows columns of (device, access point, second, file, line), file after file."""

    def __init__(self) -> None:
        self._devices: dict[str, int] = {}
        self._aps: dict[str, int] = {}
        self._device, self._ap = array("i"), array("i")
        self._second, self._line = array("q"), array("q")
        self._file = array("i")
        self._files: list[str] = []

    def begin(self, file: str) -> None:
        """Take what follows as rows of this file."""
        self._files.append(file)

    def add_rows(self, rows: Rows, device: Texts | str, ap: Texts | str, seconds: Ints) -> None:
        """The events of all sound rows."""
        sound = rows.sound()
        self._device.frombytes(numbered(coded(device, sound), self._devices).tobytes())
        self._ap.frombytes(numbered(coded(ap, sound), self._aps).tobytes())
        self._second.frombytes(seconds[sound].tobytes())
        self._line.frombytes(rows.line[sound].tobytes())
        self._file.frombytes(np.full(len(sound), len(self._files) - 1, np.int32).tobytes())

    def close(self, stays: IntervalCollector) -> None:
        """Every event as the stay until the device's next; the last of a device lasts to the last of all."""
        second, line = np.array(self._second, np.int64), np.array(self._line, np.int64)
        if not len(second):
            return
        devices, aps = tuple(self._devices), tuple(self._aps)
        by_name = np.empty(len(devices), np.int64)
        by_name[sorted(range(len(devices)), key=devices.__getitem__)] = np.arange(len(devices))
        device, ap = np.array(self._device, np.int32), np.array(self._ap, np.int32)
        file = np.array(self._file, np.int32)
        order = np.lexsort((line, file, second, by_name[device]))
        device, ap, file = device[order], ap[order], file[order]
        second, line = second[order], line[order]
        goes_on = np.append(device[1:] == device[:-1], False)
        end = np.where(goes_on, np.append(second[1:], 0), second.max())
        off = np.array([is_off(name) for name in aps])[ap]
        for _ in range(int(off.sum())):
            stays.account.leave_out("devices switched off")
        sound = ~off & possible(second, end)
        stays.add_columns(
            in_order(devices, device[sound]), in_order(aps, ap[sound]), second[sound], end[sound]
        )
        for row in np.flatnonzero(~off & ~sound).tolist():
            try:
                stays.add(devices[device[row]], aps[ap[row]], int(second[row]), int(end[row]))
            except ValueError as error:
                stays.account.reject(int(line[row]), str(error), self._files[file[row]])
