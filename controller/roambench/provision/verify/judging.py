"""Which assumptions hold on the board of a kit, and what hangs on those that do not; pure.

docs/first-contact.md lists them. A square wave of load with known edges tells of the meter: how often it
prints, what a value is a mean of, how old it is, and whether its conversions keep time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.agent.readings.meter_watch import KEPT_EVERY_NS
from roambench.contract.errors import ConfigError
from roambench.meters.traits import TRAITS, MeterTraits
from roambench.provision.verify.board_judging import board_findings
from roambench.provision.verify.finding import Finding, Held
from roambench.provision.verify.kit import Kit

Floats = npt.NDArray[np.float64]

#: A line may come so late, and be so old beyond its window, before that counts (s).
_LATE_S: Final = 0.05
#: A reading is of one level alone if no edge is so many windows before it.
_WINDOWS: Final = 2.3
#: So long after an edge of the square wave nothing of before it is in any reading, whatever the meter is (s).
_BROAD_S: Final = 2.0
#: Partial readings that tell a conversion clock; the periods that are tried, by the nominal one.
_MIN_PARTIAL: Final = 20
_PERIOD_SHARE: Final = (0.94, 1.1)
_CYCLES: Final = 0.05
#: Windows' ends must keep to the clock as closely (68 % of them, s): decisions/0009.
_CLOCK_S: Final = 0.01
#: Levels beside an edge are medians of so many readings: a board that throttles has other ones by and by.
_NEAR: Final = 5
#: So many times their noise the two levels must be apart, or readings between them tell nothing.
_CLEAR: Final = 20.0
#: So many watts must be multiples of the register's step, and fewer of two or three steps.
_MULTIPLES: Final = 0.98
#: Of the wave's time: what its first and last part draw under load tells of throttling.
_PART: Final = 0.2
#: Idle may wander so far (standard deviation of means of 10 s, W), a transfer's power and its tail by this
#: share of its net power.
_IDLE_W: Final = 0.05
_BLOCK_S: Final = 10.0
_SHARE: Final = 0.05
_TAIL_S: Final = (0.0, 4.0)
#: A board's wall clock may run so fast or slow.
_DRIFT_PPM: Final = 50.0
_GAIN: Final = 0.02
_MIN_WAVE_S: Final = 120.0
_FED_V: Final = 3.0


def judged(kit: Kit) -> list[Finding]:
    """All assumptions, in the order of docs/first-contact.md. ConfigError for traits that nobody knows."""
    if kit.traits not in TRAITS.names():
        raise ConfigError([f"kit: {kit.traits!r}: expected meter traits ({', '.join(TRAITS.names())})"])
    seen = _Seen(kit, TRAITS.load(kit.traits))
    return [
        *_lines(seen),
        *_values(seen),
        *_windows(seen),
        *_load(seen),
        *_idle(seen),
        *_transfers(seen),
        *board_findings(kit),
        *_wall_clock(kit),
        *_looked(kit),
    ]


class _Seen:
    """A kit as arrays, and what the square wave's levels were."""

    def __init__(self, kit: Kit, traits: MeterTraits) -> None:
        self.kit, self.traits = kit, traits
        columns = (kit.series.at_s, kit.series.watts, kit.series.volts, kit.series.amps)
        at, watts, volts, amps = (
            np.array([np.nan if value is None else value for value in column], dtype=np.float64)
            for column in columns
        )
        known = np.isfinite(at) & np.isfinite(watts)
        order = np.argsort(at[known], kind="stable")
        self.at_s, self.watts, self.volts, self.amps = (
            part[known][order] for part in (at, watts, volts, amps)
        )
        self.nominal_s = kit.nominal_s or traits.nominal_s
        self.window_s = traits.window_s
        self.reach_s = _WINDOWS * self.window_s + _LATE_S
        self.edges_s = np.sort(np.array(kit.edges_s, dtype=np.float64))

    def within(self, from_s: float, until_s: float) -> npt.NDArray[np.bool_]:
        """Readings of nothing but this time."""
        return np.asarray((self.at_s - self.reach_s >= from_s) & (self.at_s <= until_s))

    def levels(self) -> tuple[_Level, _Level] | None:
        """Power of the pure readings under load and at rest of the square wave."""
        if len(self.edges_s) < 4:
            return None
        turns = np.searchsorted(self.edges_s, self.at_s, side="right") - 1
        inside = (turns >= 0) & (turns < len(self.edges_s) - 1)
        since_s = self.at_s - self.edges_s[np.clip(turns, 0, None)]
        pure = inside & (since_s >= _BROAD_S)
        high, low = (
            _Level(self.at_s[chosen], self.watts[chosen])
            for chosen in (pure & (turns % 2 == 0), pure & (turns % 2 == 1))
        )
        return (high, low) if len(high.watts) >= 5 and len(low.watts) >= 5 else None


