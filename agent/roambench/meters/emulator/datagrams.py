"""A Smart Power 3's datagrams: one line each, to one address, whether anybody listens or not."""

from __future__ import annotations

import socket

from roambench.contract.errors import MeterError


class DatagramPort:
    """Sends to (host, port); what the network does not take is counted."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            self._target = target
        except OSError as error:
            raise MeterError(f"UDP address {self.address}: cannot be sent to ({error.strerror})") from None
        self.lost_bytes = 0

    def write(self, data: bytes) -> None:
        """Send one datagram; what the network refuses is counted as lost."""
        try:
            self._socket.sendto(data, self._target)
        except OSError:  # nobody listens, or the buffer is full
            self.lost_bytes += len(data)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
