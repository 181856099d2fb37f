"""A controller in a process of its own, for tests that throw rubbish at it.

    python fuzzed_controller.py FOLDER

FOLDER gets identity/NAME for every device and ports.json. It orders one training after another from pi-02;
standard output gets a line for each that was answered well. From pi-01 it wants a model, all the time.
Rates are as good as unlimited: they would hold back the fuzzer, not what it sends.
"""

import asyncio
import faulthandler
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import roambench.fleet.traced_grpc as traced  # before others import gRPC, as in a real controller
from hand_agent import LAYOUT, SPEC, train_order
from roambench.contract.device_time import DeviceClock
from roambench.contract.orders import AnswerStatus
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.limits import AgentLimits
from roambench.identity.authority import CONTROLLER_NAME, Authority
from rubbish_uploads import ORDER, SMALL

NAMES = ("pi-01", "pi-02", "pi-03")
LIMITS = AgentLimits(
    frames_per_s=1e9,
    frames_burst=1e9,
    control_bytes_per_s=1e12,
    calls_per_s=1e9,
    calls_burst=1e9,
    request_s=1.0,
    transfers_beyond=10**9,
)


def store(name: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
    return max(seq for seq, _, _ in records)


async def ask(fleet: GrpcFleet) -> None:
    while True:
        await fleet.perform([ORDER])


async def serve(folder: Path) -> None:
    authority = Authority.create()
    for name in NAMES:
        authority.issue(name).save(folder / "identity" / name)
    Authority.create().issue("pi-01").save(folder / "identity" / "stranger")
    fleet = GrpcFleet(
        FleetSettings("run", NAMES, (SPEC,) * len(NAMES), LAYOUT, 10.0),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        store,
        lambda device, name, kind, detail: print(kind, name, detail, file=sys.stderr, flush=True),
        limits=LIMITS,
        clock_observer=lambda record: None,
    )
    await fleet.start()
    (folder / "ports.json.new").write_text(json.dumps([fleet.control_port, fleet.data_port]))
    (folder / "ports.json.new").rename(folder / "ports.json")
    digest = fleet.publish(SMALL)
    asking = asyncio.create_task(ask(fleet))
    number = 0
    while not asking.done():
        number += 1
        (answer,) = await fleet.perform([train_order(digest, number, device=1)])
        if answer.status is AnswerStatus.DONE:
            print(answer.order_id, flush=True)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    assert traced.LOG is not None
    faulthandler.register(signal.SIGUSR1)
    asyncio.run(serve(Path(sys.argv[1])))
