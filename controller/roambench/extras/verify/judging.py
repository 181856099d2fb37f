"""The assumptions that hold on the board of a kit, and the consequences of the others; pure.

docs/prove.md lists them. Loads and transfers are judged here, the meter's lines in `meter_judging`,
the board itself in `board_judging`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError
from roambench.extras.verify.board_judging import board_findings
from roambench.extras.verify.finding import Finding, Held
from roambench.extras.verify.kit import Kit
from roambench.extras.verify.meter_judging import meter_findings
from roambench.extras.verify.seen import SeenKit
from roambench.meters.traits import TRAITS

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
_MIN_WAVE_S: Final = 120.0


def judged(kit: Kit) -> list[Finding]:
    """All assumptions, in the order of docs/prove.md. ConfigError for unknown traits."""
    if kit.traits not in TRAITS.names():
        raise ConfigError([f"kit: {kit.traits!r}: expected meter traits ({', '.join(TRAITS.names())})"])
    seen = SeenKit(kit, TRAITS.load(kit.traits))
    return [
        *meter_findings(seen),
        *_load(seen),
        *_idle(seen),
        *_transfers(seen),
        *board_findings(kit),
        *_wall_clock(kit),
        *_looked(kit),
    ]


def _load(seen: SeenKit) -> Iterator[Finding]:
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


def _idle(seen: SeenKit) -> Iterator[Finding]:
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


def _transfers(seen: SeenKit) -> Iterator[Finding]:
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
        changes = "" if fine else "single transfers scatter more; sums between rests assume no shape"
        yield Finding(name, Held.HOLDS if fine else Held.FAILS, found, changes)
        tail_w = float(np.mean(tail)) - idle_w
        u_w = 3.0 * float(np.std(tail, ddof=1) / np.sqrt(len(tail)))
        fine = tail_w <= max(u_w, _SHARE * abs(net_w))
        found = f"{tail_w:+.3f} W in the {_TAIL_S[1]:g} s after their last byte"
        changes = "" if fine else "the radio has a tail: a rest must outlast it (rounds.rest_s)"
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
