"""Forks training workers: what they all need is loaded once and shared by them.

    python -m roambench.fleet.simulated.worker_fork_server_process SETTING.json

Standard input is a Unix socket. Every message on it carries one end of a socket pair, on which a new worker
says its process id, that it is warm, and then answers its jobs. Ends when standard input does.

Importing torch makes 150 MB of a process's own memory, and 1.7 s of CPU. Nothing is computed here: torch must
not have started threads of its own when it is forked.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path

from roambench.contract.errors import RoambenchError
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.worker import TrainingWorker, serve


def main(arguments: list[str]) -> int:
    """The process that forks workers on request; returns its exit status."""
    # Ctrl-C and a hang-up reach the whole process group; the controller ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Waited for, not ignored: so their CPU time counts as that of the controller's children.
    signal.signal(signal.SIGCHLD, lambda number, frame: _reap(os.WNOHANG))
    path = Path(arguments[0])
    try:
        setting = WorkerSetting.from_json(path.read_text(), str(path))
    except (RoambenchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    # Frozen objects keep their pages unwritten by the collector, so that they stay shared.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as orders:
        while True:
            message, links, _, _ = socket.recv_fds(orders, 1, 1)
            if not message:
                break
            for link in links:
                if os.fork() == 0:
                    orders.close()
                    _live(link, setting)
                os.close(link)
    _reap(0)
    return 0


def _reap(options: int) -> None:
    """Take note of workers that have ended; without options wait for all."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _live(link: int, setting: WorkerSetting) -> None:
    """Be a worker until the other end of `link` is closed; does not return."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        with os.fdopen(link, "rb") as jobs, os.fdopen(os.dup(link), "wb") as answers:
            answers.write(json.dumps({"pid": os.getpid()}).encode() + b"\n")
            answers.flush()
            serve(TrainingWorker(setting), jobs, answers)
        status = 0
    except ConnectionError:
        status = 0  # the controller is gone
    except (RoambenchError, OSError, ValueError) as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
