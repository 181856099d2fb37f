"""Keeps a board from resetting its own power meter again and again.

Opening a Smart Power 2's serial port can reset the meter: DTR and RTS of its USB bridge drive the chip's
reset and boot pins. A reset meter switches its output off, the Pi it feeds loses power, boots, starts the
agent, which opens the port. The latch breaks that loop: it lies on disk, is written and synced before the
port is opened, and remembers what became of it. As long as a board lives in the boot in which it opened the
port, opening did it no harm, and it may do so again: after an agent's restart, after a cable's.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.json_values import from_file
from roambench.contract.whole_file import write_whole

#: A board whose meter was reset is without power within a second, and the meter's boot text takes about four.
SURVIVED_AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class _Opened:
    """The last opening of the port: in which boot, and what became of board and meter."""

    boot_id: str
    survived: bool
    restarted: bool = False


class PortLatch:
    """Lets `port` be opened until a boot has died of it, or the meter has booted because of it."""

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
        last = self._read()
        why = ""
        if last.restarted:
            why = "when it was last opened the meter restarted, which takes the power of the board behind it"
        elif not last.survived and last.boot_id != self._boot_id:
            why = (
                f"when it was last opened the board lost power within {SURVIVED_AFTER_S:g} s, perhaps because"
                " opening resets the meter"
            )
        if why:
            raise MeterError(
                f"meter {self._port}: {why}; check the meter's autorun setting, then remove {self._path}, or"
                " set the meter's reopen_allowed in the bench file"
            )
        self._write(survived=False)

    def survived(self) -> None:
        """Call when the port was open for `SURVIVED_AFTER_S`, was closed in good order, or did not open."""
        self._write(survived=True)

    def restarted(self) -> None:
        """Call when the meter boots within `SURVIVED_AFTER_S` of opening its port. The board that reads it
        may be another than the one that it feeds, and live on."""
        self._write(survived=True, restarted=True)

    def _read(self) -> _Opened:
        try:
            return from_file(_Opened, self._path) if self._path.exists() else _Opened("", survived=True)
        except (OSError, ConfigError) as error:
            # Half a latch is what a power cut while writing leaves behind.
            raise MeterError(
                f"meter {self._port}: latch {self._path} cannot be read ({error}); remove it"
            ) from None

    def _write(self, *, survived: bool, restarted: bool = False) -> None:
        text = json.dumps(asdict(_Opened(self._boot_id, survived, restarted)))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, text)
        except OSError as error:
            raise MeterError(
                f"meter {self._port}: latch {self._path} cannot be written ({error.strerror})"
            ) from None
