"""Preflight's checks of a host: one line per check, with what was found and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from roambench.contract.printable import printable


class CheckVerdict(StrEnum):
    """`SKIP`: there is no such hardware here, so nothing was shown."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Check:
    """`what_to_do` is empty for what passed."""

    name: str
    verdict: CheckVerdict
    found: str
    expected: str = ""
    what_to_do: str = ""


@dataclass(frozen=True, slots=True)
class HostChecks:
    """The checks of one host, and which machine answered ("": none)."""

    host: str
    checks: tuple[Check, ...]
    machine_id: str = ""

    def of(self, verdict: CheckVerdict) -> tuple[Check, ...]:
        """The checks with this verdict."""
        return tuple(check for check in self.checks if check.verdict is verdict)


@dataclass(frozen=True, slots=True)
class Preflight:
    """All hosts that were asked, in the bench's order, and when (seconds since the epoch)."""

    bench: str
    asked_s: float
    hosts: tuple[HostChecks, ...]

    @property
    def passed(self) -> bool:
        """Nothing failed; a warning stops no run."""
        return not any(host.of(CheckVerdict.FAIL) for host in self.hosts)

    def lines(self, verdicts: Iterable[CheckVerdict] = (CheckVerdict.FAIL, CheckVerdict.WARN)) -> list[str]:
        """One sentence per check of these verdicts: host, check, what was found, what to do."""
        wanted = tuple(verdicts)
        return [
            f"{host.host}: {check.name}: {printable(check.found)}"
            + (f", expected {printable(check.expected)}" if check.expected else "")
            + (f": {check.what_to_do}" if check.what_to_do else "")
            for host in self.hosts
            for check in host.checks
            if check.verdict in wanted
        ]
