"""`roambench watch` as a process of its own, and what it serves."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_commands import Command


@dataclass
class Watching:
    """A server that was started; `address` is the one it printed."""

    process: subprocess.Popen[str] | Command
    address: str

    @property
    def port(self) -> int:
        found = re.search(r":(\d+)/", self.address)
        assert found is not None, self.address
        return int(found.group(1))

    def get(self, path: str, **headers: str) -> tuple[http.client.HTTPResponse, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as link:
            link.request("GET", path, headers=headers)
            answer = link.getresponse()
            return answer, answer.read().decode()

    @contextmanager
    def stream(self, run: str = "") -> Iterator[Iterator[dict[str, Any]]]:
        """The messages of a page that is open."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        link.request("GET", f"/stream?run={run}")
        answer = link.getresponse()
        assert answer.status == 200, answer.read()

        def messages() -> Iterator[dict[str, Any]]:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        try:
            yield messages()
        finally:
            answer.close()
            link.close()


@contextmanager
def watching(path: Path, *options: str) -> Iterator[Watching]:
    """A server of the runs at `path` on a free port."""
    command = [sys.executable, "-m", "roambench.cli.main", "watch", str(path), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, line + (process.stderr.read() if process.stderr and not line else "")
        yield Watching(process, line.rpartition(" ")[2].strip())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
