"""Runs on a host, under its own Python and nothing else: tells which of other hosts it reaches.

The arguments are its name and its address. It listens there on a free port, as an agent's peer port does, and
prints that port. Then it reads a line of JSON, each other host's address and port by name, and prints one:
why that host does not answer, by name, "" where it does. It listens on until its input ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

_PATIENCE_S = 5.0
_BACKLOG = 256
_LONGEST_NAME = 256


def listening(name: str, address: str) -> int:
    """Send `name` over each connection to the address, from another thread; return the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.create_server((address, 0), family=family, backlog=_BACKLOG)

    def answer() -> None:
        while True:
            try:
                line, _ = server.accept()
                with line:
                    line.settimeout(_PATIENCE_S)
                    line.sendall(name.encode())
            except OSError:  # its caller is gone
                continue

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def lost(name: str, address: str, port: int) -> str:
    """Return why host `name` does not answer at the address, "" where it does."""
    try:
        with socket.create_connection((address, port), _PATIENCE_S) as line, line.makefile("rb") as said:
            found = said.read(_LONGEST_NAME).decode(errors="replace")
    except ConnectionRefusedError:  # by whom? It listens
        return "a firewall refuses connections"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    return "" if found == name else f"another answers there: {found!r}"


if __name__ == "__main__":
    try:
        print(listening(*sys.argv[1:]), flush=True)
    except OSError as error:
        print(f"it cannot listen: {os.strerror(error.errno or 0)}", flush=True)
        sys.exit(1)
    asked = json.loads(sys.stdin.readline() or "{}")
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        answers = {other: pool.submit(lost, other, *place) for other, place in asked.items()}
        print(json.dumps({other: answer.result() for other, answer in answers.items()}), flush=True)
    sys.stdin.read()
