"""Forks processes on request: what they all need is loaded once and shared by them.

    python -m roambench.fleet.simulated.fork_server_process MODULE...

The modules are loaded. Standard input is a Unix socket of whole messages. Each is JSON, {"module": NAME,
"argument": TEXT, "tells_end": bool}: the child runs the module's `forked(TEXT)`. It carries two or three
files: one end of a socket pair, which becomes the child's standard input; its log, which becomes its standard
output and error; and, for a child that may ask for processes itself, the other end of this process's standard
input. The child says its process id on the socket pair, {"pid": n}; with `tells_end` this process says there
how it ended, {"status": n}, negative for a signal. Ends when nobody holds that other end any more.

Importing torch makes 150 MB of a process's own memory, and 1.7 s of CPU. Nothing is computed here: torch must
not have started threads of its own when it is forked. Nor may grpc be loaded: what is forked of it hangs.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from importlib import import_module
from typing import NoReturn

from roambench.fleet.simulated import fork_server

_MESSAGE_BYTES = 65536


def main(modules: list[str]) -> int:
    """The process that forks others on request; returns its exit status."""
    # Ctrl-C and a hang-up reach the whole process group; who asked for a process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    gc.disable()  # what is read stays: looking through it meanwhile is an eighth of the CPU time
    for module in modules:
        import_module(module)
    # Frozen objects keep their pages unwritten by the collector, so that they stay shared.
    gc.collect()
    gc.freeze()
    gc.enable()
    # The end of a child wakes the loop; it is waited for, not ignored: so its CPU time counts as a child's.
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    told = dict[int, int]()
    with socket.socket(fileno=os.dup(0)) as orders:
        while True:
            readable, _, _ = select.select([orders, woken], [], [])
            if woken in readable:
                woken.recv(_MESSAGE_BYTES)
                _reap(told, os.WNOHANG)
            if orders in readable:
                message, files, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 3)
                if not message:
                    break
                order = json.loads(message)
                if (pid := os.fork()) == 0:
                    for end in (orders, woken, wakes):
                        end.close()
                    for link in told.values():
                        os.close(link)
                    _live(order["module"], order["argument"], files)
                link, *others = files
                if order["tells_end"]:
                    told[pid] = link
                else:
                    others.append(link)
                for file in others:
                    os.close(file)
    _reap(told, 0)
    return 0


def _reap(told: dict[int, int], options: int) -> None:
    """Take note of children that have ended, and tell who wants to know; without options wait for all."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, options))[0]:
            pid, status = ended
            if link := told.pop(pid, 0):
                with contextlib.suppress(OSError):  # nobody listens any more
                    os.write(link, json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
                os.close(link)


def _live(module: str, argument: str, files: list[int]) -> NoReturn:
    """Be the child that was asked for, to its end."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        link, log, *orders = files
        os.dup2(link, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(link)
        os.close(log)
        for end in orders:
            fork_server.inherited = socket.socket(fileno=end)
        os.write(0, json.dumps({"pid": os.getpid()}).encode() + b"\n")
        status = import_module(module).forked(argument)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
