"""A kernel's power sensor as its driver shows it: a folder of attributes, behind a link `device`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from roambench.contract.errors import MeterError

#: The bus address of the chip.
DEVICE: Final = "1-0040"


class SysfsFolder:
    """The chip at `root`/hwmon0; readers find `root` as they find /sys/class/hwmon.

    An attribute is replaced whole: a reader sees the old value or the new one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._chip = root / "hwmon0"
        self._values = dict[str, str]()
        try:
            (root / "i2c" / DEVICE).mkdir(parents=True, exist_ok=True)
            self._chip.mkdir(exist_ok=True)
            (self._chip / "device").unlink(missing_ok=True)
            (self._chip / "device").symlink_to(f"../i2c/{DEVICE}")
        except OSError as error:
            raise MeterError(f"meter folder {root}: cannot be made ({error.strerror})") from None

    def write(self, data: bytes) -> None:
        """Set the attributes of `data`, a line `NAME VALUE` for each."""
        for line in data.decode().splitlines():
            name, _, value = line.partition(" ")
            if self._values.get(name) != value:
                self._values[name] = value
                draft = self._root / f".{name}"
                draft.write_text(f"{value}\n", "ascii")
                draft.replace(self._chip / name)

    def close(self) -> None:
        """The driver is unbound: the attributes are gone."""
        shutil.rmtree(self._chip, ignore_errors=True)
