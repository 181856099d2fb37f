"""Tasmota and Shelly devices that are no devices: real HTTP, answers as the vendors document them, no relays.

What they are kinder in than the real ones stands in docs/emulator.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

_USER: Final = "admin"
_MOST_BYTES: Final = 4096
_MAC: Final = "A8032ABE54DC"
_REALM: Final = "shellyplus1-" + _MAC.lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; `values` become its JSON, a text stays what it is."""

    status: int
    values: Mapping[str, Any] | str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class EmulatedSwitch(ABC):
    """Relays (True: on), and a password ("": none is asked for). `auto_off_s` is shown, and never happens.

    An answer takes `takes_s`; `busiest`: how many were asked for at a time. Real devices drop some of them.
    """

    relays: list[bool]
    password: str = ""
    auto_off_s: float = 0.0
    takes_s: float = 0.0
    asked: list[str] = field(default_factory=list)  # paths, in their order
    busiest: int = 0

    @abstractmethod
    def reply(self, path: str, query: Mapping[str, str], authorization: str, method: str = "GET") -> Reply:
        """The device's answer; `authorization` is that header, "" without it."""

    def posted(self, path: str, body: bytes, authorization: str) -> Reply:
        """The answer to a POST: a form counts as the query."""
        return self.reply(path, dict(parse_qsl(body.decode(errors="replace"))), authorization, "POST")

    def _relay(self, number: str) -> int | None:
        """The index of a relay's number from 0; None where there is none."""
        return (
            int(number) if number.isascii() and number.isdigit() and int(number) < len(self.relays) else None
        )


class EmulatedTasmota(EmulatedSwitch):
    """The commands Power and PulseTime of Tasmota's `/cm`."""

    def reply(self, path: str, query: Mapping[str, str], authorization: str, method: str = "GET") -> Reply:
        """Return the reply to `/cm?cmnd=...`."""
        if path != "/cm":
            return Reply(404, "Not found")
        if self.password and (query.get("user"), query.get("password")) != (_USER, self.password):
            return Reply(401, {"WARNING": "Need user=<username>&password=<password>"})
        name, _, payload = query.get("cmnd", "").partition(" ")
        found = re.fullmatch(r"(power|pulsetime)([0-9]*)", name, re.IGNORECASE)
        if found is None:
            return Reply(200, {"Command": "Unknown"})
        number = int(found[2] or 1)
        if found[1].lower() == "pulsetime":
            seconds = self.auto_off_s
            pulse = round(seconds * 10) if seconds <= 11.1 else round(seconds) + 100
            return Reply(200, {f"PulseTime{number}": {"Set": pulse, "Remaining": 0}})
        if not 1 <= number <= len(self.relays):
            return Reply(200, {"Command": "Error"})
        on = {"on": True, "1": True, "off": False, "0": False}.get(payload.lower())
        if on is not None:
            self.relays[number - 1] = on
        key = "POWER" if len(self.relays) == 1 else f"POWER{number}"
        return Reply(200, {key: "ON" if self.relays[number - 1] else "OFF"})


class EmulatedShelly1(EmulatedSwitch):
    """A Shelly of the first generation."""

    def reply(self, path: str, query: Mapping[str, str], authorization: str, method: str = "GET") -> Reply:
        """Return the reply to `/shelly`, `/relay/N` and `/settings/relay/N`."""
        if path == "/shelly":
            outputs = len(self.relays)
            values = {"type": "SHSW-1", "mac": _MAC, "auth": bool(self.password), "num_outputs": outputs}
            return Reply(200, values)
        expected = "Basic " + base64.b64encode(f"{_USER}:{self.password}".encode()).decode()
        if self.password and not hmac.compare_digest(authorization.encode(), expected.encode()):
            return Reply(401, "401 Unauthorized", (("WWW-Authenticate", 'Basic realm="shelly"'),))
        found = re.fullmatch(r"/(settings/)?relay/([0-9]+)", path)
        number = None if found is None else self._relay(found[2])
        if found is None or number is None:
            return Reply(404, "Not Found")
        if found[1]:
            values = {"name": None, "ison": self.relays[number], "auto_on": 0.0, "auto_off": self.auto_off_s}
            return Reply(200, values)
        if query.get("turn") in ("on", "off", "toggle"):
            self.relays[number] = {"on": True, "off": False}.get(query["turn"], not self.relays[number])
        on = self.relays[number]
        return Reply(200, {"ison": on, "has_timer": False, "timer_remaining": 0, "source": "http"})


