"""`roambench-agent ctl`: asks the agent on this machine and prints what it says, as JSON."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from roambench.contract.errors import FleetError

#: Where a provisioned agent listens.
SOCKET: Final = Path("/run/roambench/ctl.sock")
_CONNECT_S: Final = 5.0


def ask(path: Path, request: dict[str, Any], out: BinaryIO, timeout_s: float) -> int:
    """Copy the answer to `out` line by line; 1 if it is an error. FleetError: nobody answers."""
    status = 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_CONNECT_S)
            line.connect(str(path))
            line.settimeout(timeout_s)
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                some = False
                for answer in answers:
                    some = True
                    out.write(answer)
                    status = int(answer.startswith(b'{"error"'))
                if not some:
                    raise FleetError(f"{path}: the agent closed the connection without an answer")
        out.flush()
    except OSError as error:
        told = f"no answer within {timeout_s:.0f} s" if isinstance(error, TimeoutError) else str(error)
        raise FleetError(f"{path}: {told}; is roambench-agent.service running here?") from None
    return status


def main(words: list[str], path: Path, timeout_s: float) -> int:
    """Ask for words[0] with the rest as its arguments."""
    return ask(path, {"ask": words[0], "words": words[1:]}, sys.stdout.buffer, timeout_s)
