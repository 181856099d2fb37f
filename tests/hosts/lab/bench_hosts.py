"""Hosts as a test sees them: on, off, broken, asked. The keeper process does it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hosts.lab.command import do
from hosts.lab.foreign import NATIVE
from hosts.lab.places import sets

#: One of each: whatever is done to all hosts is done to every flavour.
HOSTS = ("pi1:raspios", "pi2:debian", "pi3:hardened")
_KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class BenchHosts:
    """A running set of hosts. `bench` is its description, `key` the SSH key that lets in each host's user."""

    folder: Path

    @property
    def bench(self) -> Path:
        return self.folder / "bench.toml"

    @property
    def key(self) -> Path:
        return self.folder / "ssh_key"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.state())

    def state(self) -> dict[str, dict[str, object]]:
        """Per host: address, on, init (process id), hop (its meter's WebSocket), terminal."""
        return self._ask("state", "")

    def address(self, name: str) -> str:
        return str(self.state()[name]["address"])

    def off(self, name: str) -> None:
        """Cut its power at the meter. Its address answers nobody any more."""
        self._ask("off", name)

    def on(self, name: str) -> None:
        """Boot it and wait for its SSH server; nothing if it is on."""
        self._ask("on", name)

    def flash(self, name: str) -> None:
        """A new SD card: nothing is provisioned, host keys and machine id are others. It is booted."""
        self._ask("flash", name)

    def change_host_key(self, name: str) -> None:
        """Its SSH server shows another host key from now on."""
        self._ask("change host key", name)

    def fill_disk(self, name: str, leave_mib: int = 2) -> None:
        """Its card has so much room left; `empty_disk` gives the rest back."""
        script = (
            "sync -f /; "  # what was removed before is free once that is written
            "free=$(df --output=avail -k / | tail -1); "
            f"fallocate -l $((free - {leave_mib} * 1024))K /filler && sync -f /"
        )
        self.inside(name, script)

    def empty_disk(self, name: str) -> None:
        # Cut before it goes: other containers' copies of this card's mount may keep what was removed.
        self.inside(name, "test ! -e /filler || { truncate -s 0 /filler; rm /filler; }")

    def inside(self, name: str, script: str, timeout_s: float = 60.0) -> str:
        """What a shell script prints that root runs there, without SSH; RuntimeError when it fails."""
        there = self.state()[name]
        if not there["init"]:
            log = (self.folder / f"{name}.log").read_text(errors="replace")
            raise RuntimeError(f"{name} does not run (power: {there['on']}); it said at last:\n{log[-2000:]}")
        ended = subprocess.run(
            ["nsenter", "-t", str(there["init"]), "-a", "/bin/sh", "-ec", script],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if ended.returncode != 0:
            raise RuntimeError(f"{name}: {script}: exit {ended.returncode}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def ssh(self, name: str, command: str) -> list[str]:
        """The lines that a command of the host's user prints there over SSH; RuntimeError when it fails."""
        there = self.state()[name]
        options = (
            *("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"),
            *(f"Port={there['port']}", f"User={there['user']}", "ConnectTimeout=30"),
        )
        words = [word for option in options for word in ("-o", option)]
        return do("ssh", "-n", "-i", self.key, *words, there["address"], command).splitlines()

    def reboot(self, name: str, patience_s: float = 60.0) -> None:
        """`systemctl reboot` inside; returns when another init runs and its user gets in by SSH."""
        before = self.state()[name]["init"]
        self.inside(name, "systemctl reboot --no-block")
        deadline_s = time.monotonic() + patience_s
        while self.state()[name]["init"] in (before, 0) or not self._lets_in(name):
            assert time.monotonic() < deadline_s, f"{name} did not come back in {patience_s:.0f} s"
            time.sleep(0.1)
        self.settle(name)  # what still starts may start sshd again

    def settle(self, *names: str) -> None:
        """Wait until these hosts have started all they start at boot; without a name, all of them."""
        for name in names or self.names:
            self.inside(name, "systemctl is-system-running --wait || true", timeout_s=150.0)

    def down(self) -> None:
        """End the whole set."""
        self._ask("down", "")

    def _lets_in(self, name: str) -> bool:
        # A server that greets may still turn users away: of a system that boots, or while it starts again.
        try:
            return self.ssh(name, "echo in") == ["in"]
        except RuntimeError:
            return False

    def _ask(self, do: str, host: str) -> dict[str, dict[str, object]]:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(120.0)
            line.connect(str(self.folder / "ctl.sock"))
            with line.makefile("rw") as file:
                file.write(json.dumps({"do": do, "host": host}) + "\n")
                file.flush()
                answer = json.loads(file.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        hosts: dict[str, dict[str, object]] = answer["hosts"]
        return hosts


@contextmanager
def running_hosts(names: Sequence[str] = HOSTS, architecture: str = NATIVE) -> Iterator[BenchHosts]:
    """Hosts of one's own (NAME or NAME:FLAVOUR), booted from new cards; gone at the end, also when this
    process is killed."""
    command = [sys.executable, str(_KEEPER), "--until-eof", f"--architecture={architecture}", *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            yield BenchHosts(_folder(keeper.stdout.readline()))
        finally:
            keeper.stdin.close()
            keeper.wait(60.0)


def start_lasting(
    number: int | None, names: Sequence[str], log: Path, architecture: str = NATIVE
) -> BenchHosts:
    """Hosts that stay up when this process ends, until `down`."""
    chosen = [f"--set={number}"] if number is not None else []
    command = [sys.executable, str(_KEEPER), *chosen, f"--architecture={architecture}", *names]
    with log.open("wb") as errors:
        keeper = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    return BenchHosts(_folder(keeper.stdout.readline()))


def running_sets() -> dict[int, BenchHosts]:
    """The sets that somebody keeps now."""
    found = {}
    for folder in sorted(sets().iterdir()):
        hosts = BenchHosts(folder)
        try:
            hosts.state()
        except OSError:
            continue
        found[int(folder.name)] = hosts
    return found


def _folder(line: str) -> Path:
    told = json.loads(line) if line else {"error": "the keeper of the hosts ended without a word"}
    if "error" in told:
        raise RuntimeError(told["error"])
    return Path(told["folder"])
