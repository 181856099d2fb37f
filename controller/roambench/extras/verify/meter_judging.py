"""The verdicts of a kit on its meter, by a square wave of load with known edges: how often it prints, what a
value is a mean of, how old it is, and whether its conversions keep time; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from roambench.agent.readings.meter_watch import KEPT_EVERY_NS
from roambench.contract.counts import count
from roambench.extras.verify.finding import Finding, Held
from roambench.extras.verify.seen import BROAD_S, LATE_S, Floats, Level, SeenKit

#: Partial readings that tell how conversions keep time; the periods that are tried, by the nominal one.
_MIN_PARTIAL: Final = 20
_PERIOD_SHARE: Final = (0.94, 1.1)
_CYCLES: Final = 0.05
#: Windows' ends must be periodic as closely (68 % of them, s).
_CLOCK_S: Final = 0.01
#: The two levels must be this many times their noise apart, or readings between them tell nothing.
_CLEAR: Final = 20.0
#: This many watts must be multiples of the register's step, and fewer of two or three steps.
_MULTIPLES: Final = 0.98
_GAIN: Final = 0.02
_FED_V: Final = 3.0


def meter_findings(seen: SeenKit) -> Iterator[Finding]:
    """In the order of docs/prove.md."""
    yield from _lines(seen)
    yield from _values(seen)
    yield from _windows(seen)


def _lines(seen: SeenKit) -> Iterator[Finding]:
    name = f"a line every {seen.nominal_s:g} s"
    gaps_s = np.diff(seen.at_s)
    if len(gaps_s) < 20:
        yield Finding(
            name, Held.UNKNOWN, f"{count(len(seen.at_s), 'line')} only", "is the meter's driver right?"
        )
        return
    period_s = float(np.median(gaps_s))
    if seen.nominal_s < KEPT_EVERY_NS * 1e-9:
        yield Finding(name, Held.UNKNOWN, f"an agent keeps a line every {KEPT_EVERY_NS * 1e-9:g} s only")
        return
    jitter_s = float(np.quantile(np.abs(gaps_s - period_s), 0.95))
    missing = int(np.sum(np.maximum(np.round(gaps_s / period_s) - 1.0, 0.0)))
    found = f"every {period_s:.4f} s, 95 % within {jitter_s * 1e3:.0f} ms, {missing} of {len(gaps_s)} missing"
    right = abs(period_s / seen.nominal_s - 1.0) < 0.02
    steady = jitter_s < max(0.02, 0.1 * seen.nominal_s) and missing <= len(gaps_s) / 500
    changes = (
        ""
        if right
        else "another firmware or interval than the driver's: readings are spread over wrong seconds"
    )
    if right and not steady:
        changes = "lines come late or are lost: look at the host's load and the cable, or rest for longer"
    yield Finding(name, Held.HOLDS if right and steady else Held.FAILS, found, changes)


def _values(seen: SeenKit) -> Iterator[Finding]:
    step_w = seen.traits.step_w
    name = f"watts in steps of {step_w * 1e3:.2f} mW"
    reach_w = float(np.ptp(seen.watts)) if len(seen.watts) else 0.0
    if seen.traits.latch_s <= 0.0 or len(seen.watts) < 100 or reach_w < 50 * step_w:
        yield Finding(name, Held.UNKNOWN, f"{len(seen.watts)} readings within {reach_w:.2f} W")
    else:
        share = _multiples(seen.watts, step_w)
        coarser = max(_multiples(seen.watts, times * step_w) for times in (2, 3))
        fine = share > _MULTIPLES > coarser
        held, changes = Held.HOLDS, ""
        if not fine:
            held, changes = (
                Held.FAILS,
                "another power register or firmware: the meter's gain is not this driver's",
            )
        apart_w = float(np.median(np.diff(np.unique(np.round(seen.watts, 3)))))
        found = f"{share:.1%} of {len(seen.watts)} are, neighbouring values are {apart_w * 1e3:.1f} mW apart"
        yield Finding(name, held, found, changes)
    if seen.traits.latch_s > 0.0:
        yield _dead_bands(seen)
    name = "watts are volts times amps"
    product = seen.volts * seen.amps
    known = np.isfinite(product) & (product > 0.5)
    if np.sum(known) < 30:
        yield Finding(name, Held.UNKNOWN, "the meter prints no volts or amps")
        return
    ratio = float(np.median(seen.watts[known] / product[known]))
    fine = abs(ratio - 1.0) < _GAIN
    changes = "" if fine else "energies are wrong by this factor: calibrate (docs/calibrating.md)"
    yield Finding(name, Held.HOLDS if fine else Held.FAILS, f"they are {ratio:.4f} of that", changes)


def _dead_bands(seen: SeenKit) -> Finding:
    name = "nothing falls into the meter's dead bands"
    fed = np.isfinite(seen.volts) & (seen.volts > _FED_V)
    if not np.any(fed):
        return Finding(name, Held.UNKNOWN, "no reading has volts")
    least_w, least_a = (float(np.nanmin(part[fed])) for part in (seen.watts, seen.amps))
    fine = least_w > 0.0 and not least_a <= 0.0
    found = f"at least {least_w:.3f} W and {least_a:.3f} A while it is fed"
    changes = "" if fine else "so little reads as 0: what the board draws then is missing in its energies"
    return Finding(name, Held.HOLDS if fine else Held.FAILS, found, changes)


def _multiples(watts: Floats, step_w: float) -> float:
    """The share of values that are multiples of a step, printed with as many decimals as they have."""
    decimals = 2 if np.allclose(watts, np.round(watts, 2), atol=1e-6) else 3
    off_w = np.abs(watts - step_w * np.round(watts / step_w))
    return float(np.mean(off_w < 0.55 * 10.0**-decimals))


def _windows(seen: SeenKit) -> Iterator[Finding]:
    names = (
        f"a value is the mean of {seen.window_s * 1e3:.0f} ms",
        f"a value is at most {seen.traits.latch_s * 1e3:.0f} ms old",
        "conversions keep time",
    )
    levels = seen.levels()
    if levels is None or seen.window_s <= 0.0:
        for name in names:
            yield Finding(name, Held.UNKNOWN, "no square wave of load was seen")
        return
    high, low = (float(np.median(level.watts)) for level in levels)
    noise_w = max(*(level.noise_w for level in levels), seen.traits.step_w)
    if high - low < _CLEAR * noise_w:
        found = f"{low:.2f} to {high:.2f} W with {noise_w:.3f} W of noise"
        for name in names:
            yield Finding(
                name, Held.UNKNOWN, found, "load more cores, or stop what else computes on the board"
            )
        return
    edges_s, share, at_s = _partial(seen, *levels)
    yield _mean_of(names[0], seen, len(at_s))
    ages_s = at_s - edges_s - share * seen.window_s
    if len(ages_s) < _MIN_PARTIAL:
        for name in names[1:]:
            yield Finding(
                name, Held.UNKNOWN, f"{len(ages_s)} readings across an edge, expected {_MIN_PARTIAL}"
            )
        return
    oldest_s = float(np.quantile(ages_s, 0.95))
    youngest_s = float(np.quantile(ages_s, 0.05))
    fine = youngest_s >= -LATE_S and oldest_s <= seen.traits.latch_s * _PERIOD_SHARE[1] + LATE_S
    changes = (
        "" if fine else "another latch: transfers' energies are assigned to wrong seconds; send us this kit"
    )
    found = f"{youngest_s * 1e3:.0f} to {oldest_s * 1e3:.0f} ms (90 % of {len(ages_s)})"
    yield Finding(names[1], Held.HOLDS if fine else Held.FAILS, found, changes)
    yield _clock(names[2], seen.window_s, edges_s, share)


def _partial(seen: SeenKit, high: Level, low: Level) -> tuple[Floats, Floats, Floats]:
    """Readings that saw one edge: that edge, the share of the window after it, and when the line came."""
    first = np.searchsorted(seen.edges_s, seen.at_s - BROAD_S)
    last = np.searchsorted(seen.edges_s, seen.at_s, side="right") - 1
    one = (first == last) & (last >= 1) & (last < len(seen.edges_s))
    edge = last[one]
    high_w, low_w = high.at(seen.at_s[one]), low.at(seen.at_s[one])
    after, before = np.where(edge % 2 == 0, high_w, low_w), np.where(edge % 2 == 0, low_w, high_w)
    share = (seen.watts[one] - before) / (after - before)
    partly = (share > 0.1) & (share < 0.9)
    return seen.edges_s[edge][partly], share[partly], seen.at_s[one][partly]


def _mean_of(name: str, seen: SeenKit, partial: int) -> Finding:
    """By how many of the readings near edges are between the levels: 0.8 of the window's share of time."""
    edges = len(seen.edges_s) - 1
    lines = edges / seen.nominal_s  # a second after each edge holds this many lines
    window_s = partial / (0.8 * lines)
    u_s = np.sqrt(max(partial, 1)) / (0.8 * lines)
    fine = abs(window_s - seen.window_s) < 3.0 * u_s + 0.1 * seen.window_s
    found = f"{window_s * 1e3:.0f} ± {2 * u_s * 1e3:.0f} ms by {partial} readings across {edges} edges"
    changes = (
        ""
        if fine
        else "another averaging than this firmware's: short transfers are split wrongly; send us this kit"
    )
    return Finding(name, Held.HOLDS if fine else Held.FAILS, found, changes)


