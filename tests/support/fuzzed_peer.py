"""A device's peer port in a process of its own, for tests that throw rubbish at it.

    python fuzzed_peer.py FOLDER

FOLDER gets identity/NAME and ports.json. The device is pi-02; it offers a model to pi-01 and pi-03, another
one whenever pi-03 has taken the last; standard output gets a line for each.
"""

import asyncio
import json
import sys
from pathlib import Path

from agent_ports import Refused
from hand_agent import LAYOUT
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.exchange import Peers
from roambench.agent.peers.iteration import Neighbour
from roambench.agent.peers.offers import HalfStep
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.identity.authority import Authority
from rubbish_uploads import SMALL


async def serve(folder: Path) -> None:
    authority = Authority.create()
    for name in ("pi-01", "pi-03"):
        authority.issue(name).save(folder / "identity" / name)
    Authority.create().issue("pi-01").save(folder / "identity" / "stranger")
    peers = Peers(
        authority.issue("pi-02"),
        DeviceClock(),
        folder,
        Refused(lambda name, reason: print("refused", name, reason, file=sys.stderr)),
    )
    address = await peers.open("run", "127.0.0.1:50052")
    (folder / "ports.json.new").write_text(json.dumps([int(address.rpartition(":")[2])]))
    (folder / "ports.json.new").rename(folder / "ports.json")
    takers = [Neighbour(device, f"pi-{device:02d}", "", 0.3) for device in (1, 3)]
    blob = encode(SMALL, LAYOUT)
    step = 0
    while True:
        step += 1
        offer = peers.announce(step, takers, 0.0, BoardLoad()).offer
        offer.provide(HalfStep(blob, digest_of(blob)))
        while "pi-03" not in offer.served:
            await asyncio.sleep(0.01)
        print(step, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
