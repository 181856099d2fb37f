"""The process of a ServerApp, beside the controller."""

from __future__ import annotations

import os
from pathlib import Path

from roambench.agent.orders.program_process import ProgramProcess
from roambench.experiment.program_section import ProgramSection
from roambench.extras.flower import server_process


async def server_app(
    section: ProgramSection, settings: str, folder: Path, log: Path, most_header_bytes: int
) -> ProgramProcess:
    """Start a ServerApp by `server_process`, with `folder` as its current one. It may take half of this
    machine's memory: what it aggregates is there more than once."""
    half_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 2
    return await ProgramProcess.start(
        Path(server_process.__file__),
        "run",
        settings,
        python=section.python,
        folder=folder,
        log=log,
        memory_bytes=half_bytes,
        most_bytes=section.message_mib * 2**20 + most_header_bytes,
    )
