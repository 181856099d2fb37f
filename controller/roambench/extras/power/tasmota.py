"""Plugs and relays with the Tasmota firmware, over its HTTP commands.

Facts: https://tasmota.github.io/docs/Commands/ (Power, PulseTime, SetOption26, WebPassword).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from pydantic import Field

from roambench.extras.power import http
from roambench.extras.power.keys import Address, SecretFile, secret
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.provision.power.switch import SwitchRow, contradicted
from roambench.written.toml_file import Section

_WORDS: Final = {"ON": True, "OFF": False}
_USER: Final = "admin"  # the firmware knows no other
#: `PulseTime`: up to 111 tenths of a second, from 112 on seconds above 100.
_TENTHS: Final = 111


class TasmotaKeys(Section):
    """A relay of a Tasmota device."""

    address: Address = Field(description="Where its web server answers.")
    channel: int = Field(1, ge=1, le=32, description="Its relay, from 1: `Power1`, `Power2` ...")
    password_file: SecretFile = Field("", description="File with its WebPassword.")


class TasmotaSwitch:
    """`BoardSwitch` of one relay. It is asked before it is switched: an answer of another relay stops it."""

    def __init__(self, keys: TasmotaKeys) -> None:
        self._keys = keys
        self._password = secret(keys.password_file, "password_file")

    async def on(self) -> None:
        """Switch the relay on."""
        await self._switch(True)

    async def off(self) -> None:
        """Switch the relay off."""
        await self._switch(False)

    async def state(self) -> PowerState:
        """Ask the relay."""
        return PowerState(await self._power(""))

    async def trouble(self) -> str:
        """Return whether PulseTime would switch the relay back."""
        channel = self._keys.channel
        answer = await self._command(f"PulseTime{channel}")
        value: Any = answer.values.get(f"PulseTime{channel}")
        value = value.get("Set") if isinstance(value, dict) else str(value).split(" ")[0]
        try:
            pulse = int(str(value))
        except ValueError:
            raise http.unexpected(self._keys.address, answer, f"PulseTime{channel}") from None
        if pulse == 0:
            return ""
        after_s = pulse / 10 if pulse <= _TENTHS else pulse - 100
        return f"PulseTime{channel} switches it off {after_s:g} s after on: set it to 0"

    async def _switch(self, on: bool) -> None:
        await self._power("")
        await self._power(" On" if on else " Off")
        if (state := await self._power("")) is not on:
            raise contradicted(self._keys.address, on, state)

    async def _power(self, word: str) -> bool:
        channel = self._keys.channel
        answer = await self._command(f"Power{channel}{word}")
        names = [f"POWER{channel}", *(["POWER"] if channel == 1 else [])]
        state: Any = next((answer.values[name] for name in names if name in answer.values), None)
        on = _WORDS.get(state.upper()) if isinstance(state, str) else None
        if on is None:
            raise http.unexpected(self._keys.address, answer, f"{' or '.join(names)} ON or OFF")
        return on

    async def _command(self, command: str) -> http.HttpAnswer:
        login = f"user={_USER}&password={quote(self._password, safe='')}&" if self._password else ""
        answer = await http.get(self._keys.address, f"/cm?{login}cmnd={quote(command, safe='')}")
        if answer.status == 401 or "WARNING" in answer.values:  # which it was before 401 came into use
            raise http.refused(self._keys.address, given=bool(self._password))
        return answer


def _switch(keys: TasmotaKeys, _host: Host) -> TasmotaSwitch:
    return TasmotaSwitch(keys)


TASMOTA: Final = SwitchRow(
    "a relay of a device with Tasmota, over HTTP",
    TasmotaKeys,
    lambda keys: f"{keys.address} channel {keys.channel}",
    _switch,
    device=lambda keys: str(keys.address),
)
