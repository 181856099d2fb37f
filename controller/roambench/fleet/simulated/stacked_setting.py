"""Settings with which the process of the stacked backend starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from roambench.contract.json_values import from_json
from roambench.fleet.simulated.job import WorkerSetting


@dataclass(frozen=True, slots=True)
class StackedSetting:
    """`device`: auto, cpu or cuda; `threads` of torch; `compute`: the precision that training computes in."""

    worker: WorkerSetting
    stack: int
    device: str
    threads: int
    compute: str

    def to_json(self) -> str:
        """Its fields as JSON text; `from_json` is the inverse."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, source: str) -> StackedSetting:
        """Inverse of `to_json`; ConfigError names what is missing or of the wrong type."""
        return from_json(cls, text, source)
