"""Commands to a running emulator, for proofs and for people: faults, counts, stop."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Final

from roambench.contract.errors import MeterError
from roambench.emulation.addresses import unix_address
from roambench.emulation.spec import Fault

#: Host seconds; on a crowded laptop the emulator has many meters to serve first.
_ANSWER_S: Final = 30.0


def inject(socket_path: Path, device: str, fault: Fault) -> None:
    """Let `fault` happen to the meter of `device`, `fault.at_s` of device time from now."""
    _command(socket_path, {"ctl": "fault", "device": device, **asdict(fault)})


def switch_output(socket_path: Path, device: str, *, on: bool) -> None:
    """Switch the output of the meter of `device`, as its own switch does."""
    _command(socket_path, {"ctl": "output", "device": device, "on": on})


def addresses(socket_path: Path) -> dict[str, dict[str, str]]:
    """Device -> transport -> where its meter can be read."""
    found = _command(socket_path, {"ctl": "addresses"})["addresses"]
    if not isinstance(found, dict):
        raise MeterError(f"emulator {socket_path}: expected addresses, got {found!r}")
    return found


def stats(socket_path: Path) -> dict[str, object]:
    """The emulator's counters (see `EmulatorServer.stats`)."""
    return _command(socket_path, {"ctl": "stats"})


def stop(socket_path: Path) -> None:
    """End the emulator as SIGTERM does."""
    _command(socket_path, {"ctl": "stop"})


def _command(socket_path: Path, values: dict[str, object]) -> dict[str, object]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_ANSWER_S)
            with unix_address(socket_path) as address:
                line.connect(address)
            line.sendall(json.dumps(values).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline())
    except TimeoutError:
        raise MeterError(f"emulator {socket_path}: does not answer within {_ANSWER_S:g} s") from None
    except (OSError, ValueError) as error:
        raise MeterError(f"emulator {socket_path}: does not answer ({error})") from None
    if "error" in answer:
        raise MeterError(f"emulator {socket_path}: {answer['error']}")
    return dict(answer)
