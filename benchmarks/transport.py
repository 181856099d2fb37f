"""Fan-out and fan-in of one model to 36 agents: our data plane as a ratio to a raw TCP stream, same run.

    python benchmarks/transport.py [--clients 36] [--repeats 5]

Goals: >= 0.7 of raw TCP without TLS, >= 0.5 with mutual TLS, at MOHAWK's 2.6 MB model. All clients live in
one other process. Rows are interleaved repeat by repeat, the best of each is compared: the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import numpy as np

from roambench.agent.control_link import secure_channel
from roambench.agent.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import digest_of, encode
from roambench.contract.orders import TrainOrder, UploadOrder
from roambench.fleet.data_plane import DataPlane
from roambench.fleet.guard import Context, Guard, secure_server
from roambench.fleet.model_shop import ModelShop
from roambench.fleet.outstanding import OutstandingOrder, OutstandingOrders
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.wire.v1.control_pb2 import ControllerFrame
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, channel_options

PARAMETERS = 659_242  # MOHAWK's CNN on MNIST
LAYOUT = "0" * 32
_MODEL = np.linspace(-1, 1, PARAMETERS, dtype=np.float32)


class OpenGuard(Guard):
    """For the row without TLS only: believes the name that the client states."""

    async def identify(self, context: Context) -> str:
        return dict(context.invocation_metadata() or ())["device"]  # type: ignore[return-value]


def _plane(guard: Guard, clients: int) -> tuple[DataPlane, ModelShop]:
    shop, outstanding = ModelShop(LAYOUT), OutstandingOrders()
    digest = shop.publish(_MODEL)
    for client in range(clients):
        down = TrainOrder(f"down/{client}", client, 0, 0, digest, 1, 0)
        up = UploadOrder(f"up/{client}", client, 0, 0, f"down/{client}")
        for order in (down, up):
            outstanding.add(OutstandingOrder(order, ControllerFrame()))
    names = {f"pi-{client:02d}": client for client in range(clients)}
    return (
        DataPlane(guard, shop, outstanding, names.get, DeviceClock(), lambda *refused: print(refused), 60.0),
        shop,
    )


async def serve(clients: int, authority: Authority) -> dict[str, Any]:
    """Start the three servers; returns their ports and what clients need."""
    plane, shop = _plane(Guard(), clients)
    tls, tls_port = secure_server(
        authority.issue(CONTROLLER_NAME), "127.0.0.1:0", MAX_DATA_MESSAGE_BYTES, plane.handlers()
    )
    open_plane, _ = _plane(OpenGuard(), clients)
    plain = grpc.aio.server(options=channel_options(MAX_DATA_MESSAGE_BYTES))
    plain.add_generic_rpc_handlers((open_plane.handlers(),))
    plain_port = plain.add_insecure_port("127.0.0.1:0")
    blob = encode(_MODEL, LAYOUT)

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (command := await reader.read(1)) == b"d" or command == b"u":
            if command == b"d":
                writer.write(blob)
            else:
                await reader.readexactly(len(blob))
                writer.write(b"k")
            await writer.drain()
        writer.close()

    raw_server = await asyncio.start_server(raw, "127.0.0.1", 0)
    await tls.start()
    await plain.start()
    return {
        "keep": (tls, plain, raw_server),
        "ports": {
            "tls": tls_port,
            "plain": plain_port,
            "raw": raw_server.sockets[0].getsockname()[1],
        },
        "digest": shop.publish(_MODEL),
    }


async def clients_main(spec: dict[str, Any]) -> None:
    """The other process: connect all clients three ways, then time each command read from stdin."""
    count, digest, ports = spec["clients"], spec["digest"], spec["ports"]
    blob = encode(_MODEL, LAYOUT)
    links: dict[str, list[Callable[[str], Awaitable[None]]]] = {"raw": [], "plain": [], "tls": []}
    closers: list[Any] = []
    for client in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["raw"], limit=2**20)
        links["raw"].append(_raw_client(reader, writer, blob))
        name = f"pi-{client:02d}"
        credential = Credential(*(text.encode() for text in spec["credentials"][client]))
        secure = secure_channel(f"127.0.0.1:{ports['tls']}", credential, MAX_DATA_MESSAGE_BYTES)
        bare = grpc.aio.insecure_channel(
            f"127.0.0.1:{ports['plain']}",
            options=channel_options(MAX_DATA_MESSAGE_BYTES),
            interceptors=[_Named(name, 0), _Named(name, 1)],
        )
        closers += [secure, bare]
        for kind, channel in (("tls", secure), ("plain", bare)):
            links[kind].append(_grpc_client(DataLink(channel, name, DeviceClock()), client, digest, blob))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        kind, direction = line.split()
        started = time.perf_counter()
        await asyncio.gather(*(link(direction) for link in links[kind]))
        print(time.perf_counter() - started, flush=True)
    for channel in closers:
        await channel.close()


class _Named(grpc.aio.UnaryStreamClientInterceptor, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[type-arg,misc]
    """States the device's name in metadata; one instance per call shape, as grpc wants it."""

    def __new__(cls, name: str, shape: int) -> Any:
        base = (grpc.aio.UnaryStreamClientInterceptor, grpc.aio.StreamUnaryClientInterceptor)[shape]
        method = ("intercept_unary_stream", "intercept_stream_unary")[shape]

        async def intercept(self: Any, follow: Any, details: Any, request: Any) -> Any:
            return await follow(details._replace(metadata=(("device", name),)), request)

        return type("Named", (base,), {method: intercept})()


