"""Hosts for trials by hand: `python tests/hosts/boot.py up`, list, off, on, flash, reboot, shell, down.

`up [--set N] [--architecture arm64] [NAME[:FLAVOUR][+TRAIT]...]` boots three fresh hosts (the first free
set) and leaves them up; it prints their bench description. A set that is up already is only told of. Needs
root.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from hosts.lab.bench_hosts import HOSTS, BenchHosts, running_sets, start_lasting  # noqa: E402
from hosts.lab.foreign import ARCHITECTURES, NATIVE  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "command", choices=["up", "list", "down", "off", "on", "flash", "change-host-key", "reboot", "shell"]
    )
    parser.add_argument("names", nargs="*", help=f"hosts; for up: default {' '.join(HOSTS)}")
    parser.add_argument("--set", type=int, default=None, help="which set, 0 to 9")
    parser.add_argument(
        "--architecture", choices=ARCHITECTURES, default=NATIVE, help="for up: arm64 is emulated, and slow"
    )
    arguments = parser.parse_intermixed_args()
    up = running_sets()
    if arguments.command == "list":
        for number, hosts in up.items():
            _tell(number, hosts)
        return 0
    if arguments.command == "up":
        hosts = up.get(arguments.set) if arguments.set is not None else None
        log = Path(tempfile.mkstemp(prefix="roambench-hosts-", suffix=".log")[1])
        hosts = hosts or start_lasting(arguments.set, arguments.names or HOSTS, log, arguments.architecture)
        _tell(int(hosts.folder.name), hosts)
        return 0
    if arguments.set is None and len(up) != 1:
        parser.error(f"--set N: {', '.join(map(str, up)) or 'none'} are up")
    hosts = up[arguments.set] if arguments.set is not None else next(iter(up.values()))
    return _do(hosts, arguments.command, arguments.names)


def _do(hosts: BenchHosts, command: str, names: list[str]) -> int:
    if command == "down":
        hosts.down()
        return 0
    if command == "shell":
        init = str(hosts.state()[names[0]]["init"])
        return subprocess.run(["nsenter", "-t", init, "-a", "/bin/bash", "-l"], check=False).returncode
    actions = {
        "off": hosts.off,
        "on": hosts.on,
        "flash": hosts.flash,
        "change-host-key": hosts.change_host_key,
        "reboot": hosts.reboot,
    }
    for name in names:
        actions[command](name)
    return 0


def _tell(number: int, hosts: BenchHosts) -> None:
    print(f"set {number}: {hosts.bench}")
    for name, state in hosts.state().items():
        power = "on" if state["on"] else "off"
        way = f"ssh -i {hosts.key} -p {state['port']} {state['user']}@{state['address']}"
        print(f"  {name}  {power}  {way}  meter {state['hop']}")


if __name__ == "__main__":
    sys.exit(main())
