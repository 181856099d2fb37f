"""A controller in a process of its own, whose every event is a JSON line on standard output.

    python printing_controller.py FOLDER

FOLDER is a bench's state, with its authority and revocation list. The first line has the ports. It ends with
standard input.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import roambench.fleet.traced_grpc as traced  # before others import gRPC, as in a real controller
from hand_agent import LAYOUT, SPEC
from roambench.contract.device_time import DeviceClock
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.limits import AgentLimits
from roambench.provision.certificates import BenchAuthority


def store(name: str, uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
    return max(seq for seq, _, _ in records)


def report(*what: object) -> None:
    print(json.dumps(what), flush=True)


async def serve(folder: Path) -> None:
    names = ("pi-01", "pi-02")
    fleet = GrpcFleet(
        FleetSettings(
            "run", names, (SPEC,) * len(names), LAYOUT, 10.0, addresses=("localhost", "no-such-host.invalid")
        ),
        BenchAuthority(folder).fleet_identity(),
        DeviceClock(),
        store,
        lambda device, name, kind, detail: report(kind, name, detail),
        limits=AgentLimits(handshake_s=3.0),
        clock_observer=lambda record: None,
    )
    await fleet.start()
    report("ports", fleet.control_port, fleet.data_port)
    await asyncio.to_thread(sys.stdin.read)
    await fleet.stop("test over", drain_s=0.5)
    print("what Python says goes its usual way", file=sys.stderr)


if __name__ == "__main__":
    assert traced.LOG is not None
    asyncio.run(serve(Path(sys.argv[1])))
