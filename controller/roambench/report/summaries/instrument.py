"""Cost of the instrument itself, where `roambench overhead` measured it beside the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.json_values import kept_in

#: What `roambench overhead` leaves in its folder.
RESULT: Final = "overhead.json"
#: Longer sentences are not what that command writes.
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class InstrumentCost:
    """The sentence of an overhead measurement, and the folder it is from."""

    folder: str
    verdict: str

    @property
    def sentence(self) -> str:
        """The verdict and where it was measured."""
        return f"{self.verdict} (measured in {self.folder})"


def instrument_cost(run: Path) -> InstrumentCost | None:
    """The run's own measurement, or the latest in a folder beside it; None without a readable one."""
    run = run.resolve()
    try:
        beside = sorted(run.parent.glob(f"*/{RESULT}"), key=_changed_ns, reverse=True)
    except OSError:
        return None
    for path in (run / RESULT, *beside):
        verdict = (kept_in(dict[str, object], path) or {}).get("verdict")
        if isinstance(verdict, str) and 0 < len(verdict) <= _LONGEST:
            return InstrumentCost(path.parent.name, verdict)
    return None


def _changed_ns(path: Path) -> int:
    return path.stat().st_mtime_ns