def _clock(name: str, nominal_s: float, edges_s: Floats, share: Floats) -> Finding:
    """The period W for which window ends, edge + share x W, are best in step; by its periodogram."""
    length_s = float(np.ptp(edges_s))
    periods_s = 1.0 / np.arange(
        1.0 / (nominal_s * _PERIOD_SHARE[1]),
        1.0 / (nominal_s * _PERIOD_SHARE[0]),
        _CYCLES / max(length_s, 1.0),
    )
    best_s, best, turn = nominal_s, 0.0, 0.0 + 0.0j
    for period_s in periods_s:
        mean = np.mean(np.exp(2j * np.pi * (edges_s / period_s + share)))
        if abs(mean) > best:
            best_s, best, turn = float(period_s), float(abs(mean)), complex(mean)
    # By chance the highest of this many tops is about sqrt(ln(tops) / n).
    chance = float(np.sqrt(np.log(max(len(periods_s) * _CYCLES, 2.0)) / len(edges_s)))
    off = np.angle(np.exp(2j * np.pi * (edges_s / best_s + share)) / (turn / best if best else 1.0)) / (
        2 * np.pi
    )
    residual_s = float(np.quantile(np.abs(off), 0.68)) * best_s  # a timer that woke up is no jitter
    if best > 1.6 * chance and residual_s < _CLOCK_S:
        found = f"every {best_s * 1e3:.2f} ms, within {residual_s * 1e3:.0f} ms over {length_s / 60:.0f} min"
        return Finding(name, Held.HOLDS, found)
    found = f"no period stands out ({best:.2f}, by chance {chance:.2f}; {residual_s * 1e3:.0f} ms)"
    return Finding(
        name,
        Held.FAILS,
        found,
        "the meter's values have no steady age: nothing changes while boards rest (rounds.rest_s)",
    )
