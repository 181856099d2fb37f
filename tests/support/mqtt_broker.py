"""A real MQTT broker on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest


class Broker:
    """mosquitto on loopback; without it the test is skipped."""

    def __init__(self, folder: Path, settings: str = "allow_anonymous true\n") -> None:
        binary = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:" + os.environ["PATH"])
        if binary is None:
            pytest.skip("mosquitto is not installed: make servers")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.how: dict[str, Any] = {}
        self._command = [binary, "-c", str(folder / "mosquitto.conf")]
        (folder / "mosquitto.conf").write_text(f"listener {self.port} 127.0.0.1\n{settings}")

    def answers(self) -> bool:
        """True once it listens."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(*self._command, stderr=asyncio.subprocess.DEVNULL)
        try:
            async with asyncio.timeout(30):
                while not self.answers():
                    await asyncio.sleep(0.02)
            yield
        finally:
            process.terminate()
            await process.wait()

    async def publish(self, topic: str, *payloads: str, retain: bool = False) -> None:
        client = pytest.importorskip("paho.mqtt.publish")
        messages = [{"topic": topic, "payload": text, "retain": retain} for text in payloads]
        await asyncio.to_thread(client.multiple, messages, "localhost", self.port, **self.how)
