"""A topic of an MQTT broker, by the library paho-mqtt, whose thread hands messages to the running loop."""

from __future__ import annotations

import asyncio
import os
import shlex
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roambench.extras.meters.library import library, on_loop
from roambench.extras.meters.mqtt_frames import LONGEST
from roambench.meters.sources.source import Lost, Take, cause

#: Seconds for the connection, and for the broker's answers.
CONNECT_S: Final = 5.0
#: A connection that carried nothing for one and a half of this is dead.
_KEEPALIVE_S: Final = 15
_MOST_LOGIN: Final = 1024


@dataclass
class MqttTopic:
    """A `MeterSource`. Retained messages are no readings: the broker kept them for an unknown time. Messages
    of the time without a connection are not asked for.

    `login`: a file of ours alone with `USER:PASSWORD`. With `tls` the broker proves who it is, by a
    certificate that the authorities of the file `ca` have signed ("": those that this machine trusts).
    """

    host: str
    port: int
    topic: str
    qos: int = 0
    login: str = ""
    tls: bool = False
    ca: str = ""
    _client: Any = None

    @property
    def unit(self) -> str:
        """The topic: it names the publisher."""
        return f"mqtt {self.host}:{self.port} {self.topic}"

    async def open(self, take: Take, lost: Lost) -> None:
        """Connect and subscribe; OSError or ValueError says why the broker gives no messages."""
        mqtt = library("paho.mqtt.client", "paho-mqtt", "mqtt")
        loop = asyncio.get_running_loop()
        hand_over = on_loop(loop)
        subscribed: asyncio.Future[str] = loop.create_future()
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        client.connect_timeout = CONNECT_S
        if self.login:
            client.username_pw_set(*_login(Path(self.login)))
        if self.tls:
            client.tls_set_context(_trusted(self.ca))

        def answer(why: str) -> None:
            if not subscribed.done():
                subscribed.set_result(why)

        def on_connect(_c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
            if reason.is_failure:
                hand_over(answer, f"the broker refuses: {_words(reason)}")
            else:
                client.subscribe(self.topic, self.qos)

        def on_subscribe(_c: Any, _u: Any, _m: Any, reasons: Any, _p: Any) -> None:
            refused = [reason for reason in reasons if reason.is_failure]
            hand_over(answer, f"the broker refuses the topic: {_words(refused[0])}" if refused else "")

        def on_message(_c: Any, _u: Any, message: Any) -> None:
            if not message.retain:
                hand_over(arrived, bytes(message.payload[: LONGEST + 1]).replace(b"\n", b" "))

        def arrived(data: bytes) -> None:
            if self._client is client:
                take(data)

        def on_disconnect(_c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
            hand_over(ended, _words(reason))

        def ended(why: str) -> None:
            if not subscribed.done():
                answer(f"the broker hung up: {why}")
            elif self._client is client:
                self._client = None
                lost(f"the broker hung up: {why}")

        client.on_connect, client.on_subscribe = on_connect, on_subscribe
        client.on_message, client.on_disconnect = on_message, on_disconnect
        try:
            await asyncio.to_thread(client.connect, self.host, self.port, _KEEPALIVE_S)
            client.loop_start()
            async with asyncio.timeout(CONNECT_S):
                refusal = await subscribed
            if refusal:
                raise ValueError(refusal)
        except (ssl.SSLError, ConnectionResetError) as error:
            await asyncio.to_thread(_end, client)
            raise ValueError(self._refused(error)) from None
        except TimeoutError:
            await asyncio.to_thread(_end, client)
            raise TimeoutError(f"no answer within {CONNECT_S:g} s") from None
        except BaseException:
            await asyncio.to_thread(_end, client)
            raise
        self._client = client

    def _refused(self, error: ssl.SSLError | ConnectionResetError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            trusted = self.ca or "the authorities that this machine trusts (name the broker's: ca=FILE)"
            return f"the broker's certificate does not hold by {trusted}: {error.verify_message}"
        return f"{cause(error)}{f': is port {self.port} one of TLS?' * self.tls}"

    async def close(self) -> None:
        """Hang up."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_end, client)


def _end(client: Any) -> None:
    client.disconnect()
    client.loop_stop()


def _words(reason: object) -> str:
    text = str(reason)[:100]
    return text if text.isprintable() else ascii(text)


def _trusted(ca: str) -> ssl.SSLContext:
    """Checks of certificates by the authorities of a file; ValueError where it has none."""
    try:
        return ssl.create_default_context(cafile=Path(ca).expanduser() if ca else None)
    except OSError as error:  # an SSLError is one
        what = "expected certificates (PEM)" if isinstance(error, ssl.SSLError) else cause(error)
        raise ValueError(f"ca: {ca}: {what}") from None


def _login(path: Path) -> tuple[str, str]:
    """User and password; ValueError where others may read the file, or it holds something else."""
    path = path.expanduser()
    with path.open("rb") as opened:
        if os.fstat(opened.fileno()).st_mode & 0o077:
            raise ValueError(f"login: others may read {path}: chmod 600 {shlex.quote(str(path))}")
        text = opened.read(_MOST_LOGIN).partition(b"\n")[0].decode("utf-8-sig", "replace").strip()
    user, colon, password = text.partition(":")
    if not colon or not user or not text.isprintable():
        raise ValueError(f"login: {path}: expected one line USER:PASSWORD")
    return user, password
