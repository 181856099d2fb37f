"""What tests of certificates share: a controller with a bench's identity, and waiting for what is seen."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from hand_agent import Bench, HandAgent
from roambench.contract.events import EventKind
from roambench.fleet.guard import FleetIdentity
from roambench.identity.authority import Authority
from roambench.provision.certificates import BenchAuthority


async def until(happened: Callable[[], object], seconds: float = 8.0) -> None:
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.02)


async def redialled(where: Bench, *agents: HandAgent) -> None:
    await until(lambda: all(agent.link.is_open for agent in agents))
    before = where.kinds().count(EventKind.SESSION_OPENED)
    for agent in agents:
        agent.link.redial("test")
    await until(lambda: where.kinds().count(EventKind.SESSION_OPENED) == before + len(agents))


def lines(where: Bench, kind: str) -> list[str]:
    return [f"{name}: {reason}" for _, name, seen, reason in where.seen if seen == kind]


def live(state_dir: Path) -> Callable[[Authority], FleetIdentity]:
    """A controller with the identity of a bench: agents of it are issued by `BenchAuthority(state_dir)`."""
    return lambda unused: BenchAuthority(state_dir).fleet_identity()
