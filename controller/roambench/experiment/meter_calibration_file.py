"""Calibrations of meters on disk: one TOML table per meter's serial number (rule R11)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from roambench.contract.errors import ConfigError
from roambench.energy.uncertainty import MeterCalibration
from roambench.experiment.energy_section import CalibratedMeter
from roambench.written.lines import KeyLines
from roambench.written.mistakes import mistakes_of
from roambench.written.toml_file import read_toml


def read_meter_calibrations(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of the file, checked, JSON-ready; ConfigError lists every mistake with file, table, key.

    [02A1C001]                 # the serial number of a meter; a device's name does for one that has none
    gain = 1.0123
    offset_w = 0.004
    u_gain = 0.0025
    u_offset_w = 0.003
    date = "2026-03-01"
    reference = "bench supply 7"
    u_reference = 0.001
    """
    tables = read_toml(path, str(path))
    problems: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            problems.append(f"{path}: {name}: expected a table of one meter, got {table!r}")
            continue
        try:
            meter = CalibratedMeter.model_validate(table)
        except ValidationError as error:
            problems += [f"{path}: {mistake}" for mistake in mistakes_of(error, CalibratedMeter, (name,))]
            continue
        found[name] = meter.model_dump(mode="json")
        problems += [f"{path}: {problem}" for problem in reference_problems(name, found[name])]
    if problems:
        raise ConfigError(KeyLines(path).put_in(problems, str(path)))
    return found


def with_meter_calibration(
    path: Path, serial: str, calibration: MeterCalibration, date: dt.date, about: str
) -> str:
    """The file's text with the meter's table in place of the one it had, all else as it is written there.

    `about` is one line of comment. ConfigError lists what is wrong with a file that is there already.
    """
    import tomlkit  # slow, and who reads an experiment writes none

    written = tomlkit.document()
    if path.exists():
        read_meter_calibrations(path)
        written = tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    table = tomlkit.table()
    table.comment(about)
    table["gain"] = round(calibration.gain, 6)
    table["offset_w"] = round(calibration.offset_w, 5)
    table["u_gain"] = round(calibration.u_gain, 6)
    table["u_offset_w"] = round(calibration.u_offset_w, 6)
    table["date"] = date.isoformat()
    table["reference"] = calibration.reference
    table["u_reference"] = min(round(calibration.u_reference, 6), table["u_gain"])
    written[serial] = table
    return tomlkit.dumps(written)


def reference_problems(name: str, values: Mapping[str, Any]) -> list[str]:
    """Mistakes between the keys of one meter's table, each of which is right by itself."""
    share, whole = values.get("u_reference", 0.0), values.get("u_gain", 0.0)
    if not isinstance(share, int | float) or not isinstance(whole, int | float):
        return []
    problems = []
    if share > whole:
        problems.append(
            f"{name}.u_reference: expected at most u_gain ({whole}), which contains it, got {share}"
        )
    if share and not values.get("reference"):
        problems.append(f"{name}.reference: is missing, expected the name of what u_reference belongs to")
    return problems
