"""As drive.py, with a counting proxy between the agents and the controller's control port:

    python quiet_drive.py LOG FILE RUNS_DIR [KEY=VALUE...]

LOG gets a line per piece of data: CLOCK_MONOTONIC in ns, "up" (from an agent) or "down", bytes.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import drive

from roambench.fleet.local_agents import LocalAgents

_log_lock = threading.Lock()


def proxy(upstream_port: int, log: Path) -> int:
    """A proxy in threads of its own; returns its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket, direction: str) -> None:
        with log.open("a", buffering=1) as lines:
            while True:
                try:
                    data = source.recv(65536)
                    arrived_ns = time.monotonic_ns()
                    if data:
                        sink.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    break
                with _log_lock:
                    lines.write(f"{arrived_ns} {direction} {len(data)}\n")
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def serve() -> None:
        while True:
            agent, _ = listener.accept()
            controller = socket.create_connection(("127.0.0.1", upstream_port))
            for source, sink, direction in ((agent, controller, "up"), (controller, agent, "down")):
                threading.Thread(target=pump, args=(source, sink, direction), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


class ProxiedAgents(LocalAgents):
    """Local agents that dial the proxy."""

    log = Path("/dev/null")

    def __init__(self, folder: Path, names: tuple[str, ...], controller: str, *rest: Any) -> None:
        port = proxy(int(controller.rsplit(":", 1)[1]), self.log)
        super().__init__(folder, names, f"127.0.0.1:{port}", *rest)


if __name__ == "__main__":
    ProxiedAgents.log = Path(sys.argv[1])
    drive.main(sys.argv[2:], ProxiedAgents)
