"""The table `[local]`: how processes on one machine stand for boards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roambench.meters.ports import SITE_PATTERN
from roambench.written.toml_file import Section


class LocalMeter(Section):
    """A real meter that an agent of this machine reads."""

    driver: str = Field("smartpower2", description="What reads it (`roambench list meters`).")
    port: str = Field(min_length=1, description="Where it is, as that driver has it: /dev/ttyUSB0.")


class LocalSection(Section):
    """Settings of processes that stand for boards on one machine (`--fleet local`, plans of a bench); others
    ignore it."""

    time_scale: float = Field(
        4.0,
        ge=1.0,
        description="Device seconds per second here; up to 12 for 8 agents, 6 for 36.",
    )
    cpu_slowdown: float = Field(12.0, gt=0.0, description="Device seconds per CPU-second of training here.")
    sgd_step_s: float = Field(
        0.0,
        ge=0.0,
        description="Device seconds of an SGD step; 0: measured CPU-seconds × `cpu_slowdown`.",
    )
    upload_mbit_s: float = Field(20.0, ge=0.0, description="Emulated uplink; 0: unpaced.")
    download_mbit_s: float = Field(20.0, ge=0.0, description="Emulated downlink; 0: unpaced.")
    radio_spread: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Radios are drawn within ± this share of 10 and 5 mW per Mbit/s and 200 mW; 0: "
        "all alike.",
    )
    power_shape: Literal["steady", "realistic", "harsh"] = Field(
        "realistic",
        description="How emulated boards draw (docs/emulator.md).",
    )
    meters: dict[str, LocalMeter] = Field(
        default_factory=dict,
        description="Real meters by device: `{ pi-01 = { driver, port } }`; needs `time_scale = 1`.",
    )
    meter_profile: str = Field(
        "smartpower2-1.6",
        description="Firmware of emulated meters (`roambench list profiles`), with serial or sysfs.",
    )
    meter_profiles: dict[str, str] = Field(
        default_factory=dict,
        description='Firmware of single devices\' meters: `{ pi-02 = "ina226" }`.',
    )
    meter_sites: dict[str, Annotated[str, Field(pattern=SITE_PATTERN)]] = Field(
        default_factory=dict,
        description='What single devices\' meters see, where not the whole board: `{ pi-02 = "CPU rail" }`.',
    )
    meter_readers: dict[str, Literal["controller"]] = Field(
        default_factory=dict,
        description='Emulated meters that hang on another machine: `{ pi-02 = "controller" }`.',
    )
    meter_interval_ms: int = Field(
        0,
        ge=0,
        description="Its log interval; 0: its own.",
    )
    meter_gain: float = Field(1.0, gt=0.0, description="Gain of emulated sensors.")
    meter_gain_sd: float = Field(0.0, ge=0.0, description="Standard deviation of these gains.")
    meter_stall_at_s: float = Field(
        0.0, ge=0.0, description="Device time at which emulated meters fall silent."
    )
    meter_stall_s: float = Field(0.0, ge=0.0, description="Length of that silence; 0: none.")
    notes: bool = Field(
        False,
        description="Note each line and reading before and after it is kept (`truth/NAME.printed`, "
        "`agents/NAME/witness.txt`).",
    )
