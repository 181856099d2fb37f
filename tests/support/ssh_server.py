"""A real sshd on loopback, for tests of what speaks SSH: its own keys and its own port, no system settings.

Where provisioning puts things on a host (`roambench.provision.layout`) is below the server's `root` instead:
every command has its paths rewritten as it comes in.

It needs root (sshd changes users). Without root or the binary these tests are skipped; where CI is set
they fail.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from benches import bench_of
from roambench.provision.agent_asks import AGENT
from roambench.provision.bench import Bench
from soaking.influxd import free_port

_PATIENCE_S = 10.0
_CONFIG = """
Port {port}
ListenAddress {address}
HostKey {folder}/{host_key}
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
SetEnv HOME={folder}
ForceCommand {folder}/below-root
"""
#: Runs a command as it came, but for where it looks for what is the host's.
_BELOW_ROOT = """#!/bin/sh
line=$(printf '%s' "$SSH_ORIGINAL_COMMAND" | sed -E 's#(/opt|/etc|/var/lib|/run)/roambench#{root}&#g')
PATH={bin}:$PATH exec "$SHELL" -c "$line"
"""


@dataclass(slots=True)
class SshServer:
    """Root may log in with `client_key`; `start` again with another host key to stand for another machine."""

    folder: Path
    port: int
    address: str = "127.0.0.1"
    #: What starts it elsewhere: in another network namespace.
    before: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def client_key(self) -> Path:
        return self.folder / "client"

    @property
    def programs(self) -> Path:
        """Programs that come before the host's own."""
        return self.folder / "bin"

    @property
    def root(self) -> Path:
        """What stands for / where the host has its agent, its settings and its state."""
        return self.folder / "root"

    def bench(self, folder: Path, more: str = "") -> Bench:
        """A bench of this one host, whose table also has the lines `more`."""
        login = f'ssh_user = "root"\nssh_port = {self.port}\nssh_key = "{self.client_key}"\n'
        host = '[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nmeter.driver = "none"\n'
        return bench_of(folder, f"{host}{login}{more}")

    def install_agent(self, script: str) -> None:
        """A shell script in the place of the agent's command; it is told `ctl` and what is asked."""
        agent = self.root / AGENT.lstrip("/")
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_text(f"#!/bin/sh\n{script}\n")
        agent.chmod(0o755)

    def start(self, host_key: str = "host") -> None:
        if not (self.folder / host_key).exists():
            make_key(self.folder / host_key)
        config = self.folder / "sshd_config"
        settings = {"address": self.address, "port": self.port, "folder": self.folder, "host_key": host_key}
        config.write_text(_CONFIG.format(**settings))
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd insists to shut its unprivileged part in
        log = self.folder / "sshd.log"
        self.process = subprocess.Popen([*self.before, _sshd(), "-D", "-f", str(config), "-E", str(log)])
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), socket.create_connection((self.address, self.port)):
                return
            time.sleep(0.02)
        raise AssertionError(f"sshd does not listen: {log.read_text()}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(_PATIENCE_S)
            self.process = None


@contextmanager
def ssh_server(folder: Path, address: str = "127.0.0.1", before: tuple[str, ...] = ()) -> Iterator[SshServer]:
    """A running server whose files are in `folder`; it listens on `address`."""
    _sshd()
    if os.geteuid() != 0:
        _missing("a real sshd needs root")
    server = SshServer(folder, free_port(), address, before)
    make_key(server.client_key)
    (folder / "authorized_keys").write_bytes(server.client_key.with_suffix(".pub").read_bytes())
    below_root = folder / "below-root"
    below_root.write_text(_BELOW_ROOT.format(root=server.root, bin=server.programs))
    below_root.chmod(0o755)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def make_key(path: Path) -> None:
    """A key pair without a passphrase: `path`, and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _sshd() -> str:
    found = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if found is None:
        _missing("sshd is not installed: sudo apt-get install openssh-server (or make servers)")
    return str(found)


def _missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
