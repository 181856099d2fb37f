"""The power switches behind the two WebSockets: the stock firmware's letters, the ytrikoz firmware's JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from roambench.contract.errors import ConfigError, MeterError
from roambench.meters.frames.smartpower2_websocket import Smartpower2WebsocketFrames
from roambench.meters.smartpower2 import websocket_uri
from roambench.meters.sources.source import cause
from roambench.meters.sources.websocket import connect_websocket
from roambench.meters.switching import LEAST_V, MOST_V, PowerState

ANSWER_S: Final = 5.0
#: The output's steps are 4.6 mV; what it shows has two decimals.
_SAME_V: Final = 0.02


class Smartpower2Switch:
    """`PowerSwitch` of the stock firmware. It tells a change to its other clients only, so we ask again."""

    def __init__(self, host: str, port: int) -> None:
        self._uri = websocket_uri(host, port)

    async def on(self) -> None:
        """Switch the output on."""
        await self._send("o0", lambda state: state.on)  # the pin's level: 0 is on

    async def off(self) -> None:
        """Switch the output off."""
        await self._send("o1", lambda state: not state.on)

    async def set_volts(self, volts: float) -> None:
        """Set the output's volts; ConfigError outside of LEAST_V to MOST_V."""
        volts = _allowed(volts)
        await self._send(f"w{volts:.2f}", lambda state: _near(state.volts, volts))

    async def set_autorun(self, on: bool) -> None:
        """Should the output be on after the meter's reset? Stock meters come with it off."""
        async with _talk(self._uri) as line:
            await line.send("a1" if on else "a0")
            await line.send("p1")
            if await _wait_for(line, "a") != f"a{on:d}":
                raise MeterError(f"meter {self._uri}: autorun did not change")

    async def autorun(self) -> bool:
        """Return whether the output comes back on after a reset."""
        async with _talk(self._uri) as line:
            await line.send("p1")
            return await _wait_for(line, "a") == "a1"

    async def state(self) -> PowerState:
        """Ask the meter how its output is set."""
        async with _talk(self._uri) as line:
            return await self._ask(line)

    async def _send(self, command: str, done: Callable[[PowerState], bool]) -> None:
        async with _talk(self._uri) as line:
            await line.send(command)
            state = await self._ask(line)
            if not done(state):
                raise MeterError(f"meter {self._uri}: {command} was sent, but {_state_text(state)}")

    async def _ask(self, line: ClientConnection) -> PowerState:
        frames = Smartpower2WebsocketFrames()
        await line.send("p0")
        output = await _wait_for(line, "o")
        frames.feed((await _wait_for(line, "w")).encode(), 0)
        return PowerState(output == "o0", frames.set_volts)


class YtrikozSwitch:
    """`PowerSwitch` of the ytrikoz firmware: JSON at ws://HOST/ws. Its home page tells power and voltage."""

    def __init__(self, host: str, port: int) -> None:
        self._uri = websocket_uri(host, port) + "ws"

    async def on(self) -> None:
        """Switch the output on."""
        await self._send({"power": True}, lambda state: state.on)

    async def off(self) -> None:
        """Switch the output off."""
        await self._send({"power": False}, lambda state: not state.on)

    async def set_volts(self, volts: float) -> None:
        """Set the output's volts; ConfigError outside of LEAST_V to MOST_V."""
        volts = _allowed(volts)
        await self._send({"set": [{"voltage": f"{volts:.2f}"}]}, lambda state: _near(state.volts, volts))

    async def state(self) -> PowerState:
        """Ask the meter how its output is set."""
        async with _talk(self._uri) as line:
            return await self._ask(line)

    async def _send(self, command: dict[str, object], done: Callable[[PowerState], bool]) -> None:
        text = json.dumps(command)
        async with _talk(self._uri) as line:
            await line.send(text)
            state = await self._ask(line)
            if not done(state):
                raise MeterError(f"meter {self._uri}: {text} was sent, but {_state_text(state)}")

    async def _ask(self, line: ClientConnection) -> PowerState:
        await line.send('{"page":1}')
        while True:
            state = _page(await line.recv())
            if state is not None:
                return state


def _page(message: str | bytes) -> PowerState | None:
    """The home page's object, bare or in a list; None for anything else, readings above all."""
    try:
        values = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if isinstance(values, list) and len(values) == 1:
        values = values[0]
    if not isinstance(values, dict) or type(values.get("power")) not in (bool, int):
        return None
    return PowerState(bool(values["power"]), _number(values.get("voltage")))


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


@asynccontextmanager
async def _talk(uri: str) -> AsyncIterator[ClientConnection]:
    """A connection for one errand; MeterError for what goes wrong with it."""
    try:
        async with asyncio.timeout(ANSWER_S):
            line = await connect_websocket(uri)
            try:
                yield line
            finally:
                await line.close()
    except TimeoutError:
        raise MeterError(f"meter {uri}: no answer within {ANSWER_S:g} s") from None
    except MeterError:
        raise
    except (OSError, WebSocketException) as error:
        raise MeterError(f"meter {uri}: cannot be reached ({cause(error)})") from None


async def _wait_for(line: ClientConnection, letter: str) -> str:
    """The next message that begins with `letter`."""
    while True:
        message = await line.recv()
        if isinstance(message, str) and message.startswith(letter):
            return message


def _allowed(volts: float) -> float:
    if not LEAST_V <= volts <= MOST_V:
        raise ConfigError([f"volts: expected {LEAST_V:g} to {MOST_V:g}, got {volts:g}"])
    return volts


def _near(shown: float | None, volts: float) -> bool:
    return shown is not None and abs(shown - volts) <= _SAME_V


def _state_text(state: PowerState) -> str:
    volts = "" if state.volts is None else f", set to {state.volts:.2f} V"
    return f"it says that it is {'on' if state.on else 'off'}{volts}"
