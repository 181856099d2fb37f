"""The codecs of models on their way, the same for all devices of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: A model as it is: it is not coded at all.
IDENTITY: Final = "identity"


@dataclass(frozen=True, slots=True)
class LinkCodecs:
    """Codecs as experiments spell them (`learning.codecs.catalogue`)."""

    up: str = IDENTITY
    down: str = IDENTITY
    difference: bool = True  # up: of the difference to the model that a training began from
    seed: int = 0  # of stochastic rounding, with the device and the step

    @property
    def codes_up(self) -> bool:
        """Return whether what devices upload is coded."""
        return self.up != IDENTITY

    @property
    def codes_down(self) -> bool:
        """Return whether what devices download is coded."""
        return self.down != IDENTITY


NOT_CODED: Final = LinkCodecs()
