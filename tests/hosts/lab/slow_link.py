"""A slow cable: `python slow_link.py PORT NAMESPACE INTERFACE` joins PORT here with a host's INTERFACE.

Each direction carries 2 Mbit/s after a queue of 64 kB that drops what does not fit, and takes 50 ms. It is
a process between two TAP devices, for not every kernel has netem, and tc's other queues delay nothing that is
not in them. The end of its standard input ends it, and with it both devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import sys
from typing import Final

MBIT_S: Final = 2.0
DELAY_S: Final = 0.05
_QUEUE_BYTES: Final = 65_536
_FRAME_BYTES: Final = 2_048
_TUNSETIFF: Final = 0x400454CA
_TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000


class _Direction:
    """Frames from one device to the other, in their order."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._free_at_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(source, self._take)

    def _take(self) -> None:
        """What does not fit into the queue is lost, as in a router."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = os.read(self._source, _FRAME_BYTES)
                now_s = self._loop.time()
                begins_s = max(now_s, self._free_at_s)
                if (begins_s - now_s) * MBIT_S * 1e6 / 8 > _QUEUE_BYTES:
                    continue
                self._free_at_s = begins_s + len(frame) * 8 / (MBIT_S * 1e6)
                self._loop.call_at(self._free_at_s + DELAY_S, self._give, frame)

    def _give(self, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # the other end is down
            os.write(self._sink, frame)


def _tap(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return device


def _laid(port: str, namespace: str, interface: str) -> tuple[int, int]:
    there = f"{port}h"
    ends = (_tap(port), _tap(there))
    subprocess.run(["ip", "link", "set", there, "netns", namespace, "name", interface], check=True)
    return ends


async def _carry(ends: tuple[int, int]) -> None:
    for source, sink in (ends, ends[::-1]):
        _Direction(source, sink)
    print("joined", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_carry(_laid(*sys.argv[1:])))
