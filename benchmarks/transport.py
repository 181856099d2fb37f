"""Fan-out and fan-in of one model to 36 agents: our data plane as a ratio to a raw TCP stream, same run.

    python benchmarks/transport.py [--clients 36] [--repeats 8]

Goals: >= 0.7 of raw TCP without TLS, >= 0.5 with mutual TLS, at MOHAWK's 2.6 MB model. All clients live in
one other process. The row "raw TCP + digest" shows what checking every model costs by itself. Rows are
interleaved repeat by repeat, the best of each is compared: the machine is shared. "cpu ms" is of both
processes together and hardly depends on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import numpy as np
from setting.figures import keep

from roambench.agent.session.control_link import secure_channel
from roambench.agent.session.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import GivenOrder, TrainOrder, UploadOrder
from roambench.fleet.data_plane import DataPlane
from roambench.fleet.guard import Context, FleetIdentity, Guard
from roambench.fleet.limits import AgentLimits, Allowances
from roambench.fleet.model_registry import ModelRegistry
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.fleet.secure_port import SecurePort
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, channel_options

PARAMETERS = 659_242  # MOHAWK's CNN on MNIST
LAYOUT = "0" * 32
ROWS = (
    ("raw", "raw TCP", ""),
    ("checked", "raw TCP + digest", ""),
    ("plain", "gRPC", ">= 0.7"),
    ("tls", "gRPC + mTLS", ">= 0.5"),
)
DIRECTIONS = ("down", "up")
_MODEL = np.linspace(-1, 1, PARAMETERS, dtype=np.float32)

Move = Callable[[str], Coroutine[Any, Any, None]]  # one client moves one model "down" or "up"


class OpenGuard(Guard):
    """For the row without TLS only: believes the name that the client states."""

    @asynccontextmanager
    async def admitted(self, context: Context, method: str) -> AsyncIterator[str]:
        yield str(dict(context.invocation_metadata() or ())["device"])


class NamedChannel:
    """A channel without TLS that states the device's name in every call's metadata."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        self._channel = channel
        self._metadata = (("device", name),)

    def __getattr__(self, kind: str) -> Callable[[str], Callable[..., Any]]:
        def multicallable(method: str) -> Callable[..., Any]:
            call = getattr(self._channel, kind)(method)
            return lambda *given, **named: call(*given, metadata=self._metadata, **named)

        return multicallable


# ---- the controller's side -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    """Three running servers and what clients must know about them."""

    tls: SecurePort
    plain: grpc.aio.Server
    raw: asyncio.Server
    ports: dict[str, int]
    digest: str

    async def stop(self) -> None:
        self.raw.close()
        await asyncio.gather(self.tls.stop(1.0), self.plain.stop(1.0), self.raw.wait_closed())


def _plane(guard: Guard, clients: int) -> tuple[DataPlane, str]:
    registry, outstanding = ModelRegistry(LAYOUT), OutstandingOrders()
    digest = registry.publish(_MODEL)
    for client in range(clients):
        down = TrainOrder(f"down/{client}", client, 0, 0, digest, LocalTraining())
        up = UploadOrder(f"up/{client}", client, 0, 0, f"down/{client}")
        for order in (down, up):
            outstanding.add(OutstandingOrder(order, GivenOrder(order, 60.0)))
    names = {f"pi-{client:02d}": client for client in range(clients)}
    plane = DataPlane(
        guard,
        registry,
        outstanding,
        names.get,
        DeviceClock(),
        lambda *refused: print(refused),
        60.0,
        Allowances(AgentLimits(calls_per_s=1e9, transfers_beyond=10**9)),
    )
    return plane, digest


async def _serve_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """`d` asks for the model, `u` announces one, `c` announces one whose digest is checked."""
    blob = encode(_MODEL, LAYOUT)
    digest = digest_of(blob)
    while command := await reader.read(1):
        if command == b"d":
            writer.write(blob)
        else:
            arrived = await reader.readexactly(len(blob))
            is_good = command == b"u" or await asyncio.to_thread(digest_of, arrived) == digest
            writer.write(b"k" if is_good else b"x")
        await writer.drain()
    writer.close()


async def serve(clients: int, authority: Authority) -> Served:
    identity = FleetIdentity.fixed(authority.issue(CONTROLLER_NAME))
    secure_plane, digest = _plane(
        Guard(identity, on_report=lambda name, kind, reason: None, authenticated=lambda peer: None), clients
    )
    tls = SecurePort(
        identity,
        "127.0.0.1:0",
        MAX_DATA_MESSAGE_BYTES,
        secure_plane.handlers(),
        devices=clients,
        handshake=lambda: None,
        on_replaced=lambda reason: None,
    )
    open_plane, _ = _plane(OpenGuard(identity, lambda name, kind, reason: None, lambda peer: None), clients)
    plain = grpc.aio.server(options=channel_options(MAX_DATA_MESSAGE_BYTES))
    plain.add_generic_rpc_handlers((open_plane.handlers(),))
    plain_port = plain.add_insecure_port("127.0.0.1:0")
    raw = await asyncio.start_server(_serve_raw, "127.0.0.1", 0)
    await tls.start()
    await plain.start()
    ports = {"tls": tls.port, "plain": plain_port, "raw": raw.sockets[0].getsockname()[1]}
    return Served(tls, plain, raw, ports, digest)


# ---- the clients' side, another process ------------------------------------------------------


def _raw_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, checked: bool) -> Move:
    blob = encode(_MODEL, LAYOUT)
    digest = digest_of(blob)

    async def move(direction: str) -> None:
        if direction == "down":
            writer.write(b"d")
            arrived = await reader.readexactly(len(blob))
            if checked and await asyncio.to_thread(digest_of, arrived) != digest:
                raise ValueError("the digest does not match")
        else:
            writer.write(b"c" if checked else b"u")
            writer.write(blob)
            await writer.drain()
            if await reader.readexactly(1) != b"k":
                raise ValueError("the server refused the model")

    return move


