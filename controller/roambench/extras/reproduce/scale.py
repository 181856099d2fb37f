"""The catalogue, its scale and its results: the options of `roambench reproduce`, read for every `--help`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

#: Where a checkout has it, from the checkout's root.
CATALOGUE: Final = Path("experiments") / "reproduction.toml"
#: Where runs and pages go unless the command says otherwise.
RUNS: Final = Path("runs") / "reproduce"
PAGES: Final = Path("build") / "results"
#: What came out, as a checkout keeps it.
KEPT: Final = Path("docs") / "results"


class Scale(StrEnum):
    """The share of a paper's work that is done."""

    SMALL = "small"
    MEDIUM = "medium"
    FULL = "full"
