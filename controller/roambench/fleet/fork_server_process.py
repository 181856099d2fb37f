"""Forks processes on request: what they all need is loaded once and shared by them.

    python -m roambench.fleet.fork_server_process MODULE...

The modules are loaded. A command that has loaded them itself forks such a server from itself instead, before
it does anything else (`fork_from_here`).

Standard input is a Unix socket of whole messages. Each is JSON, {"module": NAME, "argument": TEXT,
"tells_end": bool, "may_fork": bool}: the child runs the module's `forked(TEXT)`. It carries two to four
files: one end of a socket pair, which becomes the child's standard input; its log, which becomes its standard
output and error; for a child that may ask for processes itself, the other end of this process's standard
input; and one that the child keeps open. The child says its process id on the socket pair, {"pid": n}; with
`tells_end` this process says there how it ended, {"status": n}, negative for a signal. Ends when no process
holds that other end any more.

Importing torch makes 150 MB of a process's own memory, and 1.7 s of CPU. Nothing is computed here: torch must
not have started threads when it is forked. Nor may grpc be loaded: what is forked of it hangs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from roambench.fleet import fork_server

_MESSAGE_BYTES = 65536


def main(modules: list[str]) -> int:
    """The process that forks others on request; returns its exit status."""
    gc.disable()  # what is read stays: looking through it meanwhile is an eighth of the CPU time
    for module in modules:
        import_module(module)
    # Frozen objects keep their pages unwritten by the collector, so that they stay shared.
    gc.collect()
    gc.freeze()
    gc.enable()
    _serve(socket.socket(fileno=os.dup(0)))
    return 0


def fork_from_here(modules: Sequence[str]) -> None:
    """Load the modules into this process, which needs them itself, and fork from it the server that its runs
    ask: a second and a half sooner than one that loads them again. The server ends with this process.

    To be called by a command before it starts threads or loads grpc; RuntimeError if it has.
    """
    if fork_server.inherited is not None:
        return
    os.environ |= fork_server.ONE_THREAD
    for module in modules:
        import_module(module)
    if threading.active_count() > 1 or "grpc" in sys.modules:
        raise RuntimeError("a process with threads or with grpc cannot be forked safely")
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    gc.freeze()  # objects that the collector leaves alone stay shared
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        pid = os.fork()  # from 3.12 on Python warns of torch's own threads, which wait for work
    if pid:
        theirs.close()
        fork_server.inherited = ours
        atexit.register(_see_out, ours, pid)
        return
    status = 1
    try:
        ours.close()
        sys.excepthook = sys.__excepthook__
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for file in range(3):
            os.dup2(null, file)  # who waits for the end of what a command prints does not wait for this
        os.close(null)
        _serve(theirs)
        status = 0
    finally:
        os._exit(status)


def _see_out(orders: socket.socket, pid: int) -> None:
    """The end of a command: what its runs asked for has ended, and so does the process that forked it."""
    orders.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _serve(orders: socket.socket) -> None:
    """Fork what is asked for, until no process can ask any more and all that were forked have ended."""
    # Ctrl-C and a hang-up reach the whole process group; who asked for a process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The end of a child wakes the loop; it is waited for, not ignored: so its CPU time counts as a child's.
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    links = dict[int, int]()
    with orders:
        while True:
            readable, _, _ = select.select([orders, woken], [], [])
            if woken in readable:
                woken.recv(_MESSAGE_BYTES)
                _reap(links, os.WNOHANG)
            if orders in readable:
                message, files, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 4)
                if not message:
                    break
                order = json.loads(message)
                if (pid := os.fork()) == 0:
                    for end in (orders, woken, wakes):
                        end.close()
                    for link in links.values():
                        os.close(link)
                    _live(order, files)
                link, *others = files
                if order["tells_end"]:
                    links[pid] = link
                else:
                    others.append(link)
                for file in others:
                    os.close(file)
    _reap(links, 0)


def _reap(links: dict[int, int], options: int) -> None:
    """Take note of children that have ended, and tell who wants to know; without options wait for all."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, options))[0]:
            pid, status = ended
            if link := links.pop(pid, 0):
                with contextlib.suppress(OSError):  # no process listens any more
                    os.write(link, json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
                os.close(link)


def _live(order: dict[str, Any], files: list[int]) -> NoReturn:
    """Be the child that was asked for, to its end."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        link, log, *others = files
        os.dup2(link, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(link)
        os.close(log)
        if order["may_fork"]:
            fork_server.inherited = socket.socket(fileno=others[0])
        os.write(0, json.dumps({"pid": os.getpid()}).encode() + b"\n")
        status = import_module(order["module"]).forked(order["argument"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
