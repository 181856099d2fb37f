"""Does `roambench calibrate` find the radio that a board really has? In virtual time.

    OMP_NUM_THREADS=1 python benchmarks/calibration.py [--seeds 20] [--full] [--boards 4] [--meter NAME]
    OMP_NUM_THREADS=1 python benchmarks/calibration.py --worlds [--seeds 20] [--full] [NAME ...]

Every seed draws a board (alpha_up, alpha_down, beta within +-30 %; idle and core power), a meter (window
phase, gain and offsets within the data sheet's limits, crystal) and its restless life: background jobs, a
slow warm-up, rates that waver. The fit sees meter lines and phase stamps only, through the same functions
as the command. Held: the truth lies in the 95 % interval of Student's t. Two meters: one off the shelf,
whose unknown gain (1.1 %) belongs into the interval, and a calibrated one, where the interval is the fit's
own (there sd z, the standard deviation of error over u, shows that intervals are not simply wide). "mean of"
is the mean of `--boards` boards against the mean of what they really have.

Goal (exit 1 if missed): of 20 seeds at least 17 hold each parameter and the worst half-width is 10 %; the
interval of a mean is narrower than the widest of its boards. Joint (all three held at once) is shown.

`--worlds` takes boards and meters from `fidelity.sweeps`, which shares no code with the emulator. The meter's
true gain is divided out, and u has no term for it. Beside it stands a fit that a reader could write: ordinary
least squares over each window's mean line less the mean idle line next to it. Goal: sd z of each parameter is
0.7 to 1.2 but for chance of 1 %, and the median half-width at most 1.25 of the ordinary fit's. The ordinary
fit knows nothing of steps: where a meter's are coarser than the noise ("coarse") neither limit applies but
that 1.2 and no more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy
from fidelity.sweeps import COARSE, SWEEPS, Sweep, Transfers, sweep
from setting.virtual_sweep import virtual_sweep

from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.links.fit import LinkFit, fit_link, points_of, pooled
from roambench.energy.links.models import ANY, PARAMETERS, KnownLink, LinkModel, Provenance
from roambench.energy.links.sweep import SweepSettings, SweepWindow, plan_sweep, sweep_s
from roambench.energy.links.windows import WindowPower, window_powers
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import UNCALIBRATED_SP2
from roambench.report.summaries.calibration import Calibration, DeviceCalibration

SHORT = SweepSettings(sizes_bytes=(1_000_000, 4_000_000), rates_mbit_s=(2.0, 5.0, 15.0, 40.0), idle_s=4.0)
FULL = SweepSettings()
#: Name and share of the data sheet's tolerances.
METERS = (("off the shelf", 1.0), ("calibrated", 0.0))
GOAL_HELD = 17 / 20
GOAL_HALF_WIDTH = 0.10
#: sd of z, and what it may miss by chance; half-width over that of ordinary least squares.
GOAL_Z = (0.7, 1.2)
CHANCE = 0.01
GOAL_OVER_OLS = 1.25

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """Shape (fits, 3): error over truth, error over u, half-width over the fitted value, held."""

    name: str
    error: Numbers
    z: Numbers
    half_width: Numbers
    held: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, found: Sequence[KnownLink], truths: Sequence[LinkPower]) -> Verdict:
        true = np.array([KnownLink(truth).values for truth in truths])
        off = np.array([known.values for known in found]) - true
        half = np.array([known.half_widths() for known in found])
        values = np.array([known.values for known in found])
        u = np.array([known.u for known in found])
        return cls(name, off / true, off / u, half / values, np.abs(off) <= half)

    def reached(self, half_width: float) -> bool:
        return bool(self.held.mean(axis=0).min() >= GOAL_HELD and self.half_width.max() <= half_width)

    def lines(self) -> list[str]:
        count = len(self.held)
        rows = [
            f"{self.name:15s} {PARAMETERS[k]:10s} {self.held[:, k].sum():3d}/{count:<3d}"
            f"{100 * np.median(self.half_width[:, k]):9.1f}{100 * self.half_width[:, k].max():8.1f}"
            f"{100 * self.error[:, k].mean():+10.2f}{100 * self.error[:, k].std(ddof=1):8.2f}"
            f"{self.z[:, k].std(ddof=1):9.2f}"
            for k in range(len(PARAMETERS))
        ]
        return [*rows, f"{self.name:15s} {'all three':10s} {self.held.all(axis=1).sum():3d}/{count}"]


HEADING = f"{'meter':15s} {'parameter':10s} held   half-width %: median   worst  mean err %  sd err %  sd z"


def fits(settings: SweepSettings, seeds: int, tolerance: float) -> tuple[list[LinkFit], list[LinkPower]]:
    u_gain = UNCALIBRATED_SP2.u_gain * tolerance
    found, truths = [], []
    for seed in range(seeds):
        made = virtual_sweep(settings, seed, tolerance=tolerance)
        powers = window_powers(made.samples, made.spans, made.window_of_order)
        found.append(fit_of(powers, u_gain))
        truths.append(made.truth)
    return found, truths


def fit_of(powers: Sequence[WindowPower], u_gain: float) -> LinkFit:
    """As the command does."""
    first = powers[0]
    return fit_link(
        "virtual", points_of(powers), u_gain=u_gain, rounding_w=first.rounding_w, u_idle_w=first.u_idle_w
    )


def means(name: str, found: Sequence[LinkFit], truths: Sequence[LinkPower], boards: int) -> bool:
    """Print the means of groups of boards; whether none is less known than the worst of its boards."""
    of_boards, true, narrower = [], [], True
    for at in range(0, len(found) - boards + 1, boards):
        group = found[at : at + boards]
        model = LinkModel("virtual", {ANY: pooled("virtual", group)[0]}, Provenance("virtual"))
        mean = Calibration(model, tuple(DeviceCalibration("", fit, 0, 0, None) for fit in group)).mean
        of_boards.append(mean)
        middle = np.mean([KnownLink(truth).values for truth in truths[at : at + boards]], axis=0)
        true.append(LinkPower("", *middle.tolist()))
        widest = np.max([fit.known.half_widths() for fit in group], axis=0)
        narrower &= bool((mean.half_widths() <= widest).all())
    if len(of_boards) > 1:
        print("\n".join(Verdict.of(f"mean of {boards}", of_boards, true).lines()))
    return narrower


def read_as_command(made: Sweep, windows: Sequence[SweepWindow]) -> list[WindowPower]:
    """The windows of an independent sweep through the command's functions."""
    order = [f"order-{k}" if k >= 0 else "" for k in made.windows]
    spans = [
        PhaseSpan(
            "pi", "boot", Phase(span.phase), 0, span.start_ns, span.end_ns, name, "",
            windows[k].point.size_bytes if k >= 0 else 0,
        )
        for span, k, name in zip(made.spans, made.windows, order, strict=True)
    ]  # fmt: skip
    return window_powers(
        PowerSamples.of(made.readings.arrival_ns, made.readings.watts / (1.0 + made.gain)),
        spans,
        {f"order-{window.index}": window for window in windows},
        nominal_s=made.period_s,
        meter_window=MeterWindow(made.window_s, made.latch_s),
        step_w=made.step_w,
    )


