"""The verdicts of a kit on the board, its system, its radio and its switch; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from roambench.contract.counts import count
from roambench.extras.verify.finding import Finding, Held
from roambench.extras.verify.kit import NOT_A_PI, Kit

#: Joules of a radio that takes longer than this to wake are not in its transfer (docs/energy.md).
_PROMOTION_S: Final = 0.1
#: CPU-seconds of an SGD step of the demo's model, within a factor, by how the device tree's name of the board
#: begins. Experiments and plans assume the first; the others are estimates by clock rate and width of the
#: core (Cortex-A53, A72, A76).
_STEP_S: Final = {"": 0.4, "Raspberry Pi 4": 0.2, "Raspberry Pi 5": 0.08}
_FACTOR: Final = 2.0
_GFLOP: Final = 0.95  # of such a step, as `runner.step_time` counts them
#: Of `vcgencmd get_throttled`: clock capped, throttled, soft temperature limit.
_THROTTLED: Final = 0b1110
_CUT = "only `--cut-power` shows it"


def board_findings(kit: Kit) -> Iterator[Finding]:
    """In the order of docs/prove.md."""
    yield _promotion(kit)
    yield _step(kit)
    yield _throttled(kit)
    yield _opening(kit)
    yield _cut(kit)
    yield from _image(kit)


def _promotion(kit: Kit) -> Finding:
    name = f"a radio that rested answers within {_PROMOTION_S * 1e3:.0f} ms more"
    if len(kit.trips_s) < 3:
        return Finding(name, Held.UNKNOWN, f"asked {len(kit.trips_s)} times")
    first_s, next_s = np.median(np.array(kit.trips_s), axis=0)
    found = f"{first_s * 1e3:.0f} ms after a rest, then {next_s * 1e3:.0f} ms, {len(kit.trips_s)} times"
    if first_s - next_s <= _PROMOTION_S:
        return Finding(name, Held.HOLDS, found)
    changes = "power save, or a radio's promotion: what it draws before a transfer is stamped is not in it"
    return Finding(name, Held.FAILS, found, changes)


def _step(kit: Kit) -> Finding:
    begins = next((begins for begins in _STEP_S if begins and kit.board.startswith(begins)), "")
    step_s = _STEP_S[begins]
    name = f"an SGD step takes {step_s:g} CPU-seconds"
    if kit.step_cpu_s is None:
        return Finding(name, Held.UNKNOWN, "no step was made")
    found = f"{kit.step_cpu_s:.3f} s (MOHAWK's CNN, batches of 8)"
    if step_s / _FACTOR <= kit.step_cpu_s <= step_s * _FACTOR:
        if begins:
            found += f"; plans and emulations assume {_STEP_S['']:g} s, a 3B+'s: set local.sgd_step_s"
        return Finding(name, Held.HOLDS, found)
    if kit.board == NOT_A_PI:
        return Finding(name, Held.UNKNOWN, f"{found}, on a machine that is no Raspberry Pi")
    speed = f"simulated.gflop_s to {_GFLOP / kit.step_cpu_s:.2g}"
    return Finding(name, Held.FAILS, found, f"plans and emulations: set local.sgd_step_s to it, {speed}")


def _throttled(kit: Kit) -> Finding:
    name = "ten minutes of load throttle nothing"
    if kit.throttle_bits is None:
        return Finding(name, Held.UNKNOWN, "the board does not tell")
    found = f"bits {kit.throttle_bits:#x} after it"
    if kit.throttle_bits & (_THROTTLED | _THROTTLED << 16):
        return Finding(name, Held.FAILS, found, "cool it, feed it better, or fix a lower clock rate")
    return Finding(name, Held.HOLDS, found)


def _opening(kit: Kit) -> Finding:
    name = "opening the meter's port leaves the board its power"
    if not kit.openings:
        return Finding(name, Held.UNKNOWN, kit.facts.get("not opened", _CUT))
    found = "; ".join(
        f"by {one.by}: the board {'lived on' if one.lived else 'lost power'}"
        + (", the meter printed its boot text" if one.restarted else "")
        for one in kit.openings
    )
    if all(one.lived and not one.restarted for one in kit.openings):
        return Finding(name, Held.HOLDS, found)
    return Finding(
        name,
        Held.FAILS,
        found,
        "the agent's latch is needed: set autorun on (firmware_notes)",
    )


def _cut(kit: Kit) -> Finding:
    name = "a board that is switched off is off"
    if not kit.cuts:
        return Finding(name, Held.UNKNOWN, kit.facts.get("not cut", _CUT))
    changes = (
        "power comes by another way, perhaps USB from the meter or a hub, or this switch is not the board's:"
        " power cycles mend nothing, and what comes that way is in no joule"
    )
    for one in kit.cuts:
        if one.answered or one.same_boot:
            what = "it answered while it was off" if one.answered else "it is in the same boot as before"
            return Finding(name, Held.FAILS, what, changes)
        if one.back_after_s is None:
            return Finding(
                name, Held.FAILS, "it did not come back", "look at its screen; roambench fleet power"
            )
    return Finding(
        name, Held.HOLDS, f"it was gone, and back {kit.cuts[-1].back_after_s:.0f} s after it was on"
    )


def _image(kit: Kit) -> Iterator[Finding]:
    names = (
        "the clock rate is fixed after a boot",
        "logs of the boot before are kept",
        "the meter has its stable name after a boot",
        "what provisioning made quiet stays quiet",
    )
    if not kit.images:
        for name in names:
            yield Finding(name, Held.UNKNOWN, "the system was not asked")
        return
    first, last = kit.images[0], kit.images[-1]
    booted = any(not one.same_boot and one.back_after_s is not None for one in kit.cuts)
    after = "after a cut" if booted else f"before one; {_CUT}"
    wrong = [one for one in last.governors if one not in ("performance", "powersave", "userspace")]
    yield _told(
        names[0],
        None if not last.governors else not wrong and (booted or None),
        f"{', '.join(sorted(set(last.governors))) or 'no governor'}, {after}",
        "trainings begin slowly and end fast: is roambench-board.service enabled?",
    )
    kept = last.journal_on_card and (
        last.boots_kept > first.boots_kept if booted else last.boots_kept > 1 or None
    )
    yield _told(
        names[1],
        kept,
        f"{'on' if last.journal_on_card else 'not on'} the card, {count(last.boots_kept, 'boot')}, {after}",
        "a board that lost its power tells no reason: look at journald's Storage on that image",
    )
    yield _told(
        names[2],
        None if last.meter_named is None else last.meter_named and (booted or None),
        {None: "the bench names no USB serial number", True: "it has", False: "it has not"}[last.meter_named]
        + f", {after}",
        "the udev rule did not match: compare the serial number with `udevadm info` on that board",
    )
    yield _told(
        names[3],
        None if not last.quiet else last.loud == 0,
        f"{count(last.quiet, 'value')} written, {last.loud} of them back, {after}",
        "something on that image writes them, too (LEDs, governor, radio): idle power wanders with it",
    )


def _told(name: str, held: bool | None, found: str, changes: str) -> Finding:
    if held is None:
        return Finding(name, Held.UNKNOWN, found)
    return Finding(name, Held.HOLDS, found) if held else Finding(name, Held.FAILS, found, changes)
