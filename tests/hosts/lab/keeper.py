"""The process that owns a set of hosts: `python tests/hosts/lab/keeper.py [--until-eof] [--set N]
[--architecture A] NAME[:FLAVOUR][+TRAIT]...`.

It takes the first free set, cleans what dead owners left of any, boots, prints one line of JSON, and then
does what it is asked at `ctl.sock`: one JSON object per line, {"do": "off", "host": "pi1"}. With --until-eof
the end of its standard input ends it, so that a killed test run leaves nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import IO

sys.path[0] = str(Path(__file__).resolve().parents[2])

from hosts.lab.container import Trait  # noqa: E402
from hosts.lab.foreign import ARCHITECTURES, NATIVE  # noqa: E402
from hosts.lab.hosts_set import HostsSet, clean  # noqa: E402
from hosts.lab.places import sets  # noqa: E402

_SETS = 10
_PERIOD_S = 0.25


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until-eof", action="store_true")
    parser.add_argument("--set", type=int, default=None)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default=NATIVE)
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    wanted = range(_SETS) if arguments.set is None else [arguments.set]
    for number in range(_SETS):
        if number not in wanted and (lock := _lock(number)):
            clean(number, keep_logs=True)
            lock.close()
    for number in wanted:
        if lock := _lock(number):
            with lock:
                named = [_named(word) for word in arguments.names]
                flavours = {name: flavour for name, flavour, _ in named}
                traits = {name: given for name, _, given in named}
                hosts = HostsSet(number, flavours, arguments.architecture, traits)
                return _keep(hosts, until_eof=arguments.until_eof)
    print(json.dumps({"error": "every set of hosts is in use"}), flush=True)
    return 1


def _named(word: str) -> tuple[str, str, list[Trait]]:
    told, *traits = word.split("+")
    name, _, flavour = told.partition(":")
    return name, flavour or "debian", [Trait(trait) for trait in traits]


def _lock(number: int) -> IO[str] | None:
    (sets() / str(number)).mkdir(exist_ok=True)
    # Networks and control groups are the machine's, whatever folder a set's cards are in.
    lock = Path(f"/run/roambench-hosts-{number}.lock").open("w")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _keep(hosts: HostsSet, *, until_eof: bool) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asked for the hosts
    try:
        hosts.start()
        with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
            listener.bind(str(hosts.folder / "ctl.sock"))
            listener.listen()
            selector.register(listener, selectors.EVENT_READ)
            if until_eof:
                selector.register(sys.stdin, selectors.EVENT_READ)
            print(json.dumps({"set": hosts.network.number, "folder": str(hosts.folder)}), flush=True)
            _serve(hosts, listener, selector)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        raise
    finally:
        hosts.stop()
    return 0


def _serve(hosts: HostsSet, listener: socket.socket, selector: selectors.BaseSelector) -> None:
    due_s = time.monotonic()
    while True:
        for key, _ in selector.select(max(0.0, due_s - time.monotonic())):
            if key.fileobj is sys.stdin:
                if not sys.stdin.readline():
                    return
                continue
            line, _ = listener.accept()
            with line, line.makefile("rw") as file:
                asked = json.loads(file.readline())
                file.write(json.dumps(_answer(hosts, asked)) + "\n")
            if asked["do"] == "down":
                return
        if time.monotonic() >= due_s:
            hosts.look()
            due_s = time.monotonic() + _PERIOD_S


def _answer(hosts: HostsSet, asked: dict[str, str]) -> dict[str, object]:
    commands = {
        "off": hosts.power_off,
        "on": hosts.power_on,
        "flash": hosts.flash,
        "change host key": hosts.change_host_key,
    }
    try:
        if asked["do"] in commands:
            commands[asked["do"]](asked["host"])
        elif asked["do"] not in ("state", "down"):
            raise RuntimeError(f"unknown: {asked['do']!r}")
        return {"hosts": hosts.state()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    sys.exit(main())
