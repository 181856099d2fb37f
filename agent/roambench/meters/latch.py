"""Keeps a board from resetting its own power meter again and again.

Opening a Smart Power 2's serial port can reset the meter: DTR and RTS of its USB bridge drive the chip's
reset and boot pins. A reset meter switches its output off, the Pi it feeds loses power, boots, starts the
agent, which opens the port. The latch breaks that loop: it lies on disk, is written and synced before the
port is opened, and remembers whether the boot lived through it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from roambench.contract.errors import MeterError

#: A board whose meter was reset is without power within a second.
SURVIVED_AFTER_S = 10.0


class PortLatch:
    """Lets `port` be opened once per boot, and never again after a boot that died of it."""

    def __init__(self, path: Path, port: str, boot_id: str | None = None) -> None:
        self._path = path
        self._port = port
        self._boot_id = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    @classmethod
    def default(cls, port: str) -> PortLatch:
        """In $STATE_DIRECTORY (systemd sets it), else /var/lib/roambench."""
        folder = Path(os.environ.get("STATE_DIRECTORY", "/var/lib/roambench").split(":")[0])
        return cls(folder / f"meter-opened{port.replace('/', '-')}.json", port)

    def take(self) -> None:
        """Call before opening; MeterError says why the port must stay closed and what a person can do."""
        boot_id, survived = self._read()
        advice = (
            f"check the meter's autorun setting, then remove {self._path} (or allow reopening for this meter)"
        )
        if boot_id == self._boot_id:
            raise MeterError(f"meter {self._port}: already opened once since this boot; {advice}")
        if boot_id and not survived:
            raise MeterError(
                f"meter {self._port}: when it was last opened the board lost power within"
                f" {SURVIVED_AFTER_S:g} s, perhaps because opening resets the meter; {advice}"
            )
        self._write(survived=False)

    def survived(self) -> None:
        """Call when the port has been open for `SURVIVED_AFTER_S`, or was closed in good order."""
        self._write(survived=True)

    def _read(self) -> tuple[str, bool]:
        try:
            values = json.loads(self._path.read_text())
            return str(values["boot_id"]), values["survived"] is True
        except FileNotFoundError:
            return "", True
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Half a latch is what a power cut while writing leaves behind.
            raise MeterError(
                f"meter {self._port}: latch {self._path} cannot be read ({error}); remove it"
            ) from None

    def _write(self, *, survived: bool) -> None:
        text = json.dumps({"boot_id": self._boot_id, "survived": survived})
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise MeterError(
                f"meter {self._port}: latch {self._path} cannot be written ({error.strerror})"
            ) from None
