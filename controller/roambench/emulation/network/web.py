"""A meter's web side, as browsers see it: pages, commands, who gets readings. No network in here."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, Protocol

from roambench.contract.json_values import json_or_none
from roambench.emulation.firmware import Firmware

#: A sixth browser is refused.
MOST_CLIENTS: Final = 5
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)")


class Frame(NamedTuple):
    """`text` for the clients in `to`."""

    to: tuple[int, ...]
    text: str


class WebConsole(Protocol):
    """The browsers of one meter, by number."""

    def enter(self) -> int | None:
        """A browser connects: its number, None if there is no room."""
        ...

    def leave(self, client: int) -> None:
        """A client has gone."""
        ...

    def receive(self, client: int, text: str, ns: int) -> list[Frame]:
        """Obey a browser's message; return the frames of the answer. Never raises."""
        ...

    @property
    def watching(self) -> tuple[int, ...]:
        """The clients that get readings."""
        ...


class Clients:
    """Numbers 0 to 4, each with the page it shows (None: it has not said)."""

    def __init__(self) -> None:
        self.pages: dict[int, int | None] = {}

    def enter(self) -> int | None:
        """The number of a new client, None when there are too many."""
        free = [number for number in range(MOST_CLIENTS) if number not in self.pages]
        if not free:
            return None
        self.pages[free[0]] = None
        return free[0]

    def on(self, page: int, *, but: int | None = None) -> tuple[int, ...]:
        """The clients that look at a page, but for one."""
        return tuple(n for n, shown in sorted(self.pages.items()) if shown == page and n != but)


HOME: Final = 0
SETTINGS: Final = 1


class Smartpower2Web:
    """The vendor's protocol: the first letter is the command, and 0 means ON.

    A change is sent to the other browsers only. `connectedWeb` of the firmware, which the watt-hours need,
    falls when any browser leaves, however many stay.
    """

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware
        self._panel = firmware.panel
        self._clients = Clients()

    def enter(self) -> int | None:
        """The number of a new client, None when there are too many."""
        client = self._clients.enter()
        if client is not None:
            self._panel.browser = True
        return client

    def leave(self, client: int) -> None:
        """Let a client go; the firmware then takes none to be left."""
        self._clients.pages.pop(client, None)
        self._panel.browser = False

    @property
    def watching(self) -> tuple[int, ...]:
        """The clients that get the live readings."""
        return self._clients.on(HOME) if self._panel.browser else ()

    def receive(self, client: int, text: str, ns: int) -> list[Frame]:
        """The frames that answer a client's text."""
        panel, rest = self._panel, text[1:]
        match text[:1]:
            case "p":
                page = SETTINGS if rest[:1] == "1" else HOME
                self._clients.pages[client] = page
                return [Frame((client,), line) for line in self._status(page)]
            case "o":
                self._firmware.switch(ns, on=_number(rest) == 0.0)
                return self._to_others(f"o{0 if panel.on else 1}", HOME, client)
            case "w":
                panel.setting_v = _number(rest)
                return self._to_others(f"w{panel.setting_v:.2f}", HOME, client)
            case "v":
                panel.default_v = panel.setting_v
            case "m":
                panel.counting = _number(rest) != 0.0
                return self._to_others(f"m{int(panel.counting)}", HOME, client)
            case "a" if (_number(rest) != 0.0) is not panel.autorun:
                panel.autorun = not panel.autorun
                return self._to_others(f"a{int(panel.autorun)}", SETTINGS, client)
            case "n":
                network = [*rest.split(","), "", "", ""][:3]
                panel.ssid, panel.address, panel.password = (part[:19] for part in network)
                others = self._clients.on(SETTINGS, but=client)
                return [Frame(others, line) for line in self._status(SETTINGS)] if others else []
        return []

    def _status(self, page: int) -> list[str]:
        panel = self._panel
        if page == HOME:
            version = self._firmware.profile.version
            return [
                f"o{0 if panel.on else 1}",
                f"w{panel.setting_v:.2f}",
                f"m{int(panel.counting)}",
                f"f{version}",
            ]
        return [f"a{int(panel.autorun)}", f"n{panel.ssid},{panel.address},{panel.password}"]

    def _to_others(self, text: str, page: int, client: int) -> list[Frame]:
        others = self._clients.on(page, but=client)
        return [Frame(others, text)] if others else []


