"""By which code and with which parameters a ledger was made, for its metadata."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from types import ModuleType
from typing import Any, Final

from roambench.contract.json_values import without_nan
from roambench.contract.sources import own_code
from roambench.energy import account, integrate, rest_checks, rests, touching, window_sums
from roambench.energy.account import Split
from roambench.energy.clocks import clock_fit, meter_clock
from roambench.energy.idle import baseline, heat, local_idle
from roambench.energy.readings import frozen, periods, samples, timeline
from roambench.runs.measured.accounts import RunEnergy

#: Whose constants are assumptions of a ledger.
_ASSUMING: Final = (
    account, baseline, clock_fit, frozen, heat, integrate, local_idle, meter_clock, periods, rest_checks,
    rests, samples, timeline, touching, window_sums,
)  # fmt: skip


def analysis_of(energy: RunEnergy | None) -> dict[str, Any]:
    """By which code and with which parameters the ledger was made: raw readings outlive analyses (R12).

    `assumptions` are the constants of the analysis by module, priors among them; every board has its meter,
    the bound of its clock, its baselines and how its phases were separated. Unknown is null.
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
                "split": _split(device.account.split),
            }
            for device in (energy.devices if energy else ())
        },
    }
    return {key: without_nan(value) for key, value in found.items()}


def _split(split: Split) -> dict[str, Any]:
    """Return how phases were separated; `scatter` is how much more their sums scatter than sampling
    explains."""
    return {
        "method": split.method.value,
        "rest_s": split.rest_s,
        "guard_s": split.guard_s,
        "idle_w": split.idle_w,
        "scatter": {phase.value: excess for phase, excess in split.excess.items()},
    }


def _constants(module: ModuleType) -> dict[str, Any]:
    """The numbers that a module of the analysis assumes, by name; those that belong together as a list."""
    return {
        name.lstrip("_").lower(): value
        for name, value in sorted(vars(module).items())
        if name.isupper() and _is_number(value)
    }


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool | Enum)
