"""A bridge on this machine, and for every host a network namespace with its end of a veth.

The namespace outlives the host's boots: nspawn's own veth would be gone, with its address, at a reboot.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from hosts.lab.command import attempt, do

INTERFACE = "eth0"
_SLOW_LINK = Path(__file__).with_name("slow_link.py")


@dataclass(frozen=True, slots=True)
class Network:
    """The network of set `number`: 10.213.NUMBER.0/24; this machine is .1 in it."""

    number: int
    links: list[subprocess.Popen[str]] = field(default_factory=list, compare=False, repr=False)

    @property
    def bridge(self) -> str:
        return f"rbh{self.number}"

    @property
    def machine(self) -> str:
        return f"10.213.{self.number}.1"

    def address(self, index: int) -> str:
        return f"10.213.{self.number}.{11 + index}"

    def namespace(self, index: int) -> str:
        return f"{self.bridge}-{index}"

    def port(self, index: int) -> str:
        """This machine's end of the host's cable."""
        return f"{self.bridge}p{index}"

    def build(self, hosts: int, slow: Container[int] = ()) -> None:
        """Cables for so many hosts; those of `slow` are slow ones, as long as this process lives."""
        do("ip", "link", "add", self.bridge, "type", "bridge")
        do("ip", "address", "add", f"{self.machine}/24", "dev", self.bridge)
        do("ip", "link", "set", self.bridge, "up")
        for index in range(hosts):
            self.lay_cable(index, slow=index in slow)
            do(
                "ip",
                "-n",
                self.namespace(index),
                "address",
                "add",
                f"{self.address(index)}/24",
                "dev",
                INTERFACE,
            )

    def lay_cable(self, index: int, *, slow: bool = False) -> None:
        """A host's namespace with its end of a cable, which has no address yet."""
        name, port = self.namespace(index), self.port(index)
        do("ip", "netns", "add", name)
        if slow:
            link = subprocess.Popen(
                [sys.executable, str(_SLOW_LINK), port, name, INTERFACE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert link.stdout is not None
            assert link.stdout.readline() == "joined\n", f"{port}: no slow link"
            self.links.append(link)
        else:
            do("ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", name)
        do("ip", "link", "set", self.port(index), "master", self.bridge, "up")
        do("ip", "-n", name, "link", "set", "lo", "up")

    def plug(self, index: int, *, into: bool) -> None:
        """A host without power answers nobody: its end of the cable is down."""
        do("ip", "-n", self.namespace(index), "link", "set", INTERFACE, "up" if into else "down")

    def remove(self) -> None:
        """Whatever there is of it; a namespace takes its veth along."""
        for line in do("ip", "netns", "list").splitlines():
            name = line.split()[0]
            if name.startswith(f"{self.bridge}-"):
                attempt("ip", "netns", "delete", name)
        attempt("ip", "link", "delete", self.bridge)
        while self.links:
            with self.links.pop() as link:
                assert link.stdin is not None
                link.stdin.close()