def _raw_client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, blob: bytes
) -> Callable[[str], Awaitable[None]]:
    async def move(direction: str) -> None:
        if direction == "down":
            writer.write(b"d")
            await reader.readexactly(len(blob))
        else:
            writer.write(b"u" + blob)
            await writer.drain()
            await reader.readexactly(1)

    return move


def _grpc_client(link: DataLink, client: int, digest: str, blob: bytes) -> Callable[[str], Awaitable[None]]:
    blob_digest = digest_of(blob)

    async def move(direction: str) -> None:
        if direction == "down":
            await link.download(f"down/{client}", 0, digest, 60.0)
        else:
            await link.upload(f"up/{client}", f"down/{client}", 0, blob, blob_digest, 0.0, 60.0)

    return move


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=36)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    authority = Authority.create()
    served = await serve(arguments.clients, authority)
    issued = [authority.issue(f"pi-{client:02d}") for client in range(arguments.clients)]
    spec = {
        "clients": arguments.clients,
        "digest": served["digest"],
        "ports": served["ports"],
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
    best: dict[tuple[str, str], float] = {}
    for _ in range(arguments.repeats + 1):  # the first round opens the connections and is beaten later
        for kind in ("raw", "plain", "tls"):
            for direction in ("down", "up"):
                child.stdin.write(f"{kind} {direction}\n".encode())
                took_s = float(await child.stdout.readline())
                best[kind, direction] = min(took_s, best.get((kind, direction), took_s))
    child.stdin.close()
    await child.wait()
    megabytes = arguments.clients * len(encode(_MODEL, LAYOUT)) / 1e6
    print(
        f"{arguments.clients} clients x {megabytes / arguments.clients:.2f} MB, best of {arguments.repeats}"
    )
    print(f"{'':14}{'down ms':>9}{'MB/s':>7}{'ratio':>7}   {'up ms':>8}{'MB/s':>7}{'ratio':>7}   goal")
    for kind, label, goal in (
        ("raw", "raw TCP", ""),
        ("plain", "gRPC", ">= 0.7"),
        ("tls", "gRPC + mTLS", ">= 0.5"),
    ):
        cells = ""
        for direction in ("down", "up"):
            took_s = best[kind, direction]
            ratio = best["raw", direction] / took_s
            cells += f"{took_s * 1e3:9.0f}{megabytes / took_s:7.0f}{ratio:7.2f}   "
        print(f"{label:14}{cells}{goal}")
    tls, plain, raw_server = served["keep"]
    await asyncio.gather(tls.stop(0), plain.stop(0))
    raw_server.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        asyncio.run(clients_main(json.loads(sys.stdin.readline())))
    else:
        asyncio.run(main())
