"""The learning settings that a device needs to train: sent once per session, the same on every fleet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from roambench.contract.json_values import from_json
from roambench.contract.link_codecs import NOT_CODED, LinkCodecs
from roambench.contract.program_spec import ProgramSpec

#: Of a model's numbers. float64 is a test mode of simulated fleets: in it, layouts and devices agree.
PRECISIONS: Final = ("float32", "float64")

#: Of local training; their numbers other than step size, momentum and weight decay are the usual ones.
OPTIMISERS: Final = ("sgd", "adam")

#: Begins a `LearningSpec.shard` that is no path: the SHA-256 (hex) of data that the controller ships.
SHARD_BY_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class LearningSpec:
    """Local training settings shared by all devices of a run.

    `shard` is the path of the device's own data file on its machine, or its digest (SHARD_BY_DIGEST): the
    agent then fetches it. The file is safetensors with `images`, float32 of shape (n, channels, height,
    width), already normalised, and `labels`, int64 of shape (n,).
    """

    model: str  # a name of the model catalogue, for example "mohawk_cnn"
    in_channels: int
    classes: int
    learning_rate: float
    momentum: float
    weight_decay: float
    batch_size: int
    shard: str
    augmentation: str = "none"  # "none" or "crop_flip"
    channels_last: bool = True
    task: str = ""  # "package.module:Name" of the user's own task, whose model goes before `model`
    height: int = 32  # pixels of an image
    width: int = 32
    optimiser: str = "sgd"  # one of OPTIMISERS
    precision: str = "float32"  # one of PRECISIONS
    codecs: LinkCodecs = NOT_CODED  # models on their way
    program: ProgramSpec | None = None  # answers the device's orders in place of the trainer

    def to_json(self) -> bytes:
        """Its fields as JSON; `from_json` is the inverse."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> LearningSpec:
        """Inverse of `to_json`; raises ConfigError that names what is missing or of the wrong type."""
        return from_json(cls, text, "learning settings")
