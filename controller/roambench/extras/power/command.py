"""Boards switched by commands of the lab's own."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from roambench.extras.power.programs import run_program
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.provision.power.switch import SwitchError, SwitchRow, contradicted, short
from roambench.written.toml_file import Section

_WORDS: Final = {"on": True, "off": False}


class CommandKeys(Section):
    """The commands that run on this machine, by `sh -c`; 0 is the exit code of success."""

    on: str = Field(min_length=1, description="Gives the board power.")
    off: str = Field(min_length=1, description="Cuts it.")
    state: str = Field("", description="Prints `on` or `off` as its last word; without it nothing is read.")
    timeout_s: float = Field(30.0, gt=0.0, le=120.0, description="A command that takes longer is ended.")


class CommandSwitch:
    """`BoardSwitch` of three commands."""

    def __init__(self, keys: CommandKeys) -> None:
        self._keys = keys

    async def on(self) -> None:
        """Run `on`, then `state`."""
        await self._switch(True)

    async def off(self) -> None:
        """Run `off`, then `state`."""
        await self._switch(False)

    async def state(self) -> PowerState | None:
        """Run `state`; None without such a command."""
        if not self._keys.state:
            return None
        words = (await self._run("state", self._keys.state)).split()
        state = _WORDS.get(words[-1].lower()) if words else None
        if state is None:
            raise SwitchError(
                "power.state: expected `on` or `off` as its last word, "
                + (f"it prints {short(words[-1])!r}" if words else "it prints nothing"),
                f"try it: {self._keys.state}",
            )
        return PowerState(state)

    async def _switch(self, on: bool) -> None:
        await self._run("on" if on else "off", self._keys.on if on else self._keys.off)
        state = await self.state()
        if state is not None and state.on is not on:
            raise contradicted("power.state", on, state.on)

    async def _run(self, key: str, text: str) -> str:
        ran = await run_program(["sh", "-c", text], f"power.{key}", self._keys.timeout_s)
        if ran.exit_code != 0:
            code = f" (exit code {ran.exit_code})" if ran.why != f"exit code {ran.exit_code}" else ""
            raise SwitchError(f"power.{key}: {short(ran.why)}{code}", f"try it: {text}")
        return ran.out


def _switch(keys: CommandKeys, _host: Host) -> CommandSwitch:
    return CommandSwitch(keys)


COMMAND: Final = SwitchRow(
    "commands of the lab's own, run on this machine",
    CommandKeys,
    lambda keys: keys.off,
    _switch,
)
