"""What a meter says until it has said enough."""

from __future__ import annotations

import asyncio

from roambench.contract.records import AgentEvent, Reading
from roambench.meters.protocol import Meter


async def items(meter: Meter, *, readings: int = 0, kind: str = "") -> tuple[list[Reading], list[AgentEvent]]:
    """What comes until there are so many readings, or an event of that kind."""
    got, events = list[Reading](), list[AgentEvent]()
    async with asyncio.timeout(60):
        async for item in meter:
            if isinstance(item, Reading):
                got.append(item)
                if len(got) == readings:
                    break
            else:
                events.append(item)
                if item.kind == kind:
                    break
    return got, events


async def watts(meter: Meter, count: int) -> list[float]:
    """The watts of so many readings."""
    return [reading.watts for reading in (await items(meter, readings=count))[0]]
