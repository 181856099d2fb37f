"""Shelly plugs and relays of every generation, over HTTP; the device says itself which one it is.

Facts: https://shelly-api-docs.shelly.cloud/gen1/ (/shelly, /relay/0, /settings/relay/0) and
https://shelly-api-docs.shelly.cloud/gen2/ (Switch.Set, Switch.GetStatus, Switch.GetConfig, authentication).
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from roambench.extras.power import http
from roambench.extras.power.keys import Address, SecretFile, secret
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.provision.power.switch import SwitchRow, contradicted
from roambench.written.toml_file import Section

_USER: Final = "admin"  # of the first generation by default, of the others always


class ShellyKeys(Section):
    """A relay of a Shelly."""

    address: Address = Field(description="Where its web server answers.")
    channel: int = Field(0, ge=0, le=31, description="Its relay, from 0.")
    user: str = Field(
        _USER, min_length=1, description="Of its login; from the second generation on always admin."
    )
    password_file: SecretFile = Field("", description="File with the password of its login.")


class ShellySwitch:
    """`BoardSwitch` of one relay."""

    def __init__(self, keys: ShellyKeys) -> None:
        self._keys = keys
        password = secret(keys.password_file, "password_file")
        self._login = http.HttpLogin(keys.user, password) if password else None
        self._first_generation: bool | None = None  # not known yet

    async def on(self) -> None:
        """Switch the relay on."""
        await self._switch(True)

    async def off(self) -> None:
        """Switch the relay off."""
        await self._switch(False)

    async def state(self) -> PowerState:
        """Ask the relay."""
        channel = self._keys.channel
        if await self._is_first():
            return PowerState(await self._told(f"/relay/{channel}", "ison"))
        return PowerState(await self._told(f"/rpc/Switch.GetStatus?id={channel}", "output"))

    async def trouble(self) -> str:
        """Return whether a timer would switch the relay off."""
        channel = self._keys.channel
        if await self._is_first():
            answer = await self._get(f"/settings/relay/{channel}")
            after_s = answer.values.get("auto_off")
            armed = after_s is not None and _is_number(after_s) and after_s > 0
        else:
            answer = await self._get(f"/rpc/Switch.GetConfig?id={channel}")
            after_s = answer.values.get("auto_off_delay")
            armed = answer.values.get("auto_off") is True
        if answer.status != 200 or "auto_off" not in answer.values:
            raise http.unexpected(self._keys.address, answer, "auto_off")
        after = f" {after_s:g} s after on" if _is_number(after_s) else ""
        return f"its timer auto_off switches it off{after}: disable it" if armed else ""

    async def _switch(self, on: bool) -> None:
        channel = self._keys.channel
        if await self._is_first():
            await self._told(f"/relay/{channel}?turn={'on' if on else 'off'}", "ison")
        else:
            await self._told(f"/rpc/Switch.Set?id={channel}&on={'true' if on else 'false'}", "was_on")
        if (state := (await self.state()).on) is not on:
            raise contradicted(self._keys.address, on, state)

    async def _is_first(self) -> bool:
        """Return whether it is of the first generation, which tells its `type`; the others tell `gen`."""
        if self._first_generation is None:
            answer = await self._get("/shelly")
            if not ("gen" in answer.values or "type" in answer.values):
                raise http.unexpected(self._keys.address, answer, "what a Shelly says of itself")
            self._first_generation = "gen" not in answer.values
        return self._first_generation

    async def _told(self, path: str, key: str) -> bool:
        answer = await self._get(path)
        value: Any = answer.values.get(key)
        if answer.status != 200 or not isinstance(value, bool):
            raise http.unexpected(
                self._keys.address, answer, f"{key} true or false of relay {self._keys.channel}"
            )
        return value

    async def _get(self, path: str) -> http.HttpAnswer:
        answer = await http.get(self._keys.address, path, self._login)
        if answer.status == 401:
            raise http.refused(self._keys.address, given=self._login is not None)
        return answer


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _switch(keys: ShellyKeys, _host: Host) -> ShellySwitch:
    return ShellySwitch(keys)


SHELLY: Final = SwitchRow(
    "a relay of a Shelly of any generation, over HTTP",
    ShellyKeys,
    lambda keys: f"{keys.address} channel {keys.channel}",
    _switch,
    device=lambda keys: str(keys.address),
)
