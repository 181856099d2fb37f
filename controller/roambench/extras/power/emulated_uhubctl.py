"""A uhubctl without a hub: its options -l, -p and -a on a made-up hub, which a file remembers."""

from __future__ import annotations

import argparse
import fcntl
import json
import shlex
import sys
from pathlib import Path
from typing import Final

_ON, _OFF = "0503 power highspeed enable connect [0781:5567 SanDisk Cruzer]", "0000 off"
_MANNER: Final = {False: "ppps", True: "ganged"}


def install(folder: Path, location: str, ports: int, *, ganged: bool = False) -> Path:
    """A program `uhubctl` in `folder`, whose hub has that many ports, all of them on."""
    hub = folder / "hub.json"
    hub.write_text(json.dumps({"location": location, "ganged": ganged, "ports": [True] * ports}))
    program = folder / "uhubctl"
    run = [sys.executable, str(Path(__file__).resolve()), str(hub)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(run)} "$@"\n')
    program.chmod(0o755)
    return program


def main(words: list[str]) -> int:
    """Return what uhubctl 2.5 prints for these words; the first is the hub's file."""
    parser = argparse.ArgumentParser(prog="uhubctl")
    parser.add_argument("hub", type=Path)
    parser.add_argument("-l", "--location")
    parser.add_argument("-p", "--ports")
    parser.add_argument("-a", "--action", choices=("on", "off"))
    asked = parser.parse_args(words)
    with asked.hub.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        hub = json.load(file)
        if asked.location not in (None, hub["location"]):
            print(f"No compatible devices detected at location {asked.location}!", file=sys.stderr)
            print("Run with -h to get usage info.", file=sys.stderr)
            return 1
        chosen = [int(asked.ports)] if asked.ports else range(1, len(hub["ports"]) + 1)
        print(_status("Current", hub, chosen))
        if asked.action:
            print(f"Sent power {asked.action} request")
            for number in range(1, len(hub["ports"]) + 1):
                if number in chosen or hub["ganged"]:
                    hub["ports"][number - 1] = asked.action == "on"
            print(_status("New", hub, chosen))
            file.seek(0)
            json.dump(hub, file)
            file.truncate()
    return 0


def _status(when: str, hub: dict[str, object], chosen: range | list[int]) -> str:
    ports = hub["ports"]
    assert isinstance(ports, list)
    about = f"0424:2514, USB 2.00, {len(ports)} ports, {_MANNER[bool(hub['ganged'])]}"
    there = [number for number in chosen if 1 <= number <= len(ports)]
    lines = [f"  Port {number}: {_ON if ports[number - 1] else _OFF}" for number in there]
    return "\n".join([f"{when} status for hub {hub['location']} [{about}]", *lines])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
