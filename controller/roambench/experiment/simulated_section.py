"""The table `[simulated]`: who trains for virtual devices, and what such a device is taken to need."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.energy.modelled.device_power import IDLE_W, POWER_SPREAD, TRAIN_W
from roambench.written.toml_file import Section


class SimulatedSection(Section):
    """Virtual devices (`--fleet simulated`): how many workers train, and what a device is taken to need."""

    backend: Literal["workers", "stacked", "ray"] = Field(
        "workers",
        description="Processes that train (docs/simulating.md).",
    )
    ray_address: str = Field(
        "",
        description="Ray cluster, `auto` or `host:port`; empty: one here. Trusted networks only.",
    )
    workers: int = Field(
        0,
        ge=0,
        description="Training processes, or threads of `stacked`; 0: one per core.",
    )
    precision: Literal["float32", "float64", "tf32", "bfloat16"] = Field(
        "float32",
        description="`float64` is a test mode; `tf32` and `bfloat16` are for `stacked`.",
    )
    stack: int = Field(
        16,
        ge=1,
        description="Devices that `stacked` trains at once.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where `stacked` trains.")
    train: Literal["when_used", "always"] = Field(
        "when_used",
        description="Compute a training when its model is uploaded (results are the same, losses of unused "
        "ones are not reported), or when it is ordered. Systems that need a loss compute always.",
    )
    sgd_step_s: float = Field(
        0.0,
        ge=0.0,
        description="Modelled seconds of an SGD step of this model; 0: by its operations and `gflop_s`.",
    )
    gflop_s: float = Field(
        2.4,
        gt=0.0,
        description="Speed of a device: 10⁹ floating-point operations per second of training.",
    )
    coding_s: float = Field(
        0.15, ge=0.0, description="Assumed seconds to code or decode a million numbers, with any codec."
    )
    upload_mbit_s: float = Field(
        20.0, ge=0.0, description='Modelled uplink without `links.link = "modelled"`; 0: no time.'
    )
    download_mbit_s: float = Field(20.0, ge=0.0, description="Modelled downlink; 0: no time.")
    idle_w: float = Field(IDLE_W, ge=0.0, description="Assumed idle draw.")
    train_w: float = Field(
        TRAIN_W,
        ge=0.0,
        description="Assumed draw of training above idle.",
    )
    power_spread: float = Field(
        POWER_SPREAD,
        ge=0.0,
        lt=1.0,
        description="Devices' `idle_w` and `train_w` are within ± this share.",
    )
    speed_spread: float = Field(
        0.03,
        ge=0.0,
        lt=1.0,
        description="Devices' seconds of an SGD step are within ± this share.",
    )
    energy_rate: Literal["distance", "transfer"] = Field(
        "distance",
        description="Throughput in Eq. 1: Eq. 2's for the distance, or the simulated one.",
    )

    @property
    def model_precision(self) -> Literal["float32", "float64"]:
        """The dtype of the models, which does not depend on the training's."""
        return "float64" if self.precision == "float64" else "float32"
