"""One host: Debian booted by systemd-nspawn, with its own init, SSH server, address and disk."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
import uuid
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from hosts.lab.card import Card
from hosts.lab.command import do
from hosts.lab.control_groups import ControlGroup
from hosts.lab.foreign import NATIVE, environment, times_slower
from hosts.lab.network import Network
from hosts.lab.recipe import FLAVOURS

_BOOT_PATIENCE_S = 60.0
#: What nspawn exits with when its host asked for a reboot.
_REBOOT_STATUS = 133
#: The device that the host's serial meter is there.
METER_DEVICE = "/dev/ttyMETER"
SMALL_HOME_MIB = 8


class Trait(StrEnum):
    """In what a host differs from its flavour, as owners' hosts do."""

    SMALL_HOME = "small-home"  # /home is a partition of its own, of 8 MiB
    MISSING_LOCALE = "missing-locale"  # its locale is one that it does not have
    SLOW_LINK = "slow-link"  # 2 Mbit/s and 100 ms between it and everybody


class Container:
    """Host `index` of a set. Power it on and off as often as you like; its card keeps what was written."""

    def __init__(
        self,
        name: str,
        index: int,
        network: Network,
        folder: Path,
        image: Path,
        public_key: str,
        flavour: str,
        architecture: str = NATIVE,
        traits: Collection[str] = (),
    ) -> None:
        self.name = name
        self.index = index
        self.address = network.address(index)
        self.user, self.port = FLAVOURS[flavour].user, FLAVOURS[flavour].port
        self.group = ControlGroup(f"{network.number}/{name}")
        self.card = Card(folder / "cards" / name, image, SMALL_HOME_MIB if Trait.SMALL_HOME in traits else 0)
        self._traits = traits
        self._network = network
        self._log = folder / f"{name}.log"
        self._public_key = public_key
        self._architecture = architecture
        self._process: subprocess.Popen[bytes] | None = None

    def flash(self) -> None:
        """A new card as Raspberry Pi Imager writes it: name, user's key, and keys of its own."""
        self.card.flash()
        self.card.insert()
        try:
            root = self.card.mounted
            (root / "etc/hostname").write_text(f"{self.name}\n")
            (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n")
            (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
            if Trait.MISSING_LOCALE in self._traits:
                (root / "etc/default/locale").write_text("LANG=tr_TR.UTF-8\nLC_ALL=tr_TR.UTF-8\n")
            self.renew_host_keys()
            ssh = root / f"home/{self.user}/.ssh"
            ssh.mkdir(mode=0o700)
            (ssh / "authorized_keys").write_text(self._public_key)
            do("chroot", root, "chown", "-R", f"{self.user}:{self.user}", f"/home/{self.user}/.ssh")
        finally:
            self.card.pull()

    def renew_host_keys(self) -> None:
        """Other SSH host keys (of the mounted card)."""
        for old in (self.card.mounted / "etc/ssh").glob("ssh_host_*"):
            old.unlink()
        do("chroot", self.card.mounted, "ssh-keygen", "-q", "-A")

    @property
    def on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def init(self) -> int:
        """Process id of the host's init as this machine sees it, another after every boot; 0 without."""
        if self._process is None:
            return 0
        try:
            children = (
                Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            )
        except OSError:
            return 0
        return int(children[0]) if children else 0

    def start(self, meter: Path | None) -> None:
        """Power on; nobody waits for the boot (`wait`)."""
        if self.on:
            return
        self.group.make()
        self.card.insert()
        self._network.plug(self.index, into=True)
        self._boot(meter)

    def start_again(self, meter: Path | None) -> None:
        """Boot it if it asked for a reboot: nspawn leaves that to whoever started it."""
        if self._process is not None and self._process.poll() == _REBOOT_STATUS:
            self._boot(meter)

    def more_words(self) -> list[str]:
        """What a kind of host adds to nspawn's words: options, and after them the kernel's command line."""
        return []

    def _boot(self, meter: Path | None) -> None:
        words = [
            *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit"),
            *(
                "-D",
                self.card.mounted,
                "-M",
                f"{self._network.bridge}-{self.name}",
                f"--hostname={self.name}",
            ),
            f"--network-namespace-path=/run/netns/{self._network.namespace(self.index)}",
            *(f"--setenv={name}={value}" for name, value in environment(self._architecture).items()),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
            *([f"--bind={meter.resolve()}:{METER_DEVICE}"] if meter is not None else []),
            *self.more_words(),
        ]
        # nspawn makes its groups below the one that it is started in.
        enter = " && ".join(f"echo $$ > {door}" for door in self.group.doors)
        line = f"{enter} && exec {shlex.join(map(str, words))}"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, patience_s: float = _BOOT_PATIENCE_S) -> None:
        """Until its SSH server says who it is and users may log in: a booting system refuses them."""
        deadline_s = time.monotonic() + patience_s * times_slower(self._architecture)
        while not self._answers() or Path(f"/proc/{self.init}/root/run/nologin").exists():
            if not self.on or time.monotonic() > deadline_s:
                raise RuntimeError(
                    f"{self.name} did not boot:\n{self._log.read_text(errors='replace')[-4000:]}"
                )
            time.sleep(0.05)

    def cut(self) -> None:
        """No power from one moment to the next: every process is killed, the cable is dead.

        What had been written is on the card: the page cache is this machine's, and that lives on.
        """
        self._network.plug(self.index, into=False)
        was_on = self._process is not None
        if self._process is not None:
            self._process.kill()
        self.group.kill()
        if self._process is not None:
            self._process.wait()
            self._process = None
        if was_on:
            self.card.pull()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=1.0) as line:
                return line.recv(4) == b"SSH-"
        except OSError:
            return False