class _Level:
    """One of the square wave's two levels, which may change by and by."""

    def __init__(self, at_s: Floats, watts: Floats) -> None:
        self.at_s, self.watts = at_s, watts
        first = np.clip(np.arange(len(watts)) - _NEAR // 2, 0, max(0, len(watts) - _NEAR))
        self.level_w = np.array([np.median(watts[one : one + _NEAR]) for one in first])

    def at(self, when_s: Floats) -> Floats:
        """The level then."""
        return np.asarray(np.interp(when_s, self.at_s, self.level_w))

    @property
    def noise_w(self) -> float:
        """How much readings lie off it: what 68 % do, for a step of the level is no noise."""
        return float(np.quantile(np.abs(self.watts - self.level_w), 0.68))


def _lines(seen: _Seen) -> Iterator[Finding]:
    name = f"a line every {seen.nominal_s:g} s"
    gaps_s = np.diff(seen.at_s)
    if len(gaps_s) < 20:
        yield Finding(name, Held.UNKNOWN, f"{len(seen.at_s)} lines only", "is the meter's driver right?")
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
        changes = "lines come late or are lost: look at the host's load and the cable; lateness widens u"
    yield Finding(name, Held.HOLDS if right and steady else Held.FAILS, found, changes)


def _values(seen: _Seen) -> Iterator[Finding]:
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


def _dead_bands(seen: _Seen) -> Finding:
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


def _windows(seen: _Seen) -> Iterator[Finding]:
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
    fine = youngest_s >= -_LATE_S and oldest_s <= seen.traits.latch_s * _PERIOD_SHARE[1] + _LATE_S
    changes = (
        "" if fine else "another latch: transfers' energies are assigned to wrong seconds; send us this kit"
    )
    found = f"{youngest_s * 1e3:.0f} to {oldest_s * 1e3:.0f} ms (90 % of {len(ages_s)})"
    yield Finding(names[1], Held.HOLDS if fine else Held.FAILS, found, changes)
    yield _clock(names[2], seen.window_s, edges_s, share)


def _partial(seen: _Seen, high: _Level, low: _Level) -> tuple[Floats, Floats, Floats]:
    """Readings that saw one edge: that edge, the share of the window after it, and when the line came."""
    first = np.searchsorted(seen.edges_s, seen.at_s - _BROAD_S)
    last = np.searchsorted(seen.edges_s, seen.at_s, side="right") - 1
    one = (first == last) & (last >= 1) & (last < len(seen.edges_s))
    edge = last[one]
    high_w, low_w = high.at(seen.at_s[one]), low.at(seen.at_s[one])
    after, before = np.where(edge % 2 == 0, high_w, low_w), np.where(edge % 2 == 0, low_w, high_w)
    share = (seen.watts[one] - before) / (after - before)
    partly = (share > 0.1) & (share < 0.9)
    return seen.edges_s[edge][partly], share[partly], seen.at_s[one][partly]


def _mean_of(name: str, seen: _Seen, partial: int) -> Finding:
    """By how many of the readings near edges are between the levels: 0.8 of the window's share of time."""
    edges = len(seen.edges_s) - 1
    lines = edges / seen.nominal_s  # a second after each edge holds so many lines
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
    # By chance the highest of so many tops is about sqrt(ln(tops) / n).
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
        "runs will not find this meter's conversion clock: 2 u of short transfers stays wide",
    )


def _load(seen: _Seen) -> Iterator[Finding]:
    name = "a busy board draws the same all the time"
    levels = seen.levels()
    if levels is None or levels[0].at_s[-1] - levels[0].at_s[0] < _MIN_WAVE_S:
        yield Finding(name, Held.UNKNOWN, "no square wave of load was seen for long enough")
        return
    high, low = levels
    at_s = high.at_s
    net_w = high.watts - low.at(at_s)
    part_s = _PART * (at_s[-1] - at_s[0])
    first_w = float(np.median(net_w[at_s < at_s[0] + part_s]))
    last_w = float(np.median(net_w[at_s > at_s[-1] - part_s]))
    fine = abs(last_w - first_w) <= _SHARE * abs(first_w)
    found = f"{first_w:.2f} W above idle at first, {last_w:.2f} W at last, all cores half of the time"
    changes = (
        "" if fine else "it throttles: cool it, or fix a lower clock rate; trainings slow down by and by"
    )
    yield Finding(name, Held.HOLDS if fine else Held.FAILS, found, changes)


def _idle(seen: _Seen) -> Iterator[Finding]:
    name = "an idle board draws the same all the time"
    blocks = []
    for from_s, until_s in seen.kit.rests_s:
        for start_s in np.arange(from_s, until_s - _BLOCK_S + 1e-9, _BLOCK_S):
            inside = seen.within(float(start_s), float(start_s) + _BLOCK_S)
            if np.sum(inside) >= 3:
                blocks.append(float(np.mean(seen.watts[inside])))
    if len(blocks) < 4:
        yield Finding(name, Held.UNKNOWN, f"{len(blocks)} times {_BLOCK_S:g} s of rest")
        return
    wander_w = float(np.std(blocks, ddof=1))
    found = f"{np.mean(blocks):.3f} W, means of {_BLOCK_S:g} s within {wander_w * 1e3:.0f} mW"
    changes = (
        ""
        if wander_w < _IDLE_W
        else "something wakes up by itself: net energies of transfers are known as badly"
    )
    yield Finding(name, Held.HOLDS if wander_w < _IDLE_W else Held.FAILS, found, changes)


