"""Options of a run on a bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

#: Hosts with this tag wait in a campaign until one of them takes the place of a board.
SPARE: Final = "spare"


class Tagged(Protocol):
    """A host by its name and tags."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        ...


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Checks that a user waives, and patience. `wait_s`: seconds to queue for a bench in use.
    `spares_wait`: hosts tagged `spare` take no part. `left_out`: neither do these, which are broken."""

    only: tuple[str, ...] = ()
    preflight: bool = True
    unproven: bool = False
    wait_s: float = 0.0
    spares_wait: bool = False
    left_out: tuple[str, ...] = ()

    def waits(self, host: Tagged) -> bool:
        """Return whether the host is a spare that waits; one called for by its name does not."""
        from roambench.provision.bench import chosen_words  # late: help needs none of what it brings

        return self.spares_wait and SPARE in host.tags and host.name not in chosen_words(self.only)[0]


#: Nothing is waived.
USUAL: Final = BenchOptions()