def ordinary(made: Sweep, windows: Sequence[SweepWindow]) -> Numbers:
    """Half-widths (95 %) of ordinary least squares over mean lines, shape (3,), W."""
    at_ns, watts = made.readings.arrival_ns, made.readings.watts / (1.0 + made.gain)
    ends: dict[int, list[int]] = {}
    for span, k in zip(made.spans, made.windows, strict=True):
        if k >= 0:
            ends.setdefault(k, [span.start_ns, span.end_ns])[1] = span.end_ns
    after_ns = round((made.window_s + made.latch_s + 0.25) * 1e9)
    borders = [(-1, made.spans[0].start_ns, made.spans[0].start_ns), *((k, *ends[k]) for k in sorted(ends))]
    borders.append((-1, made.spans[-1].end_ns, made.spans[-1].end_ns))
    rows, net_w = [], []
    for (_, _, before_ns), (k, start_ns, end_ns), (_, next_ns, _) in zip(
        borders, borders[1:], borders[2:], strict=False
    ):
        active = (at_ns > start_ns + after_ns) & (at_ns <= end_ns)
        idle = (at_ns > before_ns + after_ns) & (at_ns <= start_ns)
        idle |= (at_ns > end_ns + after_ns) & (at_ns <= next_ns)
        if active.sum() < 3 or idle.sum() < 3:
            continue
        rate = windows[k].repeats * windows[k].point.size_mbit / ((end_ns - start_ns) * 1e-9)
        up = windows[k].point.direction == "up"
        rows.append((rate if up else 0.0, 0.0 if up else rate, 1.0))
        net_w.append(float(watts[active].mean() - watts[idle].mean()))
    design, seen = np.array(rows), np.array(net_w)
    residual = seen - design @ np.linalg.lstsq(design, seen, rcond=None)[0]
    freedom = len(seen) - 3
    covariance = residual @ residual / freedom * np.linalg.inv(design.T @ design)
    return float(scipy.special.stdtrit(freedom, 0.975)) * np.sqrt(np.diag(covariance))


