"""The hosts' power meters: one emulator process beside them, as real meters stand beside their boards.

Each meter's pseudo-terminal is bound into its host, its WebSocket is a port on this machine (the way that a
gateway to its Wi-Fi would give). What a host computes and sends moves its own meter, whoever makes it
compute; switching a meter's output off takes the host's power away.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hosts.lab.container import Container
from hosts.lab.network import Network
from roambench.emulation.electric.power import Activity
from roambench.emulation.feed import WorkFeed
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.meters.power_switch import Unavailable, power_switch

#: The group that may read serial ports, the same number on every Debian.
DIALOUT = 20
#: Meters of hosts with such names are not as the data sheet says.
_ODD: dict[str, dict[str, Any]] = {
    "slow": {"ppm": 40_000.0},
    "wide": {"window_ms": 1055.0},
    "late": {"held_ms": 400.0},
}
_REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(slots=True)
class _Look:
    """What a host had used when it was last looked at."""

    at_s: float
    cpu_s: float
    sent: int
    received: int


class Meters:
    """The meters of `names`, from `start` to `stop`."""

    def __init__(self, folder: Path, network: Network, names: Sequence[str]) -> None:
        self._folder = folder / "meters"
        self._network = network
        self._names = tuple(names)
        self._feeds: dict[str, WorkFeed] = {}
        self._looks: dict[str, _Look] = {}
        self._read_to: dict[str, int] = {}
        self._dark: dict[str, bool] = dict.fromkeys(names, False)
        self._process: subprocess.Popen[str] | None = None

    def terminal(self, name: str) -> Path:
        return self._folder / f"{name}.tty"

    def plugged_in(self, name: str) -> Path | None:
        """The terminal as its host may read it, None while its cable is out: who plugs it in again makes
        another terminal, which is root's alone."""
        try:
            terminal = self.terminal(name).resolve(strict=True)
            os.chown(terminal, 0, DIALOUT)
            terminal.chmod(0o660)
        except FileNotFoundError:
            return None
        return terminal

    def hop(self, name: str) -> str:
        """HOST:PORT of the meter's WebSocket."""
        return f"127.0.0.1:{24_600 + 20 * self._network.number + self._names.index(name)}"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        spec = EmulatorSpec(
            devices=tuple(
                EmulatedDevice(
                    name=name,
                    link_path=str(self.terminal(name)),
                    websocket_port=int(self.hop(name).rpartition(":")[2]),
                    board_boot_s=2.0,
                    **_ODD.get(name, {}),
                )
                for name in self._names
            ),
            socket_path=str(self._folder / "work.sock"),
            truth_dir=str(self._folder),
            tolerance=0.0,
        )
        file = self._folder / "spec.json"
        file.write_text(spec.to_json())
        with (self._folder / "emulator.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roambench.emulation", "--until-eof", str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_REPOSITORY,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        json.loads(self._process.stdout.readline() or '"the emulator did not start: see meters/emulator.log"')
        for name in self._names:
            self._feeds[name] = WorkFeed(self._folder / "work.sock", name)

    def stop(self) -> None:
        for feed in self._feeds.values():
            feed.close()
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(10.0)
            self._process.stdout.close()

    def switch(self, name: str, *, on: bool) -> None:
        """As a hand on the meter's button would."""
        switch = power_switch("smartpower2", "/dev/null", self.hop(name))
        assert not isinstance(switch, Unavailable)
        asyncio.run(switch.on() if on else switch.off())

    def is_dark(self, name: str) -> bool:
        """Whether the meter's output is off, whoever switched it."""
        with (self._folder / f"{name}.csv").open("rb") as truth:
            truth.seek(self._read_to.get(name, 0))
            lines = truth.read()
        end = lines.rfind(b"\n") + 1
        self._read_to[name] = self._read_to.get(name, 0) + end
        for line in lines[:end].splitlines():
            watts = line.split(b",")[1]
            if watts and watts != b"watts":
                self._dark[name] = float(watts) == 0.0
        return self._dark[name]

    def follow(self, host: Container) -> None:
        """Let the host's meter show what the host has done since it was last looked at."""
        now = _Look(time.monotonic(), host.group.cpu_s(), *self._bytes(host.index))
        then = self._looks.get(host.name)
        self._looks[host.name] = now
        if then is None or now.cpu_s < then.cpu_s or now.at_s - then.at_s < 0.1:
            return
        passed_s = now.at_s - then.at_s
        share = (now.cpu_s - then.cpu_s) / passed_s
        activity = Activity(
            # A busy machine gives its hosts less than they want; their boards would not.
            busy_cores=max(round(share, 2), float(host.group.busy_threads())),
            tx_mbit_s=_mbit_s(now.sent - then.sent, passed_s),
            rx_mbit_s=_mbit_s(now.received - then.received, passed_s),
        )
        self._feeds[host.name].send(activity, time.monotonic_ns())

    def _bytes(self, index: int) -> tuple[int, int]:
        """Sent and received by the host: the other way round at our end of its cable."""
        statistics = Path(f"/sys/class/net/{self._network.port(index)}/statistics")
        return int((statistics / "rx_bytes").read_text()), int((statistics / "tx_bytes").read_text())


def _mbit_s(moved: int, passed_s: float) -> float:
    """0 for the trickle that idle hosts exchange: it is no transfer."""
    mbit_s = moved * 8e-6 / passed_s
    return round(mbit_s, 2) if mbit_s > 0.05 else 0.0
