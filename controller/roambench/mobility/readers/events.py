"""Rows that say who came to which access point when, but not until when: stays until the device's next."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.readers.overlaps import Coded, IntervalCollector, Ints, numbered

_OFF: Final = "off"


def is_off(ap: str) -> bool:
    """Whether the name stands for having left, and for no access point."""
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
        """What is added from now on is of this file."""
        self._files.append(file)

    def add(self, device: str, ap: str, second: int, line: int) -> None:
        """One event; both ids are checked."""
        self._second.append(second)
        self._device.append(self._devices.setdefault(device, len(self._devices)))
        self._ap.append(self._aps.setdefault(ap, len(self._aps)))
        self._line.append(line)
        self._file.append(len(self._files) - 1)

    def add_columns(self, devices: Coded, aps: Coded, seconds: Ints, first_line: int) -> None:
        """Events of the lines from `first_line` on, one each."""
        self._device.frombytes(numbered(devices, self._devices).tobytes())
        self._ap.frombytes(numbered(aps, self._aps).tobytes())
        self._second.frombytes(seconds.astype(np.int64).tobytes())
        self._line.frombytes((first_line + np.arange(len(seconds), dtype=np.int64)).tobytes())
        self._file.frombytes(np.full(len(seconds), len(self._files) - 1, np.int32).tobytes())

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
        sound = ~off & stays.possible(second, end)
        stays.add_columns(_coded(devices, device[sound]), _coded(aps, ap[sound]), second[sound], end[sound])
        for row in np.flatnonzero(~off & ~sound).tolist():
            try:
                stays.add(devices[device[row]], aps[ap[row]], int(second[row]), int(end[row]))
            except ValueError as error:
                stays.account.reject(int(line[row]), str(error), self._files[file[row]])


def _coded(names: tuple[str, ...], codes: npt.NDArray[np.int32]) -> Coded:
    """Only the names that the codes use, in the order in which they come first."""
    used, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(used), np.int32)
    rank[np.argsort(first)] = np.arange(len(used), dtype=np.int32)
    ordered = used[np.argsort(first)].tolist()
    return [names[code] for code in ordered], rank[inverse]
