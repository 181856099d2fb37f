"""A machine that runs the controller: Debian booted by systemd-nspawn, with this checkout and its Python."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

from hosts.lab import image
from hosts.lab.card import Card
from hosts.lab.command import do
from hosts.lab.control_groups import ControlGroup

_PATIENCE_S = 120.0
#: What nspawn exits with when its machine asked for a reboot.
_REBOOT_STATUS = 133
_CHECKOUT = Path(__file__).resolve().parents[3]


class Server:
    """It keeps what was written over boots and cut power; without a network. With every boot it has another
    boot id, and its clocks but the wall's begin anew."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._log = folder / "console.log"
        self._group = ControlGroup(f"server-{folder.stat().st_ino}")
        self._card = Card(folder / "card", image.root())
        self._process: subprocess.Popen[bytes] | None = None
        self._card.flash()

    @property
    def root(self) -> Path:
        """Its files, while it has power."""
        return self._card.mounted

    def on(self) -> None:
        """Power: it boots. Back when systemd answers."""
        self._group.make()
        self._card.insert()
        self._boot()

    def cut(self) -> None:
        """No power from one moment to the next. What had been written is on the card: the page cache is this
        machine's, and that lives on."""
        self._group.kill()
        if self._process is not None:
            self._process.wait()
            self._process = None
            self._card.pull()

    def reboot(self) -> None:
        """As `systemctl reboot` does: services are stopped in good order."""
        assert self._process is not None
        self.inside("systemctl reboot --no-block")
        assert self._process.wait(_PATIENCE_S) == _REBOOT_STATUS, self._told()
        self._boot()

    def inside(self, script: str) -> str:
        """What a shell script prints that root runs there; RuntimeError when it fails."""
        return do("nsenter", "-t", self._init(), "-a", "/bin/sh", "-ec", script)

    def _boot(self) -> None:
        binds = dict.fromkeys((_CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)))
        up_s = int(time.monotonic()) - 1
        words = [
            *("unshare", "--time", f"--monotonic=-{up_s}", f"--boottime=-{up_s}"),
            *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"),
            *("-D", self.root, "-M", "roambench-server", "--link-journal=no", "--console=pipe"),
            *(f"--bind-ro={path}" for path in binds),
        ]
        enter = " && ".join(f"echo $$ > {door}" for door in self._group.doors)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"{enter} && exec {shlex.join(map(str, words))}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self._told()
            assert time.monotonic() < deadline_s, self._told()
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.inside("systemctl list-jobs")
        except RuntimeError:
            return False
        return True

    def _init(self) -> str:
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            raise RuntimeError("no init yet")
        return children[0]

    def _told(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