def in_worlds(names: Sequence[str], settings: SweepSettings, seeds: int) -> bool:
    """Print the rows of the independent sweeps; whether each reached its goal."""
    print(f"{HEADING}  half-width / ordinary")
    reached = True
    for name in names:
        found, truths, plain = [], [], []
        for seed in range(seeds):
            windows = plan_sweep(settings, seed, 0)
            moved = [
                Transfers(w.point.direction, w.point.size_mbit, w.point.mbit_s, w.repeats) for w in windows
            ]
            made = sweep(name, seed, moved, settings.idle_s)
            found.append(fit_of(read_as_command(made, windows), 0.0).known)
            truths.append(LinkPower("", *(1e3 * value for value in made.truth)))
            plain.append(1e3 * ordinary(made, windows))
        verdict = Verdict.of(name, found, truths)
        over = np.median(verdict.half_width * [known.values for known in found] / np.array(plain), axis=0)
        for k, line in enumerate(verdict.lines()[:3]):
            met = in_goal(float(verdict.z[:, k].std(ddof=1)), seeds, name == COARSE)
            met &= name == COARSE or float(over[k]) <= GOAL_OVER_OLS
            print(f"{line}{over[k]:12.2f}{'' if met else '  MISSED'}", flush=True)
            reached &= met
    return reached


def in_goal(sd_z: float, seeds: int, may_be_small: bool) -> bool:
    """Whether the true sd of z may be in GOAL_Z."""
    low, high = ((seeds - 1) * (sd_z / limit) ** 2 for limit in GOAL_Z)
    not_wide = may_be_small or float(scipy.special.chdtr(seeds - 1, low)) > CHANCE
    return not_wide and float(scipy.special.chdtrc(seeds - 1, high)) > CHANCE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--full", action="store_true", help="the command's default sweep, not the short one")
    parser.add_argument("--boards", type=int, default=4, help="boards of each pooled fit")
    parser.add_argument("--meter", choices=[name for name, _ in METERS], help="only this one")
    parser.add_argument("--worlds", action="store_true", help="independent boards and meters")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these of the worlds only")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SWEEPS]:
        parser.error(f"no such world: {', '.join(unknown)}; expected some of {', '.join(SWEEPS)}")
    settings = FULL if options.full else SHORT
    lasts_s = sweep_s(plan_sweep(settings, 0, 0), settings.idle_s)
    print(
        f"{options.seeds} seeds; {len(settings.points())} points x {settings.windows} windows, "
        f"{lasts_s / 60:.0f} minutes of device time each"
    )
    if options.worlds:
        reached = in_worlds(options.names or list(SWEEPS), settings, options.seeds)
        print("goal reached" if reached else "GOAL MISSED")
        return 0 if reached else 1
    print(HEADING)
    reached = True
    for name, tolerance in METERS:
        if options.meter not in (None, name):
            continue
        started_s = time.perf_counter()
        found, truths = fits(settings, options.seeds, tolerance)
        verdict = Verdict.of(name, [fit.known for fit in found], truths)
        reached &= verdict.reached(GOAL_HALF_WIDTH)
        print("\n".join(verdict.lines()))
        reached &= means(name, found, truths, options.boards)
        straight = sum(fit.shares_beta for fit in found)
        print(
            f"{name}: mean chi2/dof {np.mean([fit.chi2_per_dof for fit in found]):.2f}, one beta for both "
            f"directions in {straight} of {len(found)}; {time.perf_counter() - started_s:.1f} s\n"
        )
    print("goal reached" if reached else "GOAL MISSED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
