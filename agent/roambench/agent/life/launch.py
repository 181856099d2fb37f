"""From settings to a living agent: first the trainer's fork server is forked, only then is grpc imported."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from roambench.agent.background import why
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.worker import start_trainer_fork_server
from roambench.agent.settings import AgentSettings
from roambench.contract.errors import RoambenchError
from roambench.contract.last_signals import run_to_its_end


def load_trainer() -> Callable[[socket.socket], None]:
    """Import the learning stack (seconds on a Pi) and return what a trainer process runs."""
    from roambench.agent.orders.trainer_process import serve

    return serve


def run_agent(settings: AgentSettings, load: BoardLoad) -> int:
    """Live as the agent of `settings` until something stops it; returns the exit status.

    `load` follows what the agent does: a local agent's board is emulated.
    """
    # Forked children of a process that holds grpc hang; grpc's fork support would only hide that.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        Path(settings.state_dir).mkdir(parents=True, exist_ok=True)
        return _live(settings, load) if settings.controller else _log(settings)
    except RoambenchError as error:
        print(f"roambench-agent {settings.device}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except OSError as error:  # no room, no files: the agent's supervisor starts it again
        print(f"roambench-agent {settings.device}: {why(error)}", file=sys.stderr, flush=True)
        return 1


def _live(settings: AgentSettings, load: BoardLoad) -> int:
    if "grpc" in sys.modules:
        raise RuntimeError("grpc is already imported: the trainer could not be forked safely")
    trainer, _ = start_trainer_fork_server(settings.trainer_nice, load_trainer)
    from roambench.learning.malloc import keep_freed_memory

    keep_freed_memory(arenas=1)  # a model's buffers come and go with every order, in several threads
    from roambench.agent.life.process import Agent
    from roambench.agent.life.session import AgentSession

    return run_to_its_end(Agent(AgentSession(settings, trainer, load)).run())


def _log(settings: AgentSettings) -> int:
    from roambench.agent.readings.meter_logger import log_meter

    return log_meter(settings)
