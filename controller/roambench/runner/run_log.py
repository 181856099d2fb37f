"""Log of unforeseen errors while a run goes on, kept whole in its folder; the console gets one sentence."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from roambench.contract.errors import PluginError, RoambenchError, UnexpectedError
from roambench.contract.shortages import SHORTAGES
from roambench.runner.foreign_code import blame

#: In a run folder in whose run something unexpected happened; the one before it is `controller.log.1`.
LOG: Final = "controller.log"
_MOST_BYTES: Final = 1_000_000
_MOST_TOLD: Final = 200  # characters
_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


@contextmanager
def logged(folder: Path, what: str) -> Iterator[None]:
    """While the body runs, all that is logged in this process (tasks and threads that crash among it) goes to
    `folder`/controller.log instead of the console, which names the file at the first error.

    The body's own end, too: what roambench raises on purpose passes; other errors leave their traceback there
    and become one sentence about `what`: PluginError where another package's code raised it, or
    UnexpectedError.
    """
    root, path = logging.getLogger(), folder / LOG
    log, on_console, before = _log_at(path), _ConsoleHandler(path, what), threading.excepthook
    for handler in (log, on_console):
        handler.addFilter(_is_ours)
    root.addHandler(log)
    root.addHandler(on_console)
    threading.excepthook = _thread_crashed
    try:
        yield
    except PluginError as error:
        raise PluginError(f"{what}: {error}") from error.__cause__
    except RoambenchError:
        raise
    except Exception as error:
        log.handle(_record(what, error))  # the end of the command reports it
        sentence = blame(error)
        kind = PluginError if sentence else UnexpectedError
        raise kind(f"{what}: {sentence or mistake(error)}; the traceback is in {path}") from error
    finally:
        threading.excepthook = before
        root.removeHandler(on_console)
        root.removeHandler(log)
        log.close()


def keep_traceback(error: BaseException) -> Path:
    """Write it to its own file, where no run has a log."""
    path = Path(tempfile.mkdtemp(prefix="roambench-")) / LOG
    with contextlib.closing(_log_at(path)) as log:
        log.handle(_record("the command", error))
    return path


def mistake(error: BaseException) -> str:
    """The sentence about an unforeseen error; a machine that is short of something is no bug."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MemoryError):
        return "this machine has not enough memory for it: free some, or take fewer devices or steps"
    if isinstance(error, OSError) and error.errno in SHORTAGES:
        named = f" ({error.filename})" if error.filename else ""
        return f"this machine fails: {error.strerror}{named}; {SHORTAGES[error.errno]}"
    return f"a bug, please report it: {' '.join([f'{type(error).__name__}:', *str(error).split()])}".rstrip(
        ":"
    )


def _log_at(path: Path) -> logging.Handler:
    """Open a log of bounded size; there is no file before there is a line."""
    log = _Quiet(
        path, maxBytes=_MOST_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace", delay=True
    )
    formatter = logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    log.setFormatter(formatter)
    log.setLevel(logging.WARNING)
    return log


def _record(what: str, error: BaseException) -> logging.LogRecord:
    about = (type(error), error, error.__traceback__)
    return logging.LogRecord(__name__, logging.CRITICAL, __file__, 0, "%s ended", (what,), about)


def _is_ours(record: logging.LogRecord) -> bool:
    """Not what gRPC says of strangers' bytes and of calls whose other side is gone: it goes on, and they
    could fill the log. What a call ran into in our own code is.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not record.name.startswith("grpc."):
        return True
    if error is None or type(error).__module__.startswith("grpc."):
        return False
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith("roambench.") for frame, _ in frames)


def _thread_crashed(about: threading.ExceptHookArgs) -> None:
    if about.exc_value is not None and about.exc_type is not SystemExit:
        error = (about.exc_type, about.exc_value, about.exc_traceback)
        logging.getLogger(__name__).error("thread %s ended", about.thread, exc_info=error)


class _Quiet(RotatingFileHandler):
    """A full disk ends nothing and prints nothing."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Nowhere to tell of it."""


class _ConsoleHandler(logging.Handler):
    """Says on standard error, once, that there is something to read in the log."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(logging.ERROR)
        self._path, self._what, self._printed = path, what, False

    def emit(self, record: logging.LogRecord) -> None:
        """At the first error only: what follows is read there, too."""
        if self._printed:
            return
        self._printed = True
        error = record.exc_info[1] if record.exc_info else None
        said = mistake(error) if error is not None else record.getMessage().partition("\n")[0]
        with contextlib.suppress(OSError):  # the reader is gone
            print(
                f"roambench: {self._what} goes on after {said[:_MOST_TOLD]}; see {self._path}",
                file=sys.stderr,
            )
