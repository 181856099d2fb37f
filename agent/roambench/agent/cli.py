"""`roambench-agent`: what systemd starts on a Pi, and what asks the agent that runs there."""

from __future__ import annotations

import argparse
import json
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Final

from roambench.agent.board_load import BoardLoad
from roambench.agent.life.launch import run_agent
from roambench.agent.settings import AgentSettings
from roambench.contract.errors import ConfigError, FleetError, RoambenchError

#: Where a provisioned agent listens.
_SOCKET: Final = Path("/run/roambench/ctl.sock")


def main() -> None:
    """The command `roambench-agent`; exits the process with its status."""
    parser = argparse.ArgumentParser(
        prog="roambench-agent", description="Runs on a device: trains on order, reads the power meter."
    )
    parser.add_argument("--version", action="version", version=version("roambench"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="dial the controller and serve until stopped (without a controller: log the meter)"
    )
    run.add_argument("--settings", type=Path, required=True, metavar="FILE", help="agent settings (JSON)")
    shape = commands.add_parser("shape", help="hold a network interface to a rate (root); replaces its shape")
    shape.add_argument("interface", metavar="INTERFACE", help="for example wlan0")
    shape.add_argument("--up-mbit-s", type=float, metavar="RATE", help="sending, in Mbit/s")
    shape.add_argument("--down-mbit-s", type=float, metavar="RATE", help="receiving, in Mbit/s")
    shape.add_argument("--off", action="store_true", help="set the interface free")
    ctl = commands.add_parser("ctl", help="ask the agent that runs on this machine; the answer is JSON")
    ctl.add_argument(
        "words", nargs="+", metavar="WHAT", help="status, smoke, burn SECONDS, spool-export, ..."
    )
    ctl.add_argument("--socket", type=Path, default=_SOCKET, metavar="PATH", help=f"default: {_SOCKET}")
    ctl.add_argument(
        "--timeout", type=float, default=700.0, metavar="S", help="longest silence; default: 700"
    )
    arguments = parser.parse_args()
    try:
        if "words" in arguments:
            request = {"ask": arguments.words[0], "words": arguments.words[1:]}
            status = ask(arguments.socket, request, sys.stdout.buffer, arguments.timeout)
        else:
            status = _shape(arguments) if "interface" in arguments else _run(arguments)
    except RoambenchError as error:
        for line in str(error).splitlines():
            print(f"roambench-agent: {line}", file=sys.stderr)
        status = error.exit_code
    sys.exit(status)


def _run(arguments: argparse.Namespace) -> int:
    settings = AgentSettings.load(arguments.settings)
    if settings.emulation is not None:
        expected = "expected none: this command is for boards (local fleets have emulated ones)"
        raise ConfigError([f"{arguments.settings}: emulation: {expected}"])
    return run_agent(settings, BoardLoad())


def _shape(arguments: argparse.Namespace) -> int:
    from roambench.agent.traffic_shaper import ShapedRates, apply

    rated = arguments.up_mbit_s is not None or arguments.down_mbit_s is not None
    if rated == arguments.off:
        raise ConfigError(["shape: expected --up-mbit-s or --down-mbit-s or both, or --off alone"])
    apply(ShapedRates(arguments.interface, arguments.up_mbit_s, arguments.down_mbit_s))
    return 0


def ask(path: Path, request: dict[str, Any], out: BinaryIO, timeout_s: float) -> int:
    """Copy the answer to `out` line by line; 1 if it is an error. FleetError: there is no answer."""
    status = 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(str(path))
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
        reason = f"no answer within {timeout_s:.0f} s" if isinstance(error, TimeoutError) else str(error)
        raise FleetError(f"{path}: {reason}; is roambench-agent.service running here?") from None
    return status


if __name__ == "__main__":
    main()
