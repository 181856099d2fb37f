"""The two ports that agents dial, and what watches over them while they are open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from roambench.contract.addresses import host_port
from roambench.contract.events import EventKind
from roambench.fleet.crashes import logged_if_it_crashes
from roambench.fleet.guard import FleetIdentity, Guard
from roambench.fleet.handshakes import Handshakes
from roambench.fleet.limits import AgentLimits
from roambench.fleet.secure_port import SecurePort
from roambench.fleet.traced_grpc import LOG, grpc
from roambench.wire.v1.methods import MAX_CONTROL_MESSAGE_BYTES, MAX_DATA_MESSAGE_BYTES

#: (device name, address or port; kind; reason): what was refused, for the journal.
Refused = Callable[[str, EventKind, str], None]


class FleetPorts:
    """Control and data port. `guard` says who calls, and `refused` gets who was not let in.

    `addresses` has those of devices by name, where they are known: to tell whose connection failed.
    """

    def __init__(
        self,
        identity: FleetIdentity,
        limits: AgentLimits,
        refused: Refused,
        stranger_refused: Refused,
        addresses: Mapping[str, str],
    ) -> None:
        """`stranger_refused` gets what is no device: an address, a port of ours."""
        self._identity, self._limits = identity, limits
        self._stranger_refused = stranger_refused
        self.handshakes = Handshakes(self._connection_refused, LOG, dict(addresses))
        self.guard = Guard(identity, refused, self.handshakes.authenticated, limits)
        self._ports: dict[str, SecurePort] = {}
        self._watches: list[asyncio.Task[None]] = []

    def bind(
        self,
        host: str,
        ports: tuple[int, int],
        handlers: tuple[grpc.GenericRpcHandler, grpc.GenericRpcHandler],
        *,
        keepalive: bool,
        devices: int,
    ) -> tuple[int, int]:
        """Bind both to `host`, (control, data), 0: any; returns their numbers. Errors as of `SecurePort`,
        and FleetError where this system has no room for these devices."""
        self._limits.make_room(devices)
        names, most_bytes = ("control", "data"), (MAX_CONTROL_MESSAGE_BYTES, MAX_DATA_MESSAGE_BYTES)
        for name, port, most, handler in zip(names, ports, most_bytes, handlers, strict=True):
            self._ports[name] = SecurePort(
                self._identity,
                host_port(host, port),
                most,
                handler,
                keepalive=keepalive,
                devices=devices,
                limits=self._limits,
                handshake=self.handshakes.began,
                on_replaced=partial(self._stranger_refused, f"{name} port", EventKind.PORT_REPLACED),
            )
        self.handshakes.most = self._limits.connections(devices)
        self.handshakes.ports = {port.port: name for name, port in self._ports.items()}
        return self._ports["control"].port, self._ports["data"].port

    async def open(self) -> None:
        """Open both ports and begin to watch certificates."""
        for port in self._ports.values():
            await port.start()
        watched = {"certificates": self.guard.watch(), "handshakes": self.handshakes.watch()}
        watched |= {f"{name} port": port.watch() for name, port in self._ports.items()}
        self._watches = [
            logged_if_it_crashes(asyncio.create_task(watch, name=name)) for name, watch in watched.items()
        ]

    async def unwatch(self) -> None:
        """Stop watching: what goes wrong from now on is the end's doing."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def close(self, grace_s: float) -> None:
        """Close both ports; calls have `grace_s` seconds to end."""
        await asyncio.gather(*(port.stop(grace_s) for port in self._ports.values()))

    def _connection_refused(self, address: str, reason: str) -> None:
        self._stranger_refused(address, EventKind.CONNECTION_REFUSED, reason)
