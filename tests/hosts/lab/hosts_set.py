"""A set of hosts: bridge, meters, containers, and the bench description that names them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from hosts.lab import bench_file, image
from hosts.lab.command import attempt, do
from hosts.lab.container import Container, Trait
from hosts.lab.control_groups import ControlGroup
from hosts.lab.foreign import NATIVE
from hosts.lab.meters import Meters
from hosts.lab.network import Network
from hosts.lab.places import sets


class HostsSet:
    """Set `number`: hosts by name with their flavours and traits, of Debian's `architecture`. Only its owner
    (who holds the folder's lock) may use this."""

    def __init__(
        self,
        number: int,
        flavours: Mapping[str, str],
        architecture: str = NATIVE,
        traits: Mapping[str, Collection[Trait]] = MappingProxyType({}),
    ) -> None:
        self.folder = sets() / str(number)
        self.network = Network(number)
        self.meters = Meters(self.folder, self.network, tuple(flavours))
        self._flavours = dict(flavours)
        self._architecture = architecture
        self._traits = {name: traits.get(name, ()) for name in flavours}
        self._hosts: dict[str, Container] = {}
        self._unplugged: set[str] = set()

    @property
    def bench(self) -> Path:
        return self.folder / "bench.toml"

    def start(self) -> None:
        """Everything afresh: new cards, new keys, all hosts booted."""
        roots = image.roots(self._architecture, self._flavours.values())
        clean(self.network.number)
        key = self.folder / "ssh_key"
        do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "roambench test hosts", "-f", key)
        slow = [index for index, name in enumerate(self._flavours) if Trait.SLOW_LINK in self._traits[name]]
        self.network.build(len(self._flavours), slow)
        self.meters.start()
        public = key.with_suffix(".pub").read_text()
        for index, (name, flavour) in enumerate(self._flavours.items()):
            image_of = roots[flavour]
            where = (name, index, self.network, self.folder, image_of, public, flavour)
            host = Container(*where, self._architecture, self._traits[name])
            self._hosts[name] = host
            host.flash()
            host.start(self.meters.plugged_in(name))
        for host in self._hosts.values():
            host.wait()
        self.bench.write_text(bench_file.text(self.network, tuple(self._hosts.values()), self.meters, key))

    def stop(self) -> None:
        """All of it is gone; the folder keeps the logs."""
        for host in self._hosts.values():
            with contextlib.suppress(RuntimeError):
                host.cut()
        self.meters.stop()
        self.network.remove()
        clean(self.network.number, keep_logs=True)

    def state(self) -> dict[str, dict[str, object]]:
        return {
            name: {
                "address": host.address,
                "user": host.user,
                "port": host.port,
                "on": host.on,
                "init": host.init,
                "hop": self.meters.hop(name),
                "terminal": str(self.meters.terminal(name)),
            }
            for name, host in self._hosts.items()
        }

    def power_off(self, name: str) -> None:
        self.meters.switch(name, on=False)
        self._unplugged.add(name)
        self._host(name).cut()

    def power_on(self, name: str) -> None:
        """Boots the host and waits for its SSH server, whatever had ended it."""
        host = self._host(name)
        if name in self._unplugged:
            self.meters.switch(name, on=True)
            self._unplugged.discard(name)
        if not host.on:
            host.cut()  # it may have powered itself off
        host.start(self.meters.plugged_in(name))
        host.wait()

    def flash(self, name: str) -> None:
        """The host with a new card: nothing provisioned, other SSH host keys, another machine id."""
        self._host(name).cut()
        self._host(name).flash()
        self.power_on(name)

    def change_host_key(self, name: str) -> None:
        """The host answers with other SSH keys from now on."""
        host = self._host(name)
        host.renew_host_keys()
        do("nsenter", "-t", host.init, "-a", "systemctl", "restart", "ssh")
        host.wait()

    def look(self) -> None:
        """Several times a second: meters follow their hosts, and hosts their meters' outputs."""
        for name, host in self._hosts.items():
            dark = self.meters.is_dark(name)
            if dark and name not in self._unplugged:
                self._unplugged.add(name)
                host.cut()
            elif not dark and name in self._unplugged:
                self._unplugged.discard(name)
                host.start(self.meters.plugged_in(name))
            host.start_again(self.meters.plugged_in(name))
            if host.on:
                self.meters.follow(host)

    def _host(self, name: str) -> Container:
        if name not in self._hosts:
            raise RuntimeError(f"no host {name!r}: expected one of {', '.join(self._hosts)}")
        return self._hosts[name]


def clean(number: int, *, keep_logs: bool = False) -> None:
    """Whatever an owner left, also one that was killed: processes, mounts, network, cards."""
    folder = sets() / str(number)
    ControlGroup(str(number)).kill()
    mounted = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed(mounted):
        if folder in place.parents:
            attempt("umount", "--lazy", place)
    Network(number).remove()
    for left in folder.iterdir():
        if left.name == "lock" or (keep_logs and left.suffix == ".log"):
            continue
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