class YtrikozWeb:
    """JSON both ways: `{"page": 1}`, `{"power": true}`, `{"wh": 0}`, `{"set": [{"voltage": 5.2}]}`.

    Readings go to the browsers that asked for the home page, here number 1.
    """

    HOME: Final = 1

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware
        self._panel = firmware.panel
        self._clients = Clients()

    def enter(self) -> int | None:
        """The number of a new client, None when there are too many."""
        return self._clients.enter()

    def leave(self, client: int) -> None:
        """A client has gone."""
        self._clients.pages.pop(client, None)

    @property
    def watching(self) -> tuple[int, ...]:
        """The clients that get the live readings."""
        return self._clients.on(self.HOME)

    def receive(self, client: int, text: str, ns: int) -> list[Frame]:
        """The frames that answer a client's text."""
        values = json_or_none(dict[str, Any], text) or {}
        answers: list[Frame] = []
        for key, value in values.items():
            match key:
                case "page":
                    self._clients.pages[client] = value if isinstance(value, int) else None
                    if value == self.HOME:
                        answers.append(Frame((client,), self._state()))
                case "power":
                    self._firmware.switch(ns, on=bool(value))
                case "wh" if isinstance(value, int | float):
                    self._panel.watt_s = 3600.0 * float(value)
                case "set" if isinstance(value, list):
                    self._set(value)
        return answers

    def _set(self, pairs: list[object]) -> None:
        for pair in pairs:
            if isinstance(pair, dict) and "voltage" in pair:
                self._panel.setting_v = self._panel.default_v = _number(str(pair["voltage"]))

    def _state(self) -> str:
        panel = self._panel
        home = {"power": int(panel.on), "wh": panel.watt_s / 3600.0, "voltage": f"{panel.setting_v:.2f}"}
        return json.dumps([home], separators=(",", ":"))


class YtrikozShell:
    """ENTER on telnet opens a command line and ends the readings, until ESC on an empty line."""

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware
        self._line = b""
        self.active = False

    def leave(self) -> None:
        """The client has gone: forget its half line."""
        self.active = False
        self._line = b""

    def receive(self, data: bytes, ns: int) -> bytes:
        """The meter's answer to typed bytes; never raises."""
        answer = b""
        for byte in data:
            if not self.active:
                if byte == 0x0D:
                    self.active = True
                    answer += b"\\> "
            elif byte == 0x1B and not self._line:
                self.active = False
                answer += b"\r\n"
            elif byte == 0x0D:
                answer += b"\r\n" + self._run(self._line, ns) + b"\\> "
                self._line = b""
            elif byte == 0x1B:
                self._line = b""
            elif byte >= 0x20 and len(self._line) < 128:
                self._line += bytes([byte])
        return answer

    def _run(self, line: bytes, ns: int) -> bytes:
        match line.lower().split():
            case [b"power", (b"on" | b"off") as state]:
                self._firmware.switch(ns, on=state == b"on")
                return b"<psu> power -> " + state + b"\r\n"
            case [b"show", b"power"]:
                return b"<psu> power " + (b"on" if self._firmware.panel.on else b"off") + b"\r\n"
            case []:
                return b""
        return b"unknown command\r\n"


def web_console(firmware: Firmware) -> WebConsole:
    """The console of this firmware's web page."""
    if firmware.profile.traits == "smartpower2-ytrikoz":
        return YtrikozWeb(firmware)
    return Smartpower2Web(firmware)


def _number(text: str) -> float:
    """Read a number as the firmware does: the longest prefix that is one, else 0."""
    match = _NUMBER.match(text)
    return float(match[0]) if match else 0.0
