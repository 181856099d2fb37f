"""The table `[local]`: how processes on one machine stand for boards."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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
        description="Seconds of device time per second of this machine. Sensible: up to 12 for 8 agents, "
        "up to 6 for 36.",
    )
    cpu_slowdown: float = Field(
        12.0, gt=0.0, description="Device seconds a board needs for one CPU-second of training here."
    )
    sgd_step_s: float = Field(
        0.0,
        ge=0.0,
        description="Device seconds of one SGD step of every board: joules then do not depend on how fast "
        "this machine is. 0: the CPU-seconds each agent measures when it starts × `cpu_slowdown`.",
    )
    upload_mbit_s: float = Field(20.0, ge=0.0, description="Emulated uplink in Mbit/s; 0: unpaced.")
    download_mbit_s: float = Field(20.0, ge=0.0, description="Emulated downlink in Mbit/s; 0: unpaced.")
    radio_spread: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Emulated radios: α up, α down and β (one for both directions) of every board are drawn "
        "within ± this share of 10 and 5 mW per Mbit/s and 200 mW, unseen by any analysis. 0: all boards "
        "alike, 250 mW sending and 150 mW receiving besides the part per Mbit/s.",
    )
    power_shape: Literal["steady", "realistic", "harsh"] = Field(
        "realistic",
        description="How emulated boards draw besides what they do: `steady`, constant within every phase; "
        "`realistic`, with dead times, bursts and writes in transfers, a radio's tail after them, waiting "
        "above idle, an idle power that warms up, and a governor (docs/emulator.md); `harsh`, more of each.",
    )
    meters: dict[str, LocalMeter] = Field(
        default_factory=dict,
        description="Real meters by the device whose agent reads one: `{ pi-01 = { driver, port } }`. That "
        "device is this machine: it trains as fast as this machine does, nothing of its power is emulated, "
        "and no truth is known of it. Needs `time_scale = 1`. All other devices have emulated meters.",
    )
    meter_profile: str = Field(
        "smartpower2-1.6",
        description="Firmware of the emulated meters (`roambench list profiles`), one with a serial port.",
    )
    meter_interval_ms: int = Field(
        0,
        ge=0,
        description="Log interval of that firmware, where it lets one choose; 0: the profile's own.",
    )
    meter_gain: float = Field(
        1.0, gt=0.0, description="Gain every emulated sensor has: 1.03 reads 3 % too much, on purpose."
    )
    meter_gain_sd: float = Field(
        0.0, ge=0.0, description="Standard deviation of the emulated sensors' gains around `meter_gain`."
    )
    meter_stall_at_s: float = Field(
        0.0, ge=0.0, description="Device time after the start at which every emulated meter falls silent."
    )
    meter_stall_s: float = Field(
        0.0, ge=0.0, description="How long that silence lasts in device time; 0: no stall."
    )
    notes: bool = Field(
        False,
        description="For proofs that no reading is lost: every meter's lines are noted as it says them "
        "(`truth/NAME.printed`), and every reading before and after its agent keeps it "
        "(`agents/NAME/witness.txt`).",
    )
