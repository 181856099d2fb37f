"""The processes of a local run, found from outside: by their command lines and by the files they hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil


def processes_of(folder: Path) -> list[psutil.Process]:
    """Living processes whose command line names something in `folder` (those that are forked keep the
    command's), or that print into it."""
    found = []
    for process in psutil.process_iter():
        try:
            named = any(str(folder) in part for part in (*process.cmdline(), output_of(process)))
            if named and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue  # it ended meanwhile
    return found


@dataclass(frozen=True)
class AgentProcesses:
    """One agent as the kernel sees it: the reader is the agent itself, its fork server forks its trainers."""

    reader: psutil.Process
    fork_server: psutil.Process
    trainer: psutil.Process


def agent_processes(folder: Path, name: str) -> AgentProcesses:
    """Return an agent of the run in `folder`, found by its log: the standard output of all its processes.

    ValueError while one of them is missing."""
    log = str(folder / "agents" / name / "agent.log")
    family = [process for process in psutil.process_iter() if output_of(process) == log]
    pids = {process.pid for process in family}
    (reader,) = [process for process in family if process.ppid() not in pids]
    (fork_server,) = reader.children()
    (trainer,) = fork_server.children()
    return AgentProcesses(reader, fork_server, trainer)


def output_of(process: psutil.Process) -> str:
    """The file that is its standard output; empty for a process that is gone."""
    try:
        return str(Path(f"/proc/{process.pid}/fd/1").readlink())
    except OSError:
        return ""
