"""The table `[energy]`: what is known of the meters, and how much idling is measured around a run."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import BeforeValidator, Field

from roambench.energy.uncertainty import UNCALIBRATED_SP2, MeterCalibration
from roambench.written.toml_file import Section


def _date(value: object) -> object:
    """TOML's own date, or the text of one, as text; ValueError for another text."""
    if isinstance(value, dt.datetime):
        value = value.date()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, str) and value:
        dt.date.fromisoformat(value)
    return value


class CalibratedMeter(Section):
    """Calibration of one meter: it reads gain x true power + offset_w."""

    gain: float | None = Field(
        None,
        gt=0.0,
        json_schema_extra={"expected": "a number > 0"},
        description="Reading / true power, offset left out; default: that of the type.",
    )
    offset_w: float = Field(0.0, description="Reading in watts where nothing is drawn.")
    u_gain: float = Field(ge=0.0, description="Relative standard uncertainty of the gain.")
    u_offset_w: float = Field(0.0, ge=0.0, description="Standard uncertainty of the offset in watts.")
    date: Annotated[str, BeforeValidator(_date)] = Field(
        "",
        json_schema_extra={"expected": "a date, YYYY-MM-DD"},
        description="When it was calibrated; without it, and after a year, bench runs and reports warn.",
    )
    reference: str = Field("", description="Against what; meters of one reference are wrong by it together.")
    u_reference: float = Field(0.0, ge=0.0, description="The reference's share of u_gain, relative.")


class EnergySection(Section):
    """Calibrations of the meters, and how much idling is measured around a run."""

    calibration_file: str = Field(
        "",
        description="TOML file with a table per meter's serial number (docs/meters.md).",
    )
    meters: dict[str, CalibratedMeter] = Field(
        default_factory=dict,
        description="The same tables; they go before the file's.",
    )
    gain: float | None = Field(
        None,
        gt=0.0,
        json_schema_extra={"expected": "a number > 0"},
        description="Reading / true power, of all meters; default: the type's.",
    )
    offset_w: float = Field(0.0, description="Offset of a reading.")
    u_gain: float | None = Field(
        None,
        ge=0.0,
        json_schema_extra={"expected": "a number ≥ 0"},
        description="Relative u of the gain; default: the type's.",
    )
    u_offset_w: float | None = Field(
        None,
        ge=0.0,
        json_schema_extra={"expected": "a number ≥ 0"},
        description="u of the offset; default: the type's.",
    )
    idle_baseline_s: float = Field(
        20.0,
        ge=0.0,
        description="Idling measured before and after; at least 60 on boards.",
    )

    quiet: bool = Field(
        False,
        description="Agents send nothing in measured phases and baselines: no drain, no event, no keepalive. "
        "Recommended on boards.",
    )

    def calibration(self) -> MeterCalibration:
        """Uncertainties of a Smart Power 2 without its own table."""
        plain = UNCALIBRATED_SP2
        return MeterCalibration(
            plain.gain if self.gain is None else self.gain,
            self.offset_w,
            plain.u_gain if self.u_gain is None else self.u_gain,
            plain.u_offset_w if self.u_offset_w is None else self.u_offset_w,
        )
