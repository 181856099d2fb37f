"""What a device must know to train: sent once per session, the same on every fleet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from roambench.contract.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LearningSpec:
    """Local training settings shared by all devices of a run.

    `shard` is the path of the device's own data file on its machine (safetensors with `images`, float32
    of shape (n, channels, height, width), already normalised, and `labels`, int64 of shape (n,)).
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

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, text: bytes) -> LearningSpec:
        """Inverse of `to_json`; raises ConfigError that names what is missing or of the wrong type."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError([f"learning settings are not JSON: {error}"]) from None
        if not isinstance(values, dict):
            raise ConfigError(["learning settings: expected a table"])
        problems = [f"learning settings: unknown key {key!r}" for key in values.keys() - _TYPES.keys()]
        for key, expected in _TYPES.items():
            if key not in values:
                problems.append(f"learning settings: {key} is missing")
            elif type(values[key]) is not expected and not (expected is float and type(values[key]) is int):
                problems.append(f"learning settings: {key} must be {expected.__name__}")
        if problems:
            raise ConfigError(problems)
        return cls(**values)


_TYPES: dict[str, type] = {
    field.name: {"str": str, "int": int, "float": float, "bool": bool}[str(field.type)]
    for field in fields(LearningSpec)
}
