"""The end of a command before its time: by Ctrl-C, SIGTERM or a lost terminal, in good order, and at once
when it is asked again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from sys import UnraisableHookArgs as Unraisable

_AGAIN_S: Final = 0.001
#: A run's reason after Ctrl-C.
BY_THE_USER: Final = "stopped by the user"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Printed when a run is asked to stop: its agents take seconds to hand over what they hold.
STOPPING: Final = "stopping: what was measured is being brought in (once more: at once) ..."


class _Asked:
    """The request to stop that this process got, and the work that is to end in good order."""

    by: signal.Signals | None = None
    again: bool = False
    task: asyncio.Task[Any] | None = None  # of `run_async`, until its loop is closed
    words: str = ""
    left: asyncio.Runner | None = None  # with all that it still ran: kept, so that nothing is torn down


@contextmanager
def signals_heeded(*, also_ignored: bool = False) -> Iterator[None]:
    """While the body runs, each of SIGNALS cancels what `run_async` runs, or raises KeyboardInterrupt where
    that runs nothing; so does every further one where it finds that work computing. KeyboardInterrupt's text
    is a run's reason; who gets it calls `leave`.

    A signal that this process was started to ignore (nohup, a script's background command) stays ignored
    unless `also_ignored`.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        yield
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}
    complain, sys.unraisablehook = sys.unraisablehook, _NotLost(sys.unraisablehook)
    for number, handler in before.items():
        if also_ignored or handler is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    try:
        yield
    finally:
        _Asked.by, _Asked.again = None, False
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = complain


def exit_status() -> int:
    """Exit status of a process that a signal ended: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_Asked.by or signal.SIGINT)


def leave() -> int:
    """`exit_status`, for who ends this process; after a second signal it ends here, without tearing anything
    down. gRPC under way, torn down with its loop or the interpreter, may wait for ever, or crash."""
    if _Asked.again:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # its reader is gone
                stream.flush()
        os._exit(exit_status())
    return exit_status()


def run_async(work: Coroutine[Any, Any, T], stopping: str = "") -> T:
    """Run `work` as `asyncio.run` does; a signal cancels `work`, whose clean-up is then awaited, and raises
    KeyboardInterrupt, also where `work` came to its end all the same. `stopping` is then printed at once.

    After a second signal all else in the loop is left as it is."""

    async def noted() -> T:
        _Asked.task, _Asked.words = asyncio.current_task(), stopping
        if _Asked.by is not None:  # before it began
            work.close()
            raise asyncio.CancelledError
        return await work

    runner = asyncio.Runner()
    try:
        result = runner.run(noted())
    except asyncio.CancelledError:
        if _Asked.by is None:
            raise
        raise KeyboardInterrupt(_reason(_Asked.by)) from None
    finally:
        if _Asked.again:
            _Asked.left = runner
        else:
            runner.close()
        _Asked.task = None
    if _Asked.by is not None:
        raise KeyboardInterrupt(_reason(_Asked.by))
    return result


@contextmanager
def stoppable_from_elsewhere() -> Iterator[Callable[[], None]]:
    """For work in its own thread, where no signal arrives: calling what this yields, from any thread,
    stops what `run_async` runs there, or runs next, as Ctrl-C would."""

    def stop() -> None:
        _Asked.by, task = signal.SIGINT, _Asked.task
        if task is not None and not task.done():
            task.get_loop().call_soon_threadsafe(task.cancel)

    try:
        yield stop
    finally:
        _Asked.by = None


async def to_its_end(work: Callable[P, Coroutine[Any, Any, T]], *words: P.args, **more: P.kwargs) -> T:
    """Await this clean-up, also where a signal comes meanwhile: the cancellation goes on behind it. After
    a second signal it is left, or not begun."""
    caller = asyncio.current_task()
    assert caller is not None
    if caller.cancelling() > 1:
        raise asyncio.CancelledError
    task = asyncio.ensure_future(work(*words, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if caller.cancelling() == 1:
            await asyncio.wait({task})
        raise


def _on_signal(number: int, frame: FrameType | None) -> None:
    """While a loop runs, an exception is raised in the work itself alone: gRPC loses one that meets it, and
    with it what it was about to tell the loop."""
    if _NotLost.is_at_work(frame):
        _send_later(number)
        return
    first, _Asked.by = _Asked.by is None, _Asked.by or signal.Signals(number)
    _Asked.again = not first
    task = _Asked.task
    if task is not None and not task.done():
        task.cancel()
        task.get_loop().call_soon_threadsafe(lambda: None)  # it may sleep
        if first:
            with contextlib.suppress(OSError):  # a terminal that is gone reads nothing
                os.write(2, f"\n{_Asked.words}\n".encode() if _Asked.words else b"")
        if first or asyncio.current_task(task.get_loop()) is not task:
            return
    elif first and task is not None:  # its loop is closed just now
        return
    if not first:  # what is left now need not complain of it; Cython's modules do by excepthook
        sys.excepthook = lambda _kind, _error, _traceback: None
        warnings.simplefilter("ignore")
    raise KeyboardInterrupt(_reason(_Asked.by))


class _NotLost:
    """A hook for exceptions in what cannot raise, as `__del__` or the end of an import: a signal's would be
    lost there, so the signal is sent again. After a second signal nothing else complains."""

    def __init__(self, complain: Callable[[Unraisable], Any]) -> None:
        self._complain = complain

    def __call__(self, unraisable: Unraisable) -> None:
        lost = _Asked.by
        if lost is None or not issubclass(unraisable.exc_type, KeyboardInterrupt):
            if not _Asked.again:
                self._complain(unraisable)
            return
        if not _Asked.again:
            _Asked.by = None
        _send_later(lost)

    @classmethod
    def is_at_work(cls, frame: FrameType | None) -> bool:
        """Return whether the frame is of the hook or of what it calls: it cannot raise either."""
        while frame is not None and frame.f_code is not cls.__call__.__code__:
            frame = frame.f_back
        return frame is not None


def _send_later(number: int) -> None:
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))  # behind what cannot raise
    again.daemon = True
    again.start()


def _reason(by: signal.Signals) -> str:
    return BY_THE_USER if by is signal.SIGINT else f"stopped by {by.name}"
