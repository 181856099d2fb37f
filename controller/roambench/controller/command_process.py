"""What the process of a command does first: it looks for garbage seldom, and forks what will fork for it."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Mapping
from typing import Final

#: A command reads libraries of half a million objects that stay. With the usual 700, looking through them
#: again and again is 4 to 7 % of the CPU time of a small simulated run.
_OBJECTS_PER_COLLECTION: Final = 50_000
#: What the processes that train on this machine have in common, torch most of all, by the kind of fleet.
_TRAINING: Final[Mapping[str, str]] = {
    "local": "roambench.agent.orders.trainer",
    "simulated": "roambench.fleet.simulated.worker",
}

_settled = False


def settle() -> None:
    """For the process of a command: look for garbage seldom, and not at its end, where what libraries leave
    would be looked through three times (0.4 s with torch). NumPy, which is not loaded yet, has one thread, as
    in all processes that it forks."""
    global _settled
    _settled = True
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)


def fork_trainings(fleet: str) -> None:
    """Where the runs on this fleet train in processes of this machine: load torch, and fork the process that
    forks them, while this one has neither threads nor grpc. One that was forked itself asks who forked it; a
    process that only calls a command, as a test, is not forked."""
    if _settled and fleet in _TRAINING:
        from roambench.fleet.fork_server_process import fork_from_here

        fork_from_here([_TRAINING[fleet]])
