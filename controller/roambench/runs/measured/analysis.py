"""By which code and with which parameters a ledger was made, for its metadata."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from types import ModuleType
from typing import Any, Final

import numpy as np

from roambench.contract.json_values import without_nan
from roambench.contract.sources import own_code
from roambench.energy import account, integrate
from roambench.energy.attribution import (
    attribute,
    attribution,
    constant_powers,
    design,
    design_based,
    fit_check,
    least_squares,
    near_transfers,
    pieces,
    span_powers,
    steadiness,
    transfer_kinds,
)
from roambench.energy.attribution.attribution import Attribution
from roambench.energy.clocks import clock_fit, conversion_clock, lateness, meter_clock
from roambench.energy.idle import baseline, idle_curve
from roambench.energy.readings import frozen, samples, timeline
from roambench.runs.measured.accounts import RunEnergy

#: Whose constants are assumptions of a ledger.
_ASSUMING: Final = (
    account, attribute, attribution, baseline, clock_fit, constant_powers, conversion_clock, design,
    design_based, fit_check, frozen, idle_curve, integrate, lateness, least_squares, meter_clock,
    near_transfers, pieces, samples, span_powers, steadiness, timeline, transfer_kinds,
)  # fmt: skip


def analysis_of(energy: RunEnergy | None) -> dict[str, Any]:
    """By which code and with which parameters the ledger was made: raw readings outlive analyses (R12).

    `assumptions` are the constants of the analysis by module, priors among them; every board has its meter,
    the bound of its clock, its baselines and the prior of each fitted power. Unknown is null.
    """
    found: dict[str, Any] = {
        **own_code(),
        "assumptions": {module.__name__.rpartition(".")[2]: _constants(module) for module in _ASSUMING},
        "devices": {
            device.device: {
                "meter": asdict(device.meter.traits),
                "nominal_s": device.meter.nominal_s,
                "calibrated": device.meter.calibrated,
                "calibration": asdict(device.meter.calibration),
                "without": device.doubt,  # why its joules are in no sum
                "clock": {
                    "case": device.clock.case.value,
                    "reader": device.clock.reader,
                    "verdict": device.clock.verdict.value,
                    "bound_s": device.clock.bound_ns * 1e-9,
                    "offset_s": device.clock.offset_ms * 1e-3,
                    "drift": device.clock.drift_ppm * 1e-6,
                    "u_s": device.u_clock_s,
                },
                "frozen": [asdict(stretch) for stretch in device.frozen],
                "baselines": asdict(device.account.idle),
                "levels": _levels(device.account.attribution),
                "lateness_prior_s": device.late_prior_s,
                "lateness_s": device.account.attribution.lateness_s,
                "u_lateness_s": device.account.attribution.u_lateness_s,
                "verdicts": {phase.value: v.value for phase, v in device.account.resolutions.items()},
            }
            for device in (energy.devices if energy else ())
        },
    }
    return {key: without_nan(value) for key, value in found.items()}


def _levels(fit: Attribution) -> list[dict[str, Any]]:
    """Every fitted power with its prior and how much of it was read."""
    columns = {
        "watts": fit.watts,
        "u_w": np.sqrt(np.diag(fit.covariance_w2)),
        "prior_sd_w": fit.prior_sd_w,
        "between_sd_w": fit.between_sd_w,
        "noise_sd_w": fit.noise_sd_w,
        "readings": fit.readings,
    }
    return [
        {"level": name} | {column: float(values[index]) for column, values in columns.items()}
        for index, name in enumerate(fit.levels)
    ]


def _constants(module: ModuleType) -> dict[str, Any]:
    """The numbers that a module of the analysis assumes, by name; those that belong together as a list, with
    their name first where they have one."""
    return {
        name.lstrip("_").lower(): value
        for name, value in sorted(vars(module).items())
        if name.isupper() and (_is_number(value) or isinstance(value, pieces.SpanPart))
    }


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool | Enum)
