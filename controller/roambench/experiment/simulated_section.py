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
        description="Who computes the trainings: `workers`, processes of one thread each, `stacked`, one "
        "process that trains many devices' models as one batch (for GPUs; docs/simulating.md), or `ray`, "
        "single threads spread over machines by Ray (extra `[ray]`), with the models of `workers`.",
    )
    ray_address: str = Field(
        "",
        description="Ray cluster to join, `auto` or `host:port`; empty: one started on this machine. "
        "Only for trusted networks: docs/simulating.md.",
    )
    workers: int = Field(
        0,
        ge=0,
        description="Training processes of one thread each, or threads of the one `stacked` process; 0: one "
        "per core.",
    )
    precision: Literal["float32", "float64", "tf32", "bfloat16"] = Field(
        "float32",
        description="Numbers that virtual devices compute with. `float64` is a test mode, models included: "
        "in it all backends, memory layouts and thread counts agree to 1e-9. `tf32` and `bfloat16` "
        "(autocast) are for backend `stacked` on a GPU; models stay float32.",
    )
    stack: int = Field(
        16,
        ge=1,
        description="Devices that `stacked` trains at once. More keep a GPU busy until its memory is full.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where `stacked` trains; `auto`: on the GPU if there is one."
    )
    train: Literal["when_used", "always"] = Field(
        "when_used",
        description="When a training is computed: `when_used`, as soon as its model is uploaded, so that "
        "what is wasted costs no computing (models, orders, energy and digests stay the same; no training's "
        "loss is reported), or `always`, when it is ordered. Systems that choose by loss, start from what a "
        "device trained or keep models on devices compute always.",
    )
    sgd_step_s: float = Field(
        0.4, ge=0.0, description="Modelled seconds of one SGD step on a device, for the modelled energy."
    )
    upload_mbit_s: float = Field(
        20.0, ge=0.0, description="Modelled uplink where links are not modelled by distance; 0: no time."
    )
    download_mbit_s: float = Field(
        20.0, ge=0.0, description="Modelled downlink where links are not modelled by distance; 0: no time."
    )
    idle_w: float = Field(
        IDLE_W, ge=0.0, description="Assumed draw of an idle device in watts, for the modelled energy."
    )
    train_w: float = Field(
        TRAIN_W,
        ge=0.0,
        description="Assumed draw of training above idle, in watts (one busy core of a Pi 3B+).",
    )
    power_spread: float = Field(
        POWER_SPREAD,
        ge=0.0,
        lt=1.0,
        description="Devices differ: each one's `idle_w` and `train_w` are drawn within ± this share.",
    )
    speed_spread: float = Field(
        0.03,
        ge=0.0,
        lt=1.0,
        description="And so are the seconds that each one needs for an SGD step, around `sgd_step_s`.",
    )
    energy_rate: Literal["distance", "transfer"] = Field(
        "distance",
        description="Throughput at which transfers are put into Eq. 1: the one that Eq. 2 gives the distance "
        "to the AP, as in MOHAWK, or the one the transfer was simulated with.",
    )

    @property
    def model_precision(self) -> Literal["float32", "float64"]:
        """The dtype of the models, which does not depend on the training's."""
        return "float64" if self.precision == "float64" else "float32"
