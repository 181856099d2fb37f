"""A calibration's run folder becomes a link model: one fit per device, pooled, with its doubts said aloud."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LinkPower
from roambench.emulation.spec import EmulatorSpec
from roambench.energy.links.fit import LinkFit, fit_link, matrix_of, points_of, pooled
from roambench.energy.links.models import ANY, PARAMETERS, UNITS, KnownLink, LinkModel, Provenance
from roambench.energy.links.sweep import SHORTEST_S, SweepWindow
from roambench.energy.links.windows import window_powers
from roambench.energy.readings.samples import PowerSamples
from roambench.report.summaries.flags import few
from roambench.runs.folder import RunFolder
from roambench.runs.measured.meters import device_meter, samples_of
from roambench.runs.measured.truth import perfect_meters
from roambench.runs.records import Records

#: A parameter known worse than this is worth a longer sweep.
WIDE: Final = 0.10
#: Residuals this much larger than their uncertainties: the board is no straight line.
BENT: Final = 3.0


@dataclass(frozen=True)
class DeviceCalibration:
    """One device's fit; `truth` is the radio its emulator drew, None on a real board (or with two betas).

    Of `planned` windows `windows` are in the fit; `short` more were measured, for less than ten seconds.
    """

    device: str
    fit: LinkFit
    windows: int
    planned: int
    truth: LinkPower | None
    short: int = 0
    perfect_meter: bool = False

    @property
    def inside(self) -> int:
        """The number of the three intervals that hold the truth: the fit's own where the emulated meter has
        no gain, else with what is unknown of that."""
        assert self.truth is not None
        known = replace(self.fit.known, u_gain=0.0) if self.perfect_meter else self.fit.known
        off = np.abs(known.values - KnownLink(self.truth).values)
        return int(np.count_nonzero(off <= known.half_widths()))

    def flags(self) -> list[str]:
        """Warnings that a reader must know before believing the numbers."""
        fit, flags = self.fit, []
        missing = self.planned - self.windows - self.short
        if missing:
            flags.append(f"{missing} of {self.planned} windows were not measured")
        if self.short:
            flags.append(_too_short(self.short, self.planned))
        if not fit.shares_beta:
            flags.append(
                f"sending and receiving do not share one beta: they differ by {fit.beta_difference_mw:.0f} ± "
                f"{fit.half_width_beta_difference_mw:.0f} mW, and Eq. 1 has no place for that"
            )
        if fit.chi2_per_dof > BENT:
            flags.append(f"the points scatter more than measured: chi2/dof {fit.chi2_per_dof:.1f}")
        shares = fit.known.half_widths() / np.abs(fit.known.values)
        flags += [
            f"{name} is only known within {100 * share:.0f} %: sweep longer or wider"
            for name, share in zip(PARAMETERS, shares.tolist(), strict=True)
            if share > WIDE
        ]
        return flags


@dataclass(frozen=True)
class Calibration:
    """The link model of a bench and the fits behind it."""

    model: LinkModel
    devices: tuple[DeviceCalibration, ...]
    doubts: tuple[str, ...] = ()  # checks of the bench that were waived

    @property
    def mean(self) -> KnownLink:
        """The mean of these devices and no others, known better than each of them: their fits and their
        meters' gains are independent, but for a common reference. The model's parameters are those to be
        expected of other devices, and wider."""
        fits = [device.fit.known for device in self.devices]
        if len(fits) == 1:
            return fits[0]
        covariances = np.array([fit.total_covariance for fit in fits])
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        dof = np.square(variances.sum(axis=0)) / sum(
            v**2 / fit.dof for v, fit in zip(variances, fits, strict=True)
        )
        any_device = self.model.links[ANY]
        return replace(
            any_device,
            covariance=matrix_of(covariances.sum(axis=0) / len(fits) ** 2),
            dof=float(dof.min()),
        )

    def flags(self) -> list[str]:
        """Warnings that a reader must know before believing the numbers, of the bench and of devices; what
        several devices have in common once."""
        devices: dict[str, list[str]] = {}
        for device in self.devices:
            for flag in device.flags():
                devices.setdefault(flag, []).append(device.device)
        flags = [*self.doubts, *(f"{few(names)}: {flag}" for flag, names in devices.items())]
        if len(self.devices) == 1:
            flags.append(
                f"{self.devices[0].device}: one board does not show how much others differ: for them "
                '[links."any"] is too narrow; calibrate two boards or more'
            )
        return flags

    def values(self) -> dict[str, Any]:
        """For machines: plain JSON types."""
        return {
            "name": self.model.name,
            "date": self.model.about.date,
            "meter": self.model.about.meter,
            "run": self.model.about.run,
            "pooled": _parameters(self.mean)
            | {"between_sd": [None if math.isnan(sd) else sd for sd in self.model.between_sd]},
            "doubts": list(self.doubts),
            "devices": [_device_values(device) for device in self.devices],
        }


def calibrate(
    name: str,
    folder: RunFolder,
    windows: Mapping[str, Mapping[str, SweepWindow]],
    *,
    store: Records | None = None,
) -> Calibration:
    """Fit every device's windows (order id to window, by device name) and pool them into model `name`.

    Readings are corrected for each meter's known gain; what is unknown of it goes into the intervals.
    ConfigError when a device's sweep cannot be fitted.
    """
    store = folder.records if store is None else store
    truths, section = _truths(folder), folder.experiment.energy
    perfect = perfect_meters(folder.path)
    devices, meters, rates, references = [], [], [], []
    for device, window_of_order in windows.items():
        meter = device_meter(device, store.events(device), section)
        raw = samples_of(store.readings(device), meter, None, None).samples
        samples = PowerSamples(raw.ns, meter.calibration.correct(raw.watts))
        powers = window_powers(
            samples,
            store.spans(device),
            window_of_order,
            nominal_s=meter.nominal_s,
            meter_window=meter.window,
            step_w=meter.traits.step_w,
        )
        planned, short = len(window_of_order), sum(not power.counts for power in powers)
        try:
            fit = fit_link(
                name,
                points_of(powers),
                u_gain=meter.calibration.u_gain,
                rounding_w=max((power.rounding_w for power in powers), default=0.0),
                u_idle_w=max((power.u_idle_w for power in powers), default=0.0),
            )
        except ConfigError as error:
            problems = [*error.problems, *([_too_short(short, planned)] if short else [])]
            raise ConfigError([f"{device}: {problem}" for problem in problems]) from None
        fit = replace(fit, known=replace(fit.known, meter=meter.identity))
        truth = truths.get(device)
        devices.append(
            DeviceCalibration(device, fit, len(powers) - short, planned, truth, short, device in perfect)
        )
        meters.append(meter.traits.name)
        references.append(meter.calibration.u_reference)
        rates += [point.mbit_s for point in fit.points]
    mean, between_sd = pooled(name, [device.fit for device in devices])
    if len(devices) > 1:
        # Meters calibrated against one reference are wrong together: no scatter between devices shows it.
        mean = replace(mean, u_gain=max(references))
    model = LinkModel(
        name,
        {ANY: mean},
        Provenance(
            source=f"roambench calibrate on {', '.join(device.device for device in devices)}",
            date=datetime.now(UTC).date().isoformat(),
            meter=", ".join(sorted(set(meters))),
            method=_method(devices),
            run=folder.path.name,
            rates_mbit_s=(min(rates), max(rates)),
        ),
        {device.device: device.fit.known for device in devices},
        between_sd,
    )
    return Calibration(model, tuple(devices), folder.info.doubts)


def _too_short(short: int, planned: int) -> str:
    return (
        f"{short} of {planned} windows lasted less than {SHORTEST_S:g} s and are not in the fit (rule R7): "
        f"sweep with --min-s {SHORTEST_S:g} and more --repeats"
    )


def _method(devices: Sequence[DeviceCalibration]) -> str:
    points = devices[0].fit.points
    return (
        f"{count(len(points), 'point')} of up to {max(point.windows for point in points)} windows, means, "
        "least squares on net power, one beta for both directions; intervals: Student's t, 95 %"
    )


def _truths(folder: RunFolder) -> dict[str, LinkPower]:
    """The radios that the emulator drew, where there is one and they obey Eq. 1."""
    path = folder.path / "emulator.json"
    try:
        spec = EmulatorSpec.from_json(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError, ConfigError):
        return {}
    found = {}
    for device in spec.devices:
        try:
            found[device.name] = device.power.radio
        except ValueError:
            continue
    return found


def _parameters(known: KnownLink) -> dict[str, Any]:
    rows = zip(PARAMETERS, UNITS, known.values.tolist(), known.half_widths().tolist(), strict=True)
    return {
        "parameters": {
            name: {"value": value, "half_width_95": half, "unit": unit} for name, unit, value, half in rows
        },
        "covariance": [list(row) for row in known.covariance],
        "dof": None if math.isinf(known.dof) else known.dof,
        "u_gain": known.u_gain,
    }


def _device_values(device: DeviceCalibration) -> dict[str, Any]:
    fit = device.fit
    truth = None if device.truth is None else KnownLink(device.truth).values.tolist()
    return {
        "device": device.device,
        **_parameters(fit.known),
        "truth": truth,
        "chi2_per_dof": fit.chi2_per_dof,
        "r_squared": fit.r_squared,
        "beta_difference_mw": fit.beta_difference_mw,
        "windows": device.windows,
        "short_windows": device.short,
        "planned": device.planned,
        "flags": device.flags(),
        "points": [
            {
                "direction": point.direction,
                "size_mbit": point.size_mbit,
                "mbit_s": point.mbit_s,
                "net_w": point.net_w,
                "u_net_w": point.u_net_w,
                "residual_w": residual,
                "windows": point.windows,
                "transfers": point.transfers,
                "active_s": point.active_s,
            }
            for point, residual in zip(fit.points, fit.residual_w.tolist(), strict=True)
        ],
    }
