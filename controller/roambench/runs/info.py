"""A run's own account in `run.json`: who ran, where, when, and how it ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from roambench.contract.errors import RunError
from roambench.contract.json_values import plain
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.marks import Marks
from roambench.runs.whole_file import read_whole

#: The end of a run's id that no other run has; earlier versions gave it to runs on benches only.
_RANDOM_END: Final = re.compile(r"\.[0-9a-f]{8}$")


class RunState(StrEnum):
    """The state of a run."""

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

    format: Literal[1] = field(default=1, kw_only=True)  # of the file
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
    assignment_hash: str = ""  # mobility.association.assignment_hash of all steps that were to be replayed
    model_bytes: int | None = None
    model_parameters: int | None = None
    test_samples: int | None = None  # that score a model
    chance_accuracy: float | None = None  # of naming the most frequent class among them; None: no classes
    lookahead: bool = False
    rest_s: float = 0.0  # that boards rested after every measured phase, device time; before it half of that
    doubts: tuple[str, ...] = ()  # what a report must say before its numbers: checks that were waived
    versions: Mapping[str, str] = field(default_factory=dict)
    code: tuple[
        Mapping[str, Any], ...
    ] = ()  # of other packages that took part: name, version, hash of sources
    inputs: Mapping[str, str] = field(default_factory=dict)  # files that were read: path -> SHA-256
    data: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of data and first model as loaded
    marks: Marks = field(default_factory=Marks)  # what the folder holds at least
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

    @property
    def name_in_orders(self) -> str:
        """The beginning of its orders' ids. Agents of a bench may hold orders of another run: there it is
        the id; elsewhere it lacks the random end: equal runs give equal orders."""
        return self.run_id if self.kind.own_clocks else _RANDOM_END.sub("", self.run_id)

    def to_json(self) -> str:
        """The text of run.json."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        lines = (f'  "{name}": {json.dumps(one, ensure_ascii=False, default=plain)}' for name, one in values)
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> RunInfo:
        """Inverse of `to_json`, from a file; raises RunError naming `path` and every key that is wrong."""
        try:
            return read_whole(cls, path)
        except RunError as error:
            if "format: expected" not in str(error):
                raise
            raise RunError(f"{error}: another version of roambench wrote this run, and reads it") from None
