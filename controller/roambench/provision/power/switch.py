"""The protocol of what switches one board, a row of the table of such switches, and their error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from roambench.contract.errors import LinkError
from roambench.contract.printable import printable
from roambench.meters.switching import PowerState
from roambench.provision.bench import Host
from roambench.written.toml_file import Section

_LONGEST = 300  # characters of a switch's own words that are shown


class BoardSwitch(Protocol):
    """Every call ends within its own time and raises a RoambenchError (`SwitchError`) when it failed.

    A switch that can be asked asks after `on` and `off`, and fails where the answer is the contrary.
    """

    async def on(self) -> None:
        """Give the board power."""
        ...

    async def off(self) -> None:
        """Cut the board's power: all that runs on it is lost."""
        ...

    async def state(self) -> PowerState | None:
        """Ask whether the board has power; None where this switch cannot be asked. Switches nothing."""
        ...


@runtime_checkable
class Forewarns(Protocol):
    """A switch that can also be asked whether it would switch by itself."""

    async def trouble(self) -> str:
        """Return why the board may lose its power unasked, in one line; "" for no such reason. Switches
        nothing."""
        ...


class SwitchError(LinkError):
    """A switch that cannot be reached, refuses, or gives a wrong answer; `next_action` is for people."""

    def __init__(self, reason: str, next_action: str = "") -> None:
        self.reason, self.next_action = short(reason), next_action
        super().__init__(f"{self.reason}; {next_action}" if next_action else self.reason)


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A sort of switch: the keys of its `power` table and what makes a `BoardSwitch` of them and a host.

    `keys` describes the table without `switch`. `outlet` names the one thing that is switched, the same for
    two hosts that would cut each other's power; "" where no two can meet. `switch` touches nothing, and
    raises a RoambenchError where there is no way. `next_action` goes with errors that name none.
    `device` names who is asked, the same for all its outlets: one question at a time; "" where many may be.
    """

    summary: str
    keys: type[Section]
    outlet: Callable[[Any], str]
    switch: Callable[[Any, Host], BoardSwitch]
    next_action: str = ""
    device: Callable[[Any], str] = lambda _keys: ""


def short(text: str) -> str:
    """A far side's words as one line that is safe to print."""
    text = printable(" ".join(text[: 2 * _LONGEST].split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def contradicted(where: str, wanted: bool, state: bool) -> SwitchError:
    """The error of a switch that was switched and says that it is not."""
    words = ("off", "on")
    return SwitchError(f"{where}: was switched {words[wanted]}, but says that it is {words[state]}")
