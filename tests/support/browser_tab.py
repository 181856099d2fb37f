"""A real Chromium without a window, driven over the DevTools protocol.

Where there is none, tests that want one are skipped; with CI=true set that is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from roambench.report.traces.pictures import BROWSERS


@dataclass
class Browser:
    """One tab of a Chromium without a window; `requested` are the addresses that its page asked for."""

    link: ClientConnection
    requested: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    calls: int = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.calls += 1
        self.link.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            told = json.loads(self.link.recv(timeout=30))
            if told.get("method") == "Network.requestWillBeSent":
                self.requested.append(told["params"]["request"]["url"])
            elif told.get("method") == "Runtime.exceptionThrown":
                self.faults.append(str(told["params"]["exceptionDetails"]))
            elif told.get("id") == self.calls:
                assert "error" not in told, told
                return dict(told["result"])

    def value(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression)["result"].get("value")


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("needs a Chromium-based browser: make servers installs one as root")
    quiet = ("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    ours = (f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank")
    command = [program, *quiet, "--no-sandbox", *ours]
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        told = profile / "DevToolsActivePort"
        deadline_s = time.monotonic() + 60
        while not (told.is_file() and len(told.read_text().split()) == 2):
            assert running.poll() is None, f"{program} ended with {running.returncode}"
            assert time.monotonic() < deadline_s, f"{program} does not listen"
            time.sleep(0.05)
        port, path = told.read_text().split()
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as whole:
            tabs: list[str] = []
            while not tabs:  # the first one comes a moment after the port
                assert time.monotonic() < deadline_s, f"{program} opens no page"
                targets = Browser(whole).call("Target.getTargets")["targetInfos"]
                tabs = [target["targetId"] for target in targets if target["type"] == "page"]
            with connect(f"ws://127.0.0.1:{port}/devtools/page/{tabs[0]}", max_size=None) as link:
                browser = Browser(link)
                for domain in ("Network", "Page", "Runtime"):
                    browser.call(f"{domain}.enable")
                yield browser
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # helpers too: the crash handlers end with the last
        running.wait(30)
