"""A run's own account in `run.json`: who ran, where, when, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from roambench.contract.errors import RunError
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind

FORMAT = 1


class RunState(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"  # Ctrl-C, or the process is gone without having said anything
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Identity and circumstances of one run.

    `device_names` are in the order of the experiment's device indices. `start_device_ns` and
    `end_device_ns` bound the run in device time (None before it is known). `distance_mean_m` and
    `distance_sd_m` are the statistics over (present device, step) pairs that Eq. 2 maps from.
    """

    run_id: str
    system: str
    seed: int
    trace_hash: str
    fleet: str  # the name of its kind
    device_names: tuple[str, ...]
    time_scale: float = 1.0
    created_utc: str = ""
    start_device_ns: int | None = None
    end_device_ns: int | None = None
    distance_mean_m: float | None = None
    distance_sd_m: float | None = None
    association: str = ""  # the rule that gives devices their AP
    assignment_hash: str = ""  # mobility.assignment_hash of all steps that were to be replayed
    model_bytes: int | None = None
    model_parameters: int | None = None
    lookahead: bool = False
    doubts: tuple[str, ...] = ()  # what a report must say before its numbers: checks that were waived
    versions: Mapping[str, str] = field(default_factory=dict)
    code: tuple[
        Mapping[str, Any], ...
    ] = ()  # of other packages that took part: name, version, hash of sources
    state: RunState = RunState.RUNNING
    reason: str = ""

    @property
    def kind(self) -> FleetKind:
        """The kind of its fleet. RunError for one that this version does not know."""
        try:
            return FLEET_KINDS[self.fleet]
        except KeyError:
            known = ", ".join(FLEET_KINDS)
            raise RunError(f"run {self.run_id}: fleet {self.fleet!r} is none of {known}") from None

    def to_json(self) -> str:
        """The text of run.json."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, path: Path) -> RunInfo:
        """Inverse of `to_json`; raises RunError naming `path` and the key that is wrong."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path}: not JSON: {error}") from None
        if not isinstance(values, dict):
            raise RunError(f"{path}: expected a table of keys")
        found = values.pop("format", None)
        if found != FORMAT:
            raise RunError(f"{path}: format {found!r} is not {FORMAT}; it was written by another version")
        known = {item.name for item in fields(cls)}
        for key in values.keys() - known:
            raise RunError(f"{path}: unknown key {key!r}; it was written by another version")
        for key, expected in _EXPECTED.items():
            value = values.get(key, _ABSENT)
            if value is _ABSENT:
                if key in _REQUIRED:
                    raise RunError(f"{path}: {key} is missing")
            elif not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
                names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in expected)
                raise RunError(f"{path}: {key} must be {names}, got {value!r}")
        if any(not isinstance(name, str) for name in values["device_names"]):
            raise RunError(f"{path}: device_names must be a list of names")
        values["device_names"] = tuple(values["device_names"])
        values["doubts"] = tuple(map(str, values.get("doubts", ())))
        values["code"] = tuple(item for item in values.get("code", ()) if isinstance(item, dict))
        try:
            values["state"] = RunState(values.get("state", RunState.RUNNING))
        except ValueError:
            raise RunError(f"{path}: state must be one of {', '.join(RunState)}") from None
        return cls(**values)


_ABSENT: Any = object()
_REQUIRED = ("run_id", "system", "seed", "trace_hash", "fleet", "device_names")
_EXPECTED: dict[str, tuple[type, ...]] = {
    "run_id": (str,),
    "system": (str,),
    "seed": (int,),
    "trace_hash": (str,),
    "fleet": (str,),
    "device_names": (list,),
    "time_scale": (int, float),
    "created_utc": (str,),
    "start_device_ns": (int, type(None)),
    "end_device_ns": (int, type(None)),
    "distance_mean_m": (int, float, type(None)),
    "distance_sd_m": (int, float, type(None)),
    "association": (str,),
    "assignment_hash": (str,),
    "model_bytes": (int, type(None)),
    "model_parameters": (int, type(None)),
    "lookahead": (bool,),
    "doubts": (list,),
    "versions": (dict,),
    "code": (list,),
    "state": (str,),
    "reason": (str,),
}