def _grpc_client(link: DataLink, client: int, digest: str, blob: bytes) -> Move:
    async def move(direction: str) -> None:
        if direction == "down":
            await link.download(f"down/{client}", 0, digest, 60.0)
        else:
            await link.upload(f"up/{client}", f"down/{client}", 0, blob, digest, 0.0, 60.0)

    return move


async def clients_main(spec: dict[str, Any]) -> None:
    """Connect all clients four ways, then carry out and time each command read from standard input."""
    count, digest, ports = spec["clients"], spec["digest"], spec["ports"]
    blob = encode(_MODEL, LAYOUT)
    moves: dict[str, list[Move]] = {kind: [] for kind, _, _ in ROWS}
    closers: list[Callable[[], Awaitable[None]]] = []
    for client in range(count):
        name = f"pi-{client:02d}"
        for kind in ("raw", "checked"):
            reader, writer = await asyncio.open_connection("127.0.0.1", ports["raw"], limit=2**20)
            moves[kind].append(_raw_client(reader, writer, checked=kind == "checked"))
            writer_close, writer_closed = writer.close, writer.wait_closed
            closers.append(lambda close=writer_close, closed=writer_closed: (close(), closed())[1])  # type: ignore[misc]
        credential = Credential(*(text.encode() for text in spec["credentials"][client]))
        secure = secure_channel(f"127.0.0.1:{ports['tls']}", credential, MAX_DATA_MESSAGE_BYTES)
        # Its own connection each, as 36 devices have: channels of one process would share one.
        own = ("grpc.use_local_subchannel_pool", 1)
        bare = grpc.aio.insecure_channel(
            f"127.0.0.1:{ports['plain']}", options=[*channel_options(MAX_DATA_MESSAGE_BYTES), own]
        )
        closers += [secure.close, bare.close]
        for kind, channel in (("tls", secure), ("plain", NamedChannel(bare, name))):
            link = DataLink(channel, name, DeviceClock())  # type: ignore[arg-type]
            moves[kind].append(_grpc_client(link, client, digest, blob))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        kind, direction = line.split()
        cpu_s, started_s = time.process_time(), time.perf_counter()
        await asyncio.gather(*(move(direction) for move in moves[kind]))
        print(time.perf_counter() - started_s, time.process_time() - cpu_s, flush=True)
    for close in closers:
        await close()


# ---- the comparison --------------------------------------------------------------------------


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=36)
    parser.add_argument("--repeats", type=int, default=8)
    arguments = parser.parse_args()
    authority = Authority.create()
    served = await serve(arguments.clients, authority)
    issued = [authority.issue(f"pi-{client:02d}") for client in range(arguments.clients)]
    spec = {
        "clients": arguments.clients,
        "digest": served.digest,
        "ports": served.ports,
        "credentials": [
            (c.certificate_pem.decode(), c.key_pem.decode(), c.authority_pem.decode()) for c in issued
        ],
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--child", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(spec).encode() + b"\n")
    await child.stdout.readline()
    wall_s: dict[tuple[str, str], float] = {}
    cpu_s: dict[tuple[str, str], float] = {}
    for repeat in range(arguments.repeats + 1):
        for kind, _, _ in ROWS:
            for direction in DIRECTIONS:
                before_s = time.process_time()
                child.stdin.write(f"{kind} {direction}\n".encode())
                took_s, client_cpu_s = map(float, (await child.stdout.readline()).split())
                used_s = time.process_time() - before_s + client_cpu_s
                if repeat == 0:  # opens the connections
                    continue
                key = kind, direction
                wall_s[key] = min(took_s, wall_s.get(key, took_s))
                cpu_s[key] = min(used_s, cpu_s.get(key, used_s))
    child.stdin.close()
    await child.wait()
    await served.stop()
    _print(arguments.clients, arguments.repeats, wall_s, cpu_s)


def _print(
    clients: int, repeats: int, wall_s: dict[tuple[str, str], float], cpu_s: dict[tuple[str, str], float]
) -> None:
    megabytes = clients * len(encode(_MODEL, LAYOUT)) / 1e6
    print(f"{clients} clients x {megabytes / clients:.2f} MB, best of {repeats}")
    head = "".join(f"{f'{direction} ms':>9}{'cpu ms':>8}{'MB/s':>7}{'ratio':>7}" for direction in DIRECTIONS)
    print(f"{'':18}{head}   goal")
    for kind, label, goal in ROWS:
        cells = ""
        for direction in DIRECTIONS:
            took_s = wall_s[kind, direction]
            ratio = wall_s["raw", direction] / took_s
            cells += f"{took_s * 1e3:9.0f}{cpu_s[kind, direction] * 1e3:8.0f}"
            cells += f"{megabytes / took_s:7.0f}{ratio:7.2f}"
            if kind in ("plain", "tls"):
                name = "TLS" if kind == "tls" else kind
                limit_ms = wall_s["raw", direction] * 1e3
                keep(f"transport {name}, {direction} × TCP", ratio, limit=f"{limit_ms:.0f} ms")
        print(f"{label:18}{cells}   {goal}")
    told = ", ".join(
        f"{direction} {wall_s['checked', direction] / wall_s['plain', direction]:.2f} without TLS, "
        f"{wall_s['checked', direction] / wall_s['tls', direction]:.2f} with"
        for direction in DIRECTIONS
    )
    print(f"as a ratio to the raw TCP stream that checks the digest as we do: {told}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        asyncio.run(clients_main(json.loads(sys.stdin.readline())))
    else:
        asyncio.run(main())
