"""The values that a worker starts with, its jobs and its answers, as JSON: models travel as rows of the
file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from roambench.contract.json_values import from_json, plain
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining


@dataclass(frozen=True, slots=True)
class WorkerSetting:
    """Everything a worker loads when it starts. `parts_path` holds every device's indices one after the
    other, `offsets_path` where each device's begin (one more entry than devices)."""

    learning: LearningSpec
    images_path: str
    labels_path: str
    parts_path: str
    offsets_path: str
    models_path: str
    model_size: int
    model_capacity: int

    def to_json(self) -> str:
        """Its fields as JSON text; `from_json` is the inverse."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, source: str) -> WorkerSetting:
        """Inverse of `to_json`; ConfigError names what is missing or of the wrong type."""
        return from_json(cls, text, source)


@dataclass(frozen=True, slots=True)
class StackedSetting:
    """The settings of a run, for the process of the stacked backend.

    `device`: auto, cpu or cuda; `threads` of torch; `compute`: the precision that training computes in.
    """

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


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Rows of the AP's, the device's own, the global and the previous AP's model (-1: none) and where the
    result goes. `velocity_row`: of an earlier training's momentum (-1: none); what it is afterwards goes
    to `velocity_out_row` (-1: nowhere). `kept_row` and `kept_out_row`: the same for what a local algorithm
    keeps on the device."""

    device: int
    ap_row: int
    own_row: int
    global_row: int
    out_row: int
    training: LocalTraining
    previous_row: int = -1
    velocity_row: int = -1
    velocity_out_row: int = -1
    kept_row: int = -1
    kept_out_row: int = -1
    step: int = 0

    @property
    def read_rows(self) -> tuple[int, int, int, int]:
        """Rows that a training reads, in the order in which `TaskTrainer.carry_out` takes the models."""
        return self.ap_row, self.own_row, self.global_row, self.previous_row

    def to_line(self) -> bytes:
        """The job as a line of JSON for a worker."""
        return json.dumps(self, default=plain, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """`refused`: why there is no model in the row; empty when there is one."""

    refused: str = ""
    samples: int = 0
    sgd_steps: int = 0
    mean_loss: float = 0.0
    mean_squared_loss: float = 0.0
    cpu_s: float = 0.0
