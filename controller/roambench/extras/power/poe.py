"""Ports of a PoE switch by SNMP: RFC 3621 (POWER-ETHERNET-MIB), spoken by Net-SNMP's tools."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from roambench.contract.errors import ConfigError
from roambench.extras.power.keys import Address, SecretFile, secret
from roambench.extras.power.programs import run_program
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.provision.power.switch import SwitchError, SwitchRow, contradicted, short
from roambench.written.toml_file import Section

#: pethPsePortAdminEnable and pethPsePortDetectionStatus, each by group and port.
_ENABLED: Final = ".1.3.6.1.2.1.105.1.1.1.3"
_DETECTED: Final = ".1.3.6.1.2.1.105.1.1.1.6"
_TRUTH: Final = {"1": True, "2": False}
_DETECTIONS: Final = {
    "1": "disabled",
    "2": "searching for a device",
    "3": "delivering power",
    "4": "fault",
    "5": "test",
    "6": "other fault",
}
_TRY_S, _RETRIES = 2, 2
_PATIENCE_S: Final = _TRY_S * (_RETRIES + 1) + 6.0  # a name may have to be looked up


class PoeKeys(Section):
    """A port of an Ethernet switch."""

    address: Address = Field(description="Where its SNMP agent answers; port 161 unless it says another.")
    port: int = Field(ge=1, le=65535, description="pethPsePortIndex: mostly the number on the front.")
    group: int = Field(1, ge=1, le=65535, description="pethPsePortGroupIndex: of a stack the member.")
    community_file: SecretFile = Field(min_length=1, description="File with a community that may write.")
    version: Literal["1", "2c"] = Field("2c", description="Of SNMP.")


class PoeSwitch:
    """`BoardSwitch` of one port."""

    def __init__(self, keys: PoeKeys) -> None:
        self._keys = keys
        self._where = f"{keys.address} port {keys.port}"
        self._community = secret(keys.community_file, "community_file")
        if not set('"\\').isdisjoint(self._community):
            raise ConfigError(
                [f"power.community_file: {keys.community_file}: expected no quote and no backslash"]
            )

    async def on(self) -> None:
        """Enable power on the port."""
        await self._switch(True)

    async def off(self) -> None:
        """Disable power on the port."""
        await self._switch(False)

    async def state(self) -> PowerState:
        """Return whether power is enabled, and what the port detects."""
        enabled = await self._enabled()
        try:
            (detected,) = await self._ask("snmpget", f"{_DETECTED}.{self._index}")
        except SwitchError:  # some switches have the one column only
            detected = ""
        return PowerState(enabled, detail=_DETECTIONS.get(detected, ""))

    async def trouble(self) -> str:
        """Return whether the port is enabled and no board takes its power."""
        state = await self.state()
        if not state.on or state.detail in ("", _DETECTIONS["3"]):
            return ""
        return f"the port is enabled, its switch says: {state.detail}"

    @property
    def _index(self) -> str:
        return f"{self._keys.group}.{self._keys.port}"

    async def _switch(self, on: bool) -> None:
        await self._ask("snmpset", f"{_ENABLED}.{self._index}", "i", "1" if on else "2")
        if (state := await self._enabled()) is not on:
            raise contradicted(self._where, on, state)

    async def _enabled(self) -> bool:
        (state,) = await self._ask("snmpget", f"{_ENABLED}.{self._index}")
        if state not in _TRUTH:
            raise SwitchError(
                f"{self._where}: expected 1 or 2 as {_ENABLED}.{self._index}, got {short(state)!r}",
                "do group and port name a port with PoE? snmpwalk lists the ports",
            )
        return _TRUTH[state]

    async def _ask(self, program: str, *words: str) -> list[str]:
        """The values that are answered, one a line."""
        host = self._keys.address
        target = f"udp6:{host}" if host.startswith("[") else f"udp:{host}"
        # The community in a file that only its owner may read: everybody sees a command's words.
        with tempfile.TemporaryDirectory(prefix="roambench-snmp-") as folder:
            Path(folder, "snmp.conf").write_text(
                f'defVersion {self._keys.version}\ndefCommunity "{self._community}"\n', encoding="utf-8"
            )
            ran = await run_program(
                [program, "-t", str(_TRY_S), "-r", str(_RETRIES), "-Oqve", target, *words],
                self._where,
                _PATIENCE_S,
                environment={
                    "SNMPCONFPATH": folder,
                    "SNMP_PERSISTENT_DIR": folder,
                    "MIBS": "",
                    "MIBDIRS": folder,
                },
            )
        if ran.exit_code != 0:
            raise _refused(self._where, ran.err.strip() or ran.why)
        return ran.out.strip().splitlines() or [""]


def _refused(where: str, said: str) -> SwitchError:
    if "Timeout" in said:
        return SwitchError(
            f"{where}: no answer over SNMP",
            "is SNMP enabled there, and community_file right? a wrong community gets no answer",
        )
    lines = [line for line in said.splitlines() if line.startswith("Reason:")] or said.splitlines()[:1]
    reason = lines[0].removeprefix("Reason:").strip() if lines else said
    if any(word in reason for word in ("noAccess", "notWritable", "authorizationError", "readOnly")):
        return SwitchError(
            f"{where}: may not be written: {reason}", "a community that may write, and a port with PoE"
        )
    if "noSuchName" in reason:
        return SwitchError(
            f"{where}: no such port, or not with this community", "look at group, port and community"
        )
    return SwitchError(f"{where}: {reason}")


def _switch(keys: PoeKeys, _host: Host) -> PoeSwitch:
    return PoeSwitch(keys)


POE: Final = SwitchRow(
    "a port of a PoE switch, over SNMP (RFC 3621)",
    PoeKeys,
    lambda keys: f"{keys.address} group {keys.group} port {keys.port}",
    _switch,
    device=lambda keys: str(keys.address),
)
