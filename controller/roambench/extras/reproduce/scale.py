"""The catalogue and its scale: the options of `roambench reproduce`, read for every `--help`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

#: Where a checkout has it, from the checkout's root.
CATALOGUE: Final = Path("experiments") / "reproduction.toml"


class Scale(StrEnum):
    """The share of a paper's work that is done."""

    SMALL = "small"
    MEDIUM = "medium"
    FULL = "full"