@dataclass
class EmulatedShelly2(EmulatedSwitch):
    """A Shelly of the second or a later generation."""

    nonces: set[str] = field(default_factory=set)

    def reply(self, path: str, query: Mapping[str, str], authorization: str, method: str = "GET") -> Reply:
        """Return the reply to `/shelly` and `/rpc/` with Switch.Set, Switch.GetStatus and
        Switch.GetConfig."""
        if path == "/shelly":
            values = {
                "name": None,
                "id": _REALM,
                "mac": _MAC,
                "model": "SNSW-001X16EU",
                "gen": 2,
                "app": "Plus1",
            }
            return Reply(200, {**values, "ver": "1.4.4", "auth_en": bool(self.password)})
        if self.password and not self._may(authorization, method):
            nonce = secrets.token_hex(16)
            self.nonces.add(nonce)
            asks = f'Digest qop="auth", realm="{_REALM}", nonce="{nonce}", algorithm=SHA-256'
            return Reply(401, "", (("WWW-Authenticate", asks),))
        name = path.removeprefix("/rpc/")
        if name not in ("Switch.Set", "Switch.GetStatus", "Switch.GetConfig"):
            return Reply(404, {"code": 404, "message": f"No handler for {name}"})
        if "id" not in query:
            return Reply(500, {"code": -103, "message": "Missing required argument 'id'!"})
        number = self._relay(query["id"])
        if number is None:
            return Reply(500, {"code": -105, "message": f"Argument 'id', value {query['id']} not found!"})
        was_on = self.relays[number]
        if name == "Switch.Set":
            if query.get("on") not in ("true", "false"):
                return Reply(500, {"code": -103, "message": "Missing required argument 'on'!"})
            self.relays[number] = query["on"] == "true"
            return Reply(200, {"was_on": was_on})
        if name == "Switch.GetStatus":
            return Reply(200, {"id": number, "source": "HTTP_in", "output": was_on})
        after_s = self.auto_off_s
        values = {"id": number, "name": None, "initial_state": "restore_last", "auto_on": False}
        return Reply(200, {**values, "auto_off": after_s > 0.0, "auto_off_delay": after_s or 60.0})

    def posted(self, path: str, body: bytes, authorization: str) -> Reply:
        """Return the reply to `/rpc`: a frame with a method and its params."""
        try:
            frame = json.loads(body)
            name, params = str(frame["method"]), dict(frame.get("params", {}))
        except (ValueError, TypeError, KeyError, RecursionError):
            return Reply(400, "Bad Request")
        query = {key: json.dumps(value) for key, value in params.items()}
        said = self.reply(f"/rpc/{name}", query, authorization, "POST")
        if said.status == 401:
            return said
        part = "result" if said.status == 200 else "error"
        return Reply(200, {"id": frame.get("id"), "src": _REALM, part: said.values})

    def _may(self, authorization: str, method: str) -> bool:
        """RFC 7616 with SHA-256 and qop=auth."""
        said = {key: quoted or bare for key, quoted, bare in _PARTS.findall(authorization)}
        if not authorization.startswith("Digest ") or said.get("nonce") not in self.nonces:
            return False
        login = _sha256(f"{_USER}:{_REALM}:{self.password}")
        asked = _sha256(f"{method}:{said.get('uri')}")
        middle = ":".join(said.get(key, "") for key in ("nonce", "nc", "cnonce", "qop"))
        return said.get("response") == _sha256(f"{login}:{middle}:{asked}")


_PARTS: Final = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')


@contextmanager
def serving(device: EmulatedSwitch, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The device at a port of this machine; HOST:PORT. OSError where the port cannot be had."""
    lock = threading.Lock()
    now = 0

    @contextmanager
    def counted() -> Iterator[None]:
        nonlocal now
        with lock:
            now += 1
            device.busiest = max(device.busiest, now)
        try:
            time.sleep(device.takes_s)
            yield
        finally:
            with lock:
                now -= 1

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            """One answer."""
            url = urlsplit(self.path)
            with counted(), lock:
                device.asked.append(self.path)
                query = dict(parse_qsl(url.query))
                reply = device.reply(url.path, query, self.headers.get("Authorization", ""))
            self._send(reply)

        def do_POST(self) -> None:
            """One answer."""
            length = self.headers.get("Content-Length", "")
            body = self.rfile.read(min(int(length), _MOST_BYTES)) if length.isdigit() else b""
            with counted(), lock:
                device.asked.append(self.path)
                reply = device.posted(urlsplit(self.path).path, body, self.headers.get("Authorization", ""))
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            text = reply.values if isinstance(reply.values, str) else json.dumps(reply.values)
            self.send_response(reply.status)
            self.send_header("Content-Type", "text/plain" if text is reply.values else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            for name, value in reply.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: `asked` has it."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

    server = Server((host, port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
