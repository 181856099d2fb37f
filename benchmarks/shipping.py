"""Wheels to 36 boards behind one access point: ours as ratios to what raw TCP brings over the same air.

    python benchmarks/shipping.py [--boards 36] [--slow 2] [--scale 20] [--mbit 40] [--slow-mbit 2]

Real SSH servers in network namespaces, on an air that is shared as an access point shares it
(`access_point.air`): equal time for every board, or equal packets. Sizes are those of the aarch64 wheelhouse
(147 MB) divided by `--scale`, and so are a turn's seconds and the install that follows, of which nobody has
measured how long a Pi takes: 300 s are taken, slept on the board. So times are `--scale` times shorter than a
bench's, and rates the same.

Limit: all bytes at the rates that raw TCP reaches to one fast and to one slow board alone, in the same run.
"last" is when the last board had its wheels, "ready" when the last one was installed, "first ready" the first
one: over that limit. "mean fast" and "last fast" are when boards that are not slow had theirs, over the limit
of those alone. "air" is what was sent, over the wheels' own bytes; "fair" the longest over the shortest time
that boards of one rate were sent something.

Goals, of "turns", which is what `fleet provision` does: last <= 1.15, air <= 1.1; last fast <= 1.15 with
equal boards, <= 1.5 with equal time, <= 2 with equal packets. "twelve" is what was done before: twelve hosts
at a time from login to the end of the install. It takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

_TESTS: Final = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "support")]

from access_point.air import Air, air  # noqa: E402
from setting.figures import keep  # noqa: E402

from benches import bench_of  # noqa: E402
from roambench.provision import layout  # noqa: E402
from roambench.provision.bench import Bench  # noqa: E402
from roambench.provision.provisioning import perform  # noqa: E402
from roambench.provision.ssh.hosts import HostLink, on_hosts  # noqa: E402
from roambench.provision.step import HostStep, Shipment, ShippedFile  # noqa: E402
from roambench.provision.wheels.shipping import Sent  # noqa: E402
from roambench.provision.wheels.turns import Turns  # noqa: E402
from ssh_server import SshServer, ssh_server  # noqa: E402

#: Bytes of the files of torch 2.9.1's wheelhouse, the small ones together.
SIZES: Final = (
    104_220_430,
    15_966_692,
    7_215_807,
    6_299_353,
    4_737_859,
    2_068_504,
    2_055_563,
    *[225_000] * 20,
)
INSTALL_S: Final = 300.0
TURN_S: Final = 15.0
_HASH: Final = "0123456789abcdef"
_RAW_S: Final = 4.0
_SINK: Final = """
import socket, sys
server = socket.create_server((sys.argv[1], 9))
while True:
    here, _ = server.accept()
    while here.recv(65536): pass
    here.close()
