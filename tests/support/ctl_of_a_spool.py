"""`roambench-agent ctl` of an agent that is in no run: its own handler and its own files, without a process.

python ctl_of_a_spool.py STATE_FOLDER ASK [WORD]
"""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from roambench.agent.life.ctl_handler import CtlHandler
from roambench.agent.readings.unsent import Unsent
from roambench.spool.spool import Spool


async def _say(handler: CtlHandler, ask: str, words: list[str]) -> None:
    async for line in handler.answer({"ask": ask, "words": words}):
        print(line)


if __name__ == "__main__":
    folder, asked = Path(sys.argv[1]), sys.argv[2]
    if asked == "status":
        print(json.dumps({"run": "", "unsent_runs": {}}))
    else:
        opened, others = Spool(folder / "spool.sqlite"), cast(Any, None)
        meter = SimpleNamespace(spool=opened, unsent=Unsent(folder / "unsent", opened))
        meter.parts = (meter,)  # it reads for no neighbour
        session = SimpleNamespace(settings=SimpleNamespace(device="pi-01"), meter=meter)
        own = CtlHandler(cast(Any, session), others, others)
        asyncio.run(_say(own, asked, sys.argv[3:]))
        opened.close()
