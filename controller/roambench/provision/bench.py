"""A bench as its description says it: the hosts, their meters, and whom they dial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from roambench.agent.settings import MeterSettings
from roambench.contract.errors import ConfigError
from roambench.meters.catalogue import traits_at
from roambench.meters.chips import CHIPS, chip_traits
from roambench.meters.ports import option_in, with_option
from roambench.meters.traits import MeterTraits
from roambench.spool.influx_settings import InfluxSettings
from roambench.written.mistakes import did_you_mean

#: The driver of a host without a meter.
NO_METER: Final = "none"
#: The driver of the kernel's power sensors.
HWMON: Final = "hwmon"
#: Who logs in where neither the bench description nor the user's SSH configuration says it.
DEFAULT_USER: Final = "pi"
#: The stable name that provisioning gives a host's own meter, in any USB port.
METER_LINK: Final = "/dev/roambench-meter"
#: That of another host's meter, with its name.
NEIGHBOUR_LINK: Final = METER_LINK + "-{}"
#: The reader of a meter that hangs on the machine that `roambench run` runs on.
CONTROLLER_READER: Final = "controller"


@dataclass(frozen=True, slots=True)
class ControllerEntry:
    """`address` is what the hosts dial; the ports are the same for every run."""

    address: str
    listen_host: str
    control_port: int
    data_port: int


@dataclass(frozen=True, slots=True)
class MeterEntry:
    """Calibrated watts = gain x reading + `offset_watts`. No `port`: the host has no meter.

    `emulated`: the host is a container; `port` names a pty or a TCP address that a program there feeds.
    `reopen_allowed`: a person has seen that opening the port resets nothing; the agent keeps no latch.
    `host`: the machine that reads it, "" for the board itself: CONTROLLER_READER or another host.
    `site`: what it sees, "" for the whole board. Of a kernel's sensor `i2c` is the chip that provisioning
    makes known to the kernel, as in "ina226@1-0040", `shunt_uohm` and `update_ms` what it sets (0: nothing).
    """

    driver: str
    port: str
    serial: str
    gain: float
    offset_watts: float
    wifi_hop: str
    emulated: bool
    reopen_allowed: bool = False
    site: str = ""
    i2c: str = ""
    shunt_uohm: int = 0
    update_ms: int = 0
    host: str = ""

    @property
    def is_read_here(self) -> bool:
        """True where the machine of the controller reads it."""
        return self.host == CONTROLLER_READER

    @property
    def settings(self) -> MeterSettings:
        """The meter as its reader takes it."""
        if self.driver == NO_METER:
            return MeterSettings(port="")
        port = self.port
        shunt = str(self.shunt_uohm) if self.shunt_uohm and self.driver == HWMON else ""
        options = {"serial": self.serial, "site": self.site, "shunt_uohm": shunt, "reader": self.host}
        for name, value in options.items():
            port = with_option(port, name, value)
        harmless = self.emulated or self.reopen_allowed
        return MeterSettings(self.driver, port, reopen_allowed=harmless, wifi_hop=self.wifi_hop)

    @property
    def _rails(self) -> list[str]:
        return self.port.partition("?")[0].split("+")

    @property
    def chip(self) -> str:
        """The chip that the inventory names for a kernel's sensor; "" where it names no known one for all
        rails."""
        named = [self.i2c.partition("@")[0]] if self.i2c else [rail.partition("/")[0] for rail in self._rails]
        chip = named[0] if len(set(named)) == 1 else ""
        return chip if self.driver == HWMON and chip in CHIPS else ""

    @property
    def traits(self) -> MeterTraits:
        """Traits as far as the inventory tells them: a kernel's sensor has those of its chip, if named."""
        row = traits_at(self.driver, self.settings.port)
        if not self.chip:
            return row
        chip = CHIPS[self.chip]
        update_s = self.update_ms * 1e-3 or chip.usual_update_s
        power = chip.power_factor > 0
        one = chip_traits(self.chip, self.shunt_uohm * 1e-6, row.nominal_s, update_s, power=power)
        rails = math.sqrt(len(self._rails))  # their offsets and steps add in squares
        return replace(one, u_offset_w=one.u_offset_w * rails, step_w=one.step_w * rails)

    @property
    def known_serial(self) -> str:
        """The serial number that the agent tells: the port's own where it has one."""
        return option_in(self.port, "serial") or self.serial


@dataclass(frozen=True, slots=True)
class CardEntry:
    """Settings of a host's SD card for its first boot, besides what the bench knows of the host anyway.

    No `ssid`: its network is a cable. No `subnet` (of IPv4 or IPv6): the router gives the address.
    """

    ssid: str = ""
    hidden: bool = False
    country: str = ""
    passphrase_file: Path | None = None
    subnet: str = ""
    gateway: str = ""
    dns: str = ""
    timezone: str = "Etc/UTC"