"""


@dataclass(frozen=True)
class Way:
    """How many hosts at a time, and how many of them are sent something at a time."""

    name: str
    hosts: int
    sent: int


@dataclass
class Board:
    """Seconds after the command began."""

    has_wheels_s: float = 0.0
    ready_s: float = 0.0
    sending_s: float = 0.0


@contextmanager
def servers(here: Air, folder: Path) -> Iterator[list[SshServer]]:
    with ExitStack() as running:
        found = []
        for board in range(len(here.rates)):
            own = folder / f"board{board}"
            own.mkdir()
            inside = ("ip", "netns", "exec", here.namespace(board))
            found.append(running.enter_context(ssh_server(own, here.address(board), inside)))
        yield found


def bench(folder: Path, found: Sequence[SshServer]) -> Bench:
    hosts = "".join(
        f'[[hosts]]\nname = "pi-{number:02d}"\naddress = "{server.address}"\nssh_user = "root"\n'
        f'ssh_port = {server.port}\nssh_key = "{server.client_key}"\nmeter.driver = "none"\n'
        for number, server in enumerate(found)
    )
    return bench_of(folder, hosts)


def shipment(folder: Path, scale: float) -> Shipment:
    draws = random.Random(1)
    contents = {f"{number}.whl": draws.randbytes(round(size / scale)) for number, size in enumerate(SIZES)}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents["SHA256SUMS"] = "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()
    with tarfile.open(folder / "wheels.tar", "w") as tar:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    files = (ShippedFile(name, len(content), digests.get(name, "")) for name, content in contents.items())
    return Shipment(folder / "wheels.tar", f"{layout.WHEELS}/{_HASH}", tuple(files))


def raw_bytes_per_s(here: Air, board: int) -> float:
    """One TCP stream alone, to a board; counted where it arrives is what was sent less a small buffer."""
    inside = ("ip", "netns", "exec", here.namespace(board))
    sink = subprocess.Popen([*inside, sys.executable, "-c", _SINK, here.address(board)])
    try:
        end_s = time.monotonic() + 20.0
        while True:
            try:
                stream = socket.create_connection((here.address(board), 9))
                break
            except ConnectionRefusedError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
        with stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
            sent, began_s = 0, time.monotonic()
            while time.monotonic() < began_s + _RAW_S:
                stream.sendall(bytes(8192))
                sent += 8192
            return sent / (time.monotonic() - began_s)
    finally:
        sink.kill()
        sink.wait()


def ship_to_all(described: Bench, what: Shipment, way: Way, scale: float) -> dict[str, Board]:
    boards = {host.name: Board() for host in described.hosts}
    turns = Turns(way.sent, TURN_S / scale)
    target = what.folder
    step = HostStep(
        "wheels",
        "not there",
        f"cd {target}.new && sha256sum --check --quiet --strict SHA256SUMS && sync -f . && "
        f"mv {target}.new {target}",
        shipment=what,
        timeout_s=300.0,
    )
    began_s = time.monotonic()

    def work(link: HostLink) -> None:
        board = boards[link.host.name]
        sent = Sent(lambda line: None)
        perform(link, step, sent, turns)
        board.has_wheels_s = time.monotonic() - began_s
        board.sending_s = sent.sending_s
        link.must(f"sleep {INSTALL_S / scale}")
        board.ready_s = time.monotonic() - began_s

    for outcome in on_hosts(described, described.hosts, work, at_once=way.hosts):
        if outcome.failed:
            raise SystemExit(f"{outcome.host.name}: {outcome.reason}")
    return boards


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--boards", type=int, default=36)
    asked.add_argument("--slow", type=int, default=2)
    asked.add_argument("--scale", type=float, default=20.0)
    asked.add_argument("--mbit", type=float, default=40.0)
    asked.add_argument("--slow-mbit", type=float, default=2.0)
    asked.add_argument("--world", action="append", choices=["equal boards", "equal time", "equal packets"])
    asked.add_argument("--way", action="append", metavar="NAME:HOSTS:SENT", help="instead of those compared")
    args = asked.parse_args()
    if os.geteuid() != 0 or not shutil.which("ip") or not Path("/dev/net/tun").exists():
        print("not measured: this needs root, iproute2 and /dev/net/tun")
        return
    ways = [Way("twelve", 12, 12), Way("all at once", 64, 64), Way("turns", 64, 4)]
    if args.way:
        ways = [
            Way(name, int(hosts), int(sent)) for name, hosts, sent in (way.split(":") for way in args.way)
        ]
    console, lasts = Console(width=140), []
    for world in args.world or ["equal boards", "equal time", "equal packets"]:
        slow = 0 if world == "equal boards" else args.slow
        # The slow ones are spread over the bench, as they stand in its description.
        rates = [args.mbit] * args.boards
        for number in range(slow):
            rates[number * args.boards // slow] = args.slow_mbit
        with (
            air(rates, equal_packets=world == "equal packets") as here,
            tempfile.TemporaryDirectory() as name,
        ):
            folder = Path(name)
            what = shipment(folder, args.scale)
            fast_bytes_per_s = raw_bytes_per_s(here, rates.index(args.mbit))
            slow_bytes_per_s = raw_bytes_per_s(here, rates.index(args.slow_mbit)) if slow else 1.0
            fast_s = (args.boards - slow) * what.size_bytes / fast_bytes_per_s
            limit_s = fast_s + slow * what.size_bytes / slow_bytes_per_s
            title = (
                f"{world}: {args.boards} x {what.size_bytes / 1e6:.2f} MB, {slow} of them slow; limit "
                f"{limit_s:.1f} s, fast ones alone {fast_s:.1f} s (x {args.scale:g} on a bench)"
            )
            table = Table(title=title, title_justify="left")
            for column in ("way", "last", "mean fast", "last fast", "first ready", "ready", "air", "fair"):
                table.add_column(column, justify="left" if column == "way" else "right")
            with servers(here, folder) as found:
                described = bench(folder, found)
                for way in ways:
                    for server in found:
                        shutil.rmtree(server.root, ignore_errors=True)
                        (server.root / layout.WHEELS.lstrip("/")).mkdir(parents=True)
                    before = here.carried_bytes()
                    boards = list(ship_to_all(described, what, way, args.scale).values())
                    carried = here.carried_bytes() - before
                    fast = [board for board, rate in zip(boards, rates, strict=True) if rate == args.mbit]
                    own_s = [board.sending_s for board in fast]
                    table.add_row(
                        way.name,
                        f"{max(board.has_wheels_s for board in boards) / limit_s:.2f}",
                        f"{statistics.mean(board.has_wheels_s for board in fast) / fast_s:.2f}",
                        f"{max(board.has_wheels_s for board in fast) / fast_s:.2f}",
                        f"{min(board.ready_s for board in boards) / limit_s:.2f}",
                        f"{max(board.ready_s for board in boards) / limit_s:.2f}",
                        f"{carried / (args.boards * what.size_bytes):.3f}",
                        f"{max(own_s) / min(own_s):.2f}",
                    )
                    if way.name == "turns":
                        lasts.append(max(board.has_wheels_s for board in boards) / limit_s)
            console.print(table)
    if lasts:
        keep("shipping × raw TCP", max(lasts))


if __name__ == "__main__":
    main()