def _transfers(seen: _Seen) -> Iterator[Finding]:
    idle = [seen.watts[seen.within(*rest)] for rest in seen.kit.rests_s[-1:]]  # what begins later is no tail
    idle_w = float(np.mean(np.concatenate(idle))) if idle and sum(map(len, idle)) else float("nan")
    for direction in ("download", "upload"):
        moved = [one for one in seen.kit.moved if one.direction == direction]
        name, tail_name = f"{direction}s draw constant power", f"nothing is drawn after {direction}s"
        thirds: list[list[float]] = [[], [], []]
        tail: list[float] = []
        for one in moved:
            third_s = (one.last_s - one.first_s) / 3
            for number, part in enumerate(thirds):
                start_s = one.first_s + number * third_s
                part += seen.watts[seen.within(start_s, start_s + third_s)].tolist()
            tail += seen.watts[seen.within(one.last_s + _TAIL_S[0], one.last_s + _TAIL_S[1])].tolist()
        if not np.isfinite(idle_w) or any(len(part) < 5 for part in thirds) or len(tail) < 5:
            yield Finding(name, Held.UNKNOWN, f"{len(moved)} transfers, too short or too few")
            yield Finding(tail_name, Held.UNKNOWN, f"{len(moved)} transfers, too short or too few")
            continue
        means = np.array([np.mean(part) for part in thirds]) - idle_w
        errors = np.array([np.std(part, ddof=1) / np.sqrt(len(part)) for part in thirds])
        net_w = float(np.mean(means))
        spread_w, doubt_w = float(np.ptp(means)), 3.0 * float(np.hypot(errors.max(), errors.min()))
        rate = np.mean([one.bytes_moved * 8e-6 / max(one.last_s - one.first_s, 1e-3) for one in moved])
        parts = " / ".join(f"{mean:+.2f}" for mean in means)
        found = f"{parts} W above idle in their thirds, at {rate:.1f} Mbit/s"
        fine = spread_w <= max(doubt_w, _SHARE * abs(net_w))
        changes = (
            "" if fine else "the estimate without a model is used for them, with a wider u (docs/energy.md)"
        )
        yield Finding(name, Held.HOLDS if fine else Held.FAILS, found, changes)
        tail_w = float(np.mean(tail)) - idle_w
        u_w = 3.0 * float(np.std(tail, ddof=1) / np.sqrt(len(tail)))
        fine = tail_w <= max(u_w, _SHARE * abs(net_w))
        found = f"{tail_w:+.3f} W in the {_TAIL_S[1]:g} s after their last byte"
        changes = "" if fine else "the radio has a tail: `wait` after transfers draws it, and is not idle"
        yield Finding(tail_name, Held.HOLDS if fine else Held.FAILS, found, changes)


def _wall_clock(kit: Kit) -> Iterator[Finding]:
    name = f"the board's clock keeps time within {_DRIFT_PPM:g} ppm"
    if len(kit.offsets) < 2 or kit.offsets[-1][0] - kit.offsets[0][0] < 60.0:
        yield Finding(name, Held.UNKNOWN, "it was not asked twice")
        return
    (first_s, before_s, b0_s), (last_s, after_s, b1_s) = kit.offsets[0], kit.offsets[-1]
    drift_ppm = (after_s - before_s) / (last_s - first_s) * 1e6
    bound_ppm = (b0_s + b1_s) / (last_s - first_s) * 1e6
    found = f"{drift_ppm:+.0f} ± {bound_ppm:.0f} ppm over {(last_s - first_s) / 60:.0f} min"
    if abs(drift_ppm) + bound_ppm <= _DRIFT_PPM:
        yield Finding(name, Held.HOLDS, found)
    elif abs(drift_ppm) - bound_ppm > _DRIFT_PPM:
        yield Finding(
            name, Held.FAILS, found, "give it a time server (fleet provision), or look at its crystal"
        )
    else:
        yield Finding(name, Held.UNKNOWN, found, "a quieter network or a longer time tells")


def _looked(kit: Kit) -> Iterator[Finding]:
    verdicts = {"pass": Held.HOLDS, "warn": Held.FAILS, "fail": Held.FAILS}
    for one in kit.checks:
        held = verdicts.get(one.verdict, Held.UNKNOWN)
        changes = "see roambench fleet preflight" if held is Held.FAILS else ""
        yield Finding(f"preflight: {one.name}", held, one.found, changes)