@dataclass(frozen=True, slots=True)
class PowerEntry:
    """The switch of a board: a name of `roambench list switches` and its keys, of that row's own class (None:
    a meter's, which has none)."""

    switch: str = "meter"
    keys: Any = None


@dataclass(frozen=True, slots=True)
class Host:
    """`name` is the device's and its certificate's; `slot` its place in the bench, from 1.

    `ssh_user` and `ssh_port`: None leaves them to the user's SSH configuration (`ssh_options`).
    `machine_id` is what a spare says that it is, which plays a board that died ("": it is itself).
    """

    name: str
    address: str
    ssh_user: str | None
    ssh_port: int | None
    ssh_key: Path | None
    slot: int
    meter: MeterEntry
    interface: str
    tags: tuple[str, ...]
    machine_id: str = ""
    card: CardEntry = CardEntry()
    power: PowerEntry = PowerEntry()

    @property
    def reader(self) -> str:
        """The machine that reads its meter: its own name (also of a host without one), another host's, or
        CONTROLLER_READER."""
        return self.name if self.meter.driver == NO_METER else self.meter.host or self.name

    def is_called(self, word: str) -> bool:
        """Return whether a name or a tag of this host is `word`, or matches it as a pattern (`pi-0*`)."""
        return any(word == name or fnmatchcase(name, word) for name in (self.name, *self.tags))

    def is_chosen(self, words: Sequence[str]) -> bool:
        """Return whether `--only` with these words, which `Bench.only` describes, has this host."""
        named, out = chosen_words(words)
        return (not named or any(map(self.is_called, named))) and not any(map(self.is_called, out))


@dataclass(frozen=True, slots=True)
class Bench:
    """`state_dir` holds what the bench itself records: authority, host keys, lease, meter map, wheels.
    `stand_ins` are the boards that spares play, by the spare's name, which is no host's then."""

    name: str
    file: Path
    hosts: tuple[Host, ...]
    controller: ControllerEntry
    influxdb: InfluxSettings | None
    time_server: str
    state_dir: Path
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files and folders that only the bench's own commands may read: keys, tokens and passwords."""
        found = [Path(self.influxdb.token_file)] if self.influxdb and self.influxdb.token_file else []
        for host in self.hosts:
            found += [file for file in (host.ssh_key, host.card.passphrase_file) if file is not None]
            keys = host.power.keys or ()
            found += [Path(value) for name, value in keys if name.endswith("_file") and value]
        return (self.state_dir, *dict.fromkeys(found))

    def host(self, name: str) -> Host:
        """ConfigError for an unknown name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise ConfigError([f"{self.file.name}: no host is called {name!r}"])

    def read_by(self, reader: Host) -> tuple[Host, ...]:
        """The other hosts whose meters hang on `reader`."""
        return tuple(host for host in self.hosts if host.reader == reader.name and host.name != reader.name)

    def only(self, words: Sequence[str], limit: int | None = None) -> tuple[Host, ...]:
        """The hosts that any of `words` means, all where none but exclusions are there; at most `limit`.

        A word is a name or a tag, a pattern of them (`pi-0*`), or several of these with commas between; with
        `!` before it, its hosts are left out. ConfigError names all words that mean no host.
        """
        named, out = chosen_words(words)
        strangers = [word for word in (*named, *out) if not any(host.is_called(word) for host in self.hosts)]
        if strangers:
            tags = sorted({tag for host in self.hosts for tag in host.tags})
            known = [*(host.name for host in self.hosts), *tags]
            raise ConfigError(
                [
                    f"--only {word}: it plays {self.stand_ins[word]}: name that (roambench fleet replace)"
                    if word in self.stand_ins
                    else f"--only {word}: no host and no tag of {self.file.name} is called so"
                    f"{did_you_mean(word, known)}" + (f" (tags: {', '.join(tags)})" if tags else "")
                    for word in dict.fromkeys(strangers)
                ]
            )
        chosen = [host for host in self.hosts if host.is_chosen(words)]
        if not chosen:
            raise ConfigError([f"--only {','.join(words)}: leaves no host of {self.file.name}"])
        return tuple(chosen[:limit])


def chosen_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the single words of `--only`: those that name hosts, and those that leave hosts out."""
    singles = [word.strip() for some in words for word in some.split(",")]
    out = [word.removeprefix("!") for word in singles if word.startswith("!")]
    return [word for word in singles if not word.startswith("!")], out
