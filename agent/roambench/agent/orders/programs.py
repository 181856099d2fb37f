"""Programs that answer messages on a device, beside its trainer.

A program is a Python file that `program_host` loads in a separate process. It has

    load(settings: dict, folder: pathlib.Path) -> callable that takes a message (bytes) and returns its answer

`settings` are the run's, `folder` is the device's own for this run. The file imports nothing of roambench:
its interpreter may be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A program: `module` names its file and is not imported; `summary` says what it answers."""

    module: str
    summary: str


PROGRAMS: Final[Table[ProgramRow]] = Table(
    what="program",
    group="roambench.programs",
    kind=ProgramRow,
    own={},
)


def file_of(name: str) -> Path:
    """The file of the program of that name; ConfigError for none."""
    module = PROGRAMS.load(name).module
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None or found.origin is None:
        raise ConfigError([f"program {name!r}: there is no module {module}"])
    return Path(found.origin)
