"""The table `[simulated]`: who trains for virtual devices, and what such a device is taken to need."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.energy.modelled.device_power import IDLE_W, POWER_SPREAD, TRAIN_W, DevicePower
from roambench.written.toml_file import Section


class DeviceClass(Section):
    """A class of virtual devices. A key that it does not name is that of `[simulated]`."""

    share: float = Field(0.0, ge=0.0, le=1.0, description="Of the devices in no list; the seed draws which.")
    devices: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Strict(False)] = Field(
        (),
        json_schema_extra={"expected": "a list of integers ≥ 0"},
        description="The devices themselves, as the trace numbers them from 0.",
    )
    sgd_step_s: float | None = Field(None, gt=0.0, description="Its seconds of an SGD step of this model.")
    gflop_s: float | None = Field(
        None, gt=0.0, description="Without `sgd_step_s`: its speed, which all that it computes is scaled by."
    )
    idle_w: float | None = Field(None, ge=0.0, description="Its idle draw.")
    train_w: float | None = Field(None, ge=0.0, description="Its draw of training above idle.")


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
    classes: dict[str, DeviceClass] = Field(
        default_factory=dict,
        description="A table for each class of devices (docs/simulating.md).",
    )
    energy_rate: Literal["distance", "transfer"] = Field(
        "distance",
        description="Throughput in Eq. 1: Eq. 2's for the distance, or the simulated one.",
    )

    @model_validator(mode="after")
    def _classes_apart(self) -> Self:
        """ValueError names the class that takes what it cannot have."""
        listed: dict[int, str] = {}
        for name, own in self.classes.items():
            if bool(own.devices) == bool(own.share):
                raise ValueError(f"classes.{name}: expected either a share above 0 or devices")
            for device in own.devices:
                if listed.setdefault(device, name) != name:
                    raise ValueError(f"classes.{name}: device {device} is of {listed[device]}, too")
        whole = sum(own.share for own in self.classes.values())
        if whole > 1.0 + 1e-9:
            raise ValueError(f"classes: expected shares of at most 1 together, got {whole:g}")
        return self

    def classes_of(self, seed: int, devices: int) -> tuple[str, ...]:
        """The class of each device, "" for none: those that a list names, and shares of the others, whole
        devices that the seed draws. ConfigError for a device that is not there."""
        found = [""] * devices
        for name, own in self.classes.items():
            for device in own.devices:
                if device >= devices:
                    expected = f"expected devices of 0 to {devices - 1}, got {device}"
                    raise ConfigError([f"simulated.classes.{name}.devices: {expected}"])
                found[device] = name
        free = [device for device, name in enumerate(found) if not name]
        if free and self.classes:
            free = generator(seed, "device classes").permutation(free).tolist()
        upto = taken = 0.0
        for name, own in self.classes.items():
            upto += own.share
            for device in free[round(taken) : round(upto * len(free))]:
                found[device] = name
            taken = upto * len(free)
        return tuple(found)

    def of_class(self, name: str) -> SimulatedSection:
        """The same with the values that the class of that name sets."""
        if not name:
            return self
        own = self.classes[name].model_dump(exclude={"share", "devices"}, exclude_none=True)
        return self.model_copy(update=own)

    def slowness(self, seed: int, devices: int, step_s: float) -> tuple[float, ...]:
        """The factor by which each device is slower than those of no class; empty without classes. `step_s`:
        others' seconds of an SGD step, 0 where none are made."""
        times = {"": 1.0}
        for name, own in self.classes.items():
            if own.sgd_step_s is not None and step_s:
                times[name] = own.sgd_step_s / step_s
            else:
                times[name] = self.gflop_s / (own.gflop_s or self.gflop_s)
        return tuple(times[name] for name in self.classes_of(seed, devices)) if self.classes else ()

    def power(self, seed: int, devices: int) -> DevicePower:
        """The assumed power of this many devices."""
        if not self.classes:
            return DevicePower(self.idle_w, self.train_w, self.power_spread, seed)
        of = {name: self.of_class(name) for name in ("", *self.classes)}
        watts = {name: (section.idle_w, section.train_w) for name, section in of.items()}
        by_device = tuple(watts[name] for name in self.classes_of(seed, devices))
        return DevicePower(self.idle_w, self.train_w, self.power_spread, seed, by_device)

    @property
    def model_precision(self) -> Literal["float32", "float64"]:
        """The dtype of the models, which does not depend on the training's."""
        return "float64" if self.precision == "float64" else "float32"
