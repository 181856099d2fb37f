"""The first steps of a command's process: it prints in any encoding, and forks what will fork for it."""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

#: A command reads libraries of half a million objects that stay. With the usual 700, looking through them
#: again and again is 4 to 7 % of the CPU time of a small simulated run.
OBJECTS_PER_COLLECTION: Final = 50_000
#: What the processes that train on this machine have in common, torch most of all, by the kind of fleet.
_TRAINING: Final[Mapping[str, str]] = {
    "local": "roambench.agent.orders.trainer_process",
    "simulated": "roambench.fleet.simulated.worker",
}

#: What a terminal that is not UTF-8 gets instead of our signs; of other letters a question mark.
_PLAIN: Final = str.maketrans(
    {
        "\u2013": "-",
        "\u2212": "-",
        "\u00d7": "x",
        "\u00b1": "+-",
        "\u2265": ">=",
        "\u2264": "<=",
        "\u2588": "#",
    }
    | {"\u2026": "...", "\u2192": "->", "\u00b7": ".", "\u00b5": "u", "\u00b0": "deg"}
)
_IN_OTHER_LETTERS: Final = "roambench.in_other_letters"

_settled = False


def _in_other_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what takes the place of letters that a stream's encoding lacks; bytes of a file's name stay
    these."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    if all("\udc80" <= letter <= "\udcff" for letter in letters):
        return letters.encode("ascii", "surrogateescape"), error.end
    return letters.translate(_PLAIN).encode("ascii", "replace").decode(), error.end


codecs.register_error(_IN_OTHER_LETTERS, _in_other_letters)


def settle() -> None:
    """For the process of a command: look for garbage seldom, and not at its end, where what libraries leave
    would be looked through three times (0.4 s with torch). What it prints is never a letter that the stream's
    encoding lacks. NumPy, which is not loaded yet, has one thread, as
    in all processes that it forks."""
    global _settled
    _settled = True
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_IN_OTHER_LETTERS)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)


def _open_standard_streams() -> None:
    """Put /dev/null where the command was started without a standard stream (`>&-`): no file that is opened
    later takes its number, and so what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r", encoding="utf-8"))


def fork_trainings(fleet: str) -> None:
    """Load torch where the runs on this fleet train in processes of this machine, and fork the process that
    forks them, while this one has neither threads nor grpc. One that was forked itself asks who forked it; a
    process that only calls a command, as a test, is not forked."""
    if _settled and fleet in _TRAINING:
        from roambench.fleet.fork_server_process import fork_from_here

        fork_from_here([_TRAINING[fleet]])
