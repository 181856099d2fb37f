"""Ports of USB hubs that switch each port's power, by uhubctl, on this machine or on another over SSH.

Facts: https://github.com/mvp/uhubctl (README: compatible hubs, udev rules, the Raspberry Pi's own hubs).
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from pydantic import Field

from roambench.extras.power.programs import run_program
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.provision.power.switch import SwitchError, SwitchRow, contradicted, short
from roambench.written.toml_file import Section

_PATIENCE_S: Final = 20.0
_CONNECT_S: Final = 5
_HUB: Final = re.compile(r"(?:Current|New) status for hub (\S+) \[(.*)\]")
_PORT: Final = re.compile(r"\s+Port (\d+): ([0-9a-f]{4})(.*)")


class UhubctlKeys(Section):
    """A port of a USB hub."""

    location: str = Field(
        pattern=r"^[0-9]{1,3}(-[0-9]{1,3}(\.[0-9]{1,3}){0,6})?$",
        json_schema_extra={"expected": 'a hub\'s place as uhubctl lists it, such as "1-1"'},
        description="The hub's place, as `uhubctl` lists it.",
    )
    port: int = Field(ge=1, le=32, description="The hub's port, from 1.")
    host: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.@:-]{0,252})?$",
        json_schema_extra={"expected": "a machine as ssh takes it"},
        description="The machine that the hub is plugged into, as ssh takes it; default: this one.",
    )


class UhubctlSwitch:
    """`BoardSwitch` of one port."""

    def __init__(self, keys: UhubctlKeys) -> None:
        self._keys = keys
        self._where = f"hub {keys.location} port {keys.port}" + (f" at {keys.host}" if keys.host else "")

    async def on(self) -> None:
        """Switch the port on."""
        await self._switch(True)

    async def off(self) -> None:
        """Switch the port off."""
        await self._switch(False)

    async def state(self) -> PowerState:
        """Ask the hub."""
        return PowerState(_state(await self._run(), self._keys.location, self._keys.port, self._where))

    async def trouble(self) -> str:
        """Return whether the hub switches its ports together."""
        hubs = dict(_HUB.findall(await self._run()))
        if "ganged" in hubs.get(self._keys.location, ""):
            return "this hub switches all of its ports together"
        return ""

    async def _switch(self, on: bool) -> None:
        await self._run("-a", "on" if on else "off")
        if (state := (await self.state()).on) is not on:
            raise contradicted(self._where, on, state)

    async def _run(self, *words: str) -> str:
        keys = self._keys
        command = ["uhubctl", "-l", keys.location, "-p", str(keys.port), *words]
        if keys.host:
            options = [f"-oConnectTimeout={_CONNECT_S}", "-oBatchMode=yes", "-oControlMaster=no"]
            command = ["ssh", *options, "--", keys.host, shlex.join(command)]
        ran = await run_program(command, self._where, _PATIENCE_S)
        if ran.exit_code == 0:
            return ran.out
        said = ran.err.strip() or ran.out.strip()
        if keys.host and ran.exit_code == 255:  # ssh's own
            raise SwitchError(
                f"{self._where}: ssh: {short(ran.why)}", f"does `ssh {keys.host}` log in by itself?"
            )
        if "No compatible devices" in said:
            raise SwitchError(
                f"{self._where}: uhubctl finds no such hub with switchable ports",
                "`uhubctl` as root lists them; for others it needs the udev rule of its README",
            )
        if ran.exit_code == 127:
            raise SwitchError(f"{self._where}: no uhubctl there", "sudo apt-get install uhubctl, there")
        raise SwitchError(f"{self._where}: uhubctl: {short(said or ran.why)}")


def _state(said: str, location: str, port: int, where: str) -> bool:
    """The last that is said of this port; of a USB 3 hub's two halves the one at `location`."""
    at, state = "", None
    for line in said.splitlines():
        if hub := _HUB.match(line):
            at = hub[1]
        elif at == location and (found := _PORT.match(line)) and int(found[1]) == port:
            state = "power" in found[3].split("[")[0].split()
    if state is None:
        raise SwitchError(f"{where}: uhubctl tells nothing of it: {short(said)!r}")
    return state


def _switch(keys: UhubctlKeys, _host: Host) -> UhubctlSwitch:
    return UhubctlSwitch(keys)


UHUBCTL: Final = SwitchRow(
    "a port of a USB hub with switchable ports, by uhubctl, here or over SSH",
    UhubctlKeys,
    lambda keys: f"{keys.host} hub {keys.location} port {keys.port}".strip(),
    _switch,
    device=lambda keys: keys.host or "this machine",  # its hubs hang on each other
)
