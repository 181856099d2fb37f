"""One access point's air: what goes to or comes from a slow board takes the time that its rate takes.

Each board has a network namespace with a TUN device, this machine another one; packets between them, of the
kernel's own TCP, wait in a queue a board and direction (100 packets) until the air is free. Two sorts of
access points: one that gives all boards equal time on the air, and one that gives them equal packets, so that
a slow board slows down all others (Heusse et al., "Performance anomaly of 802.11b", INFOCOM 2003; equal time:
Hoiland-Jorgensen et al., "Ending the Anomaly", USENIX ATC 2017).

    python benchmarks/access_point/air.py 0 40 40 2        is the air, until its input ends

It is a process of its own since it wants a processor every millisecond. Linux' tc shapes a cable as well, but
none of its classes is charged more of what is shared than the bytes it carries.

Kinder than Wi-Fi: no losses, no retries, no preambles, constant rates.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NETWORK: Final = "10.214.7"
_DEVICE: Final = "rbair"
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_MTU: Final = 1500
_QUEUE_PACKETS: Final = 100
#: What the air may have been left unused while this process did not run.
_CATCH_UP_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Air:
    """The boards' rates in Mbit/s. Board k has an address and a namespace."""

    rates: tuple[float, ...]

    def address(self, board: int) -> str:
        """IPv4."""
        return f"{NETWORK}.{board + 10}"

    def namespace(self, board: int) -> str:
        """Of the board's network."""
        return f"{_DEVICE}-{board}"

    def carried_bytes(self) -> int:
        """Bytes that were sent to the boards until now, headers and what was sent again among them."""
        return int(Path(f"/sys/class/net/{_DEVICE}/statistics/tx_bytes").read_text(encoding="ascii"))


@contextmanager
def air(rates: Sequence[float], *, equal_packets: bool) -> Iterator[Air]:
    """The network, with its air; taken away again. Root only."""
    built = Air(tuple(rates))
    remove()
    words = [sys.executable, __file__, str(int(equal_packets)), *map(str, rates)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"up\n":
            raise SystemExit("the air is not there: this needs root, /dev/net/tun and iproute2")
        yield built
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
        remove()


def remove() -> None:
    """Namespaces that an earlier one has left."""
    for line in _do("ip", "netns", "list").splitlines():
        if line.split()[0].startswith(f"{_DEVICE}-"):
            _do("ip", "netns", "delete", line.split()[0])


def _do(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
    return device


def _build(built: Air) -> tuple[int, list[int]]:
    server = _tun(_DEVICE)
    _do("ip", "address", "add", f"{NETWORK}.1/24", "dev", _DEVICE)
    _do("ip", "link", "set", "dev", _DEVICE, "mtu", str(_MTU), "txqueuelen", "5000", "up")
    boards = []
    for board in range(len(built.rates)):
        name, inside = f"{_DEVICE}{board}", ("ip", "-n", built.namespace(board))
        _do("ip", "netns", "add", built.namespace(board))
        boards.append(_tun(name))
        _do("ip", "link", "set", "dev", name, "netns", built.namespace(board))
        _do(*inside, "address", "add", f"{built.address(board)}/24", "dev", name)
        _do(*inside, "link", "set", "dev", "lo", "up")
        _do(*inside, "link", "set", "dev", name, "mtu", str(_MTU), "txqueuelen", "1000", "up")
    return server, boards


class _Stations:
    """Queues of what is to go over the air, two a board: to it and from it, and whose turn it is."""

    def __init__(self, rates: Sequence[float], *, equal_packets: bool) -> None:
        self._s_per_byte = [8e-6 / rate for rate in rates for _ in range(2)]
        self._queues: list[deque[bytes]] = [deque() for _ in self._s_per_byte]
        #: Of equal time: what a station may still use in its round.
        self._credit_s = [0.0] * len(self._queues)
        self._equal_packets = equal_packets
        self._round_s = min(self._s_per_byte) * _MTU
        self._ready: deque[int] = deque()

    def put(self, station: int, packet: bytes) -> None:
        queue = self._queues[station]
        if len(queue) < _QUEUE_PACKETS:
            if not queue:
                self._ready.append(station)
            queue.append(packet)

    def next(self) -> tuple[int, bytes, float] | None:
        """Station, packet, and the seconds of air that it takes."""
        while self._ready:
            station = self._ready.popleft()
            queue = self._queues[station]
            cost_s = len(queue[0]) * self._s_per_byte[station]
            if not self._equal_packets and self._credit_s[station] < cost_s:
                self._credit_s[station] += self._round_s
                self._ready.append(station)
                continue
            self._credit_s[station] -= cost_s
            packet = queue.popleft()
            if queue:
                self._ready.append(station)
            else:
                self._credit_s[station] = 0.0
            return station, packet, cost_s
        return None


def _carry(server: int, boards: Sequence[int], stations: _Stations) -> None:
    poll = select.epoll()
    for device in (server, *boards, 0):
        poll.register(device, select.EPOLLIN)
    station_of = {device: 2 * board + 1 for board, device in enumerate(boards)}
    free_s = time.monotonic()
    waiting = None
    while True:
        wait_s = -1.0 if waiting is None else max(0.0, free_s - time.monotonic())
        for device, _ in poll.poll(wait_s):
            if device == 0:
                return
            for _ in range(32):
                try:
                    packet = os.read(device, 2048)
                except BlockingIOError:
                    break
                if packet[0] >> 4 != 4:
                    continue
                board = packet[19] - 10
                if device != server:
                    stations.put(station_of[device], packet)
                elif 0 <= board < len(boards):
                    stations.put(2 * board, packet)
        now_s = time.monotonic()
        free_s = max(free_s, now_s - _CATCH_UP_S)
        while (waiting := waiting or stations.next()) is not None and free_s <= now_s:
            station, packet, cost_s = waiting
            os.write(server if station % 2 else boards[station // 2], packet)
            free_s += cost_s
            waiting = None


def _main(words: Sequence[str]) -> None:
    rates = tuple(map(float, words[1:]))
    server, boards = _build(Air(rates))
    print("up", flush=True)
    _carry(server, boards, _Stations(rates, equal_packets=words[0] == "1"))


if __name__ == "__main__":
    _main(sys.argv[1:])
