"""The error tree: every error a user can meet has one root, one sentence, and names its culprit.

    RoambenchError
    ├── ConfigError        what the user wrote is wrong (file, key, expected), maybe several at once
    ├── TraceError         a mobility trace cannot be used (file, line)
    ├── DataError          a data set or a device's shard cannot be used (file)
    ├── ModelError         model bytes are not what they claim to be (device, order)
    ├── MeterError         a meter cannot be opened or has gone (port)
    ├── SpoolError         the durable queue on disk cannot be used (path)
    ├── IdentityError      certificates are missing, expired or not who they say
    ├── LinkError          the other side cannot be reached or speaks another version
    ├── FleetError         agents could not be started, or too few said hello
    │   └── HostsFailed    the same, naming the hosts
    ├── RunError           the run folder cannot be used (path)
    │   └── RecordConflict records came under keys that others have
    ├── PluginError        code of another package fails, or returns what cannot be (package, function)
    └── UnexpectedError    unforeseen: a mistake of roambench's own (where its traceback lies)

Leaves mix in the standard-library type a caller would expect, so `except ValueError` keeps working.
The command line prints `str(error)` and exits with `error.exit_code`; no traceback is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from traceback import extract_tb
from typing import Final

from roambench.contract.printable import printable


class RoambenchError(Exception):
    """Root of everything roambench raises on purpose."""

    exit_code: int = 1


class ConfigError(RoambenchError, ValueError):
    """One or more mistakes in something the user wrote; `problems` holds one line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(map(printable, problems))
        super().__init__("\n".join(self.problems))


class TraceError(RoambenchError, ValueError):
    """A mobility trace is malformed or does not fit the experiment."""

    exit_code = 2


class DataError(RoambenchError, ValueError):
    """A data set or a device's shard is missing, truncated or not what it should be."""

    exit_code = 2


class ModelError(RoambenchError, ValueError):
    """Model bytes are truncated, oversize, of another layout, or do not match their digest."""


class MeterError(RoambenchError, OSError):
    """A power meter cannot be opened or has gone away."""


class SpoolError(RoambenchError, OSError):
    """The spool database cannot be opened or written."""


class IdentityError(RoambenchError, ValueError):
    """A certificate is missing, expired, revoked or carries another name."""


class LinkError(RoambenchError, ConnectionError):
    """The other side cannot be reached, or refuses the session."""


class FleetError(RoambenchError, RuntimeError):
    """The fleet cannot do what the run needs."""


class HostsFailed(FleetError):
    """These hosts keep a run from beginning: they failed its preflight, did not come, or cannot train."""

    def __init__(self, hosts: Sequence[str], message: str) -> None:
        self.hosts = tuple(hosts)
        super().__init__(message)


class RunError(RoambenchError, OSError):
    """A run folder is missing, locked, or cannot be written."""


class RecordConflict(RunError):
    """Records came under keys that other records of the run have; `count` of them were not stored."""

    def __init__(self, message: str, count: int) -> None:
        self.count = count
        super().__init__(message)


class PluginError(RoambenchError, RuntimeError):
    """Code that another package adds fails, or returns what no run can go on with."""


class UnexpectedError(RoambenchError, RuntimeError):
    """An unforeseen mistake of roambench's own: names the file that its traceback is in."""


#: Packages in which a mistake of their caller's comes to light: the caller's line is what helps.
_LIBRARIES: Final = ("/site-packages/torch/", "/site-packages/numpy/")


def reason_of(error: BaseException) -> str:
    """The sentence of an error that roambench raises on purpose; `error_text` of any other."""
    return str(error) if isinstance(error, RoambenchError) else error_text(error)


def error_text(error: BaseException) -> str:
    """The error in one line of words, and where in the code it was raised: the last line outside of torch and
    NumPy."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _LIBRARIES)]
    frame = (own or frames)[-1]
    text = " ".join([f"{type(error).__name__}:", *str(error).split()]).removesuffix(":")
    return f"{text} ({frame.filename}:{frame.lineno})"
