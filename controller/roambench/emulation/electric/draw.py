"""Power of one emulated board, moment by moment, and what it would draw if it had nothing to do."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from roambench.contract.draws import generator
from roambench.emulation.electric.power import CORES, IDLE, Activity, PiPower
from roambench.emulation.electric.shapes import SPREAD, PowerShape
from roambench.emulation.electric.signal import PowerSignal

_S: Final = 1_000_000_000
#: Idle power moves in steps of this length.
GRID_NS: Final = _S
#: The governor's dips are laid out so far ahead.
AHEAD_NS: Final = 5 * _S
#: From this many more busy cores on a training has begun; the agent's own work is less.
_TRAINING_CORES: Final = 0.5


@dataclass(frozen=True, slots=True)
class _State:
    """A board's state since `activity` was set; stamps in ns, drawn lengths in ns."""

    activity: Activity = IDLE
    transfers: int = 0  # so far; the number of a draw
    awake_ns: int = 0  # the radio draws from here on
    slow_until_ns: int = 0  # the transfer's burst
    drained_ns: int = 0
    ending_ns: int = 0
    tail_ns: int = 0
    tail_until_ns: int = 0  # of the last transfer
    tail_w: float = 0.0
    trainings: int = 0
    ramp_until_ns: int = 0
    dip_every_ns: int = 0
    dip_ns: int = 0

    @property
    def radio(self) -> bool:
        return self.activity.tx_mbit_s > 0 or self.activity.rx_mbit_s > 0

    @property
    def dips(self) -> bool:
        return self.dip_every_ns > 0 and self.activity.busy_cores > 0


class BoardDraw:
    """Device `device` with `seed`, idle from `start_ns` on. Activities may be known late or ahead.

    `idle` is what the board would draw if it had nothing to do, `load` what it draws besides; both are known
    up to the last `until`. A change of either is given as the changes of their sum, rounded to a nanowatt.
    """

    def __init__(self, power: PiPower, shape: PowerShape, seed: int, device: int, start_ns: int) -> None:
        self._power, self._shape = power, shape
        self._seed, self._device = seed, device
        self._start_ns = start_ns
        self._states: list[tuple[int, _State]] = [(start_ns, _State())]
        self._cores = 0.0  # busy, by a first-order lag
        self._warm_ns = start_ns  # idle power is known up to here
        self._laid_ns = start_ns  # dips are laid out up to here
        self.idle = PowerSignal(start_ns, power.idle_w)
        self.load = PowerSignal(start_ns, 0.0)
        self._idle_changes = [(start_ns, power.idle_w)]

    def work(self, activity: Activity, ns: int) -> list[tuple[int, float]]:
        """The board does `activity` from `ns` to the next known stamp: (ns, watts) of what changes."""
        if ns < self._states[0][0]:
            return []  # what is known since holds
        ns = max(ns, self.load.start_ns, self.idle.start_ns)  # what was before is forgotten
        changes = self._warm(ns)
        at = self._place(ns) + 1
        later = [(later_ns, state.activity) for later_ns, state in self._states[at:]]
        if self._states[at - 1][0] == ns and at > 1:  # of two for one stamp the later counts
            at -= 1
        del self._states[at:]
        for at_ns, wanted in [(ns, activity), *later]:
            self._states.append((at_ns, self._after(self._states[-1][1], wanted, at_ns)))
        return changes + self._lay(ns)

    def until(self, now_ns: int) -> list[tuple[int, float]]:
        """Changes of the power that come by themselves up to `now_ns`."""
        changes = self._warm(now_ns)
        while self._states[-1][1].dips and self._laid_ns < now_ns:
            changes += self._lay(self._laid_ns)
        return changes

    def take_idle_changes(self) -> list[tuple[int, float]]:
        """The changes of the idle power since the last call, for the truth's file."""
        changes, self._idle_changes = self._idle_changes, []
        return changes

    def prune(self, before_ns: int) -> None:
        """Forget what was over before `before_ns`."""
        del self._states[: max(self._place(before_ns), 0)]
        self.idle.prune(before_ns)
        self.load.prune(before_ns)

    def _place(self, ns: int) -> int:
        """Return which of the states holds at `ns`."""
        return bisect_right(self._states, ns, key=lambda state: state[0]) - 1

    def _after(self, state: _State, activity: Activity, ns: int) -> _State:
        """The state that follows when `activity` begins at `ns`."""
        shape, old = self._shape, state.activity
        new = replace(state, activity=activity)
        if new.radio and not state.radio:
            means_s = (shape.wake_s, shape.drained_s, shape.ending_s, shape.tail_s)
            wake, drained, ending, tail = self._drawn_ns("transfer", state.transfers, *means_s)
            new = replace(
                new,
                transfers=state.transfers + 1,
                awake_ns=ns + wake,
                drained_ns=drained,
                ending_ns=ending,
                tail_ns=tail,
            )
        if state.radio and not new.radio:
            new = replace(
                new, tail_until_ns=ns + state.tail_ns, tail_w=self._power.radio_w(old.radio_resting())
            )
        if activity.moves and not old.moves:
            (burst,) = self._drawn_ns("transfer's burst", new.transfers, shape.burst_s)
            new = replace(new, slow_until_ns=ns + burst)
        if activity.busy_cores >= old.busy_cores + _TRAINING_CORES:
            ramp, every, dip = self._drawn_ns(
                "training", new.trainings, shape.ramp_s, shape.dip_every_s, shape.dip_s
            )
            new = replace(
                new, trainings=state.trainings + 1, ramp_until_ns=ns + ramp, dip_every_ns=every, dip_ns=dip
            )
        return new

    def _drawn_ns(self, what: str, number: int, *means_s: float) -> list[int]:
        draw = generator(self._seed, f"shape of a {what}", self._device, number)
        shares = draw.uniform(1 - SPREAD, 1 + SPREAD, len(means_s)).tolist()
        return [round(mean_s * share * 1e9) for mean_s, share in zip(means_s, shares, strict=True)]

    def _load_w(self, state: _State, ns: int) -> float:
        """Above idling, at `ns` in `state`."""
        shape, activity = self._shape, state.activity
        watts = self._power.core_w * min(activity.busy_cores, CORES) * self._clock_share(state, ns)
        if activity.waiting:
            watts += shape.wait_w
        if not state.radio:
            return watts + (state.tail_w if ns < state.tail_until_ns else 0.0)
        if ns < state.awake_ns:
            return watts
        until_ns = activity.moves_until_ns
        ended = until_ns and ns >= until_ns - state.drained_ns
        radio_w = self._power.radio_w(activity.radio_resting() if ended else activity)
        if activity.moves and not ended and ns < state.slow_until_ns:
            radio_w *= shape.burst_factor
        if activity.rx_mbit_s > 0 and until_ns and until_ns - state.ending_ns <= ns < until_ns:
            radio_w += shape.ending_w
        return watts + radio_w

    def _clock_share(self, state: _State, ns: int) -> float:
        since_ns = ns - state.ramp_until_ns
        low = since_ns < 0 or (
            state.dip_every_ns <= since_ns and state.dips and since_ns % state.dip_every_ns < state.dip_ns
        )
        return self._shape.low_share if low else 1.0

    def _changes_within(self, state: _State, from_ns: int, to_ns: int) -> set[int]:
        """Stamps in [from, to) at which the load in `state` may change; dips as far as they are laid out."""
        stamps = {from_ns, state.awake_ns, state.slow_until_ns, state.tail_until_ns, state.ramp_until_ns}
        if until_ns := state.activity.moves_until_ns:
            stamps |= {until_ns, until_ns - state.drained_ns, until_ns - state.ending_ns}
        if state.dips:
            every_ns, first_ns = state.dip_every_ns, state.ramp_until_ns
            number = max(1, (from_ns - first_ns) // every_ns)
            dips = range(first_ns + number * every_ns, min(to_ns, self._laid_ns), every_ns)
            stamps |= {*dips, *(ns + state.dip_ns for ns in dips)}
        return {ns for ns in stamps if from_ns <= ns < to_ns}

    def _lay(self, from_ns: int) -> list[tuple[int, float]]:
        """Lay the load out again from `from_ns` on."""
        undone = [ns for ns, _ in self.load.segments_after(from_ns)]
        self._laid_ns = max(from_ns, self._states[-1][0]) + AHEAD_NS
        states = self._states[self._place(from_ns) :]
        ends_ns = [*(ns for ns, _ in states[1:]), 2**63]
        watts = {
            ns: self._load_w(state, ns)
            for (begin_ns, state), end_ns in zip(states, ends_ns, strict=True)
            for ns in self._changes_within(state, max(begin_ns, from_ns), end_ns)
        }
        self.load.cut(from_ns, watts[from_ns])
        for ns in sorted(watts):
            self.load.change(ns, watts[ns])
        for ns in undone:  # a reader of a change there takes its new value
            self.load.change(ns, self.load.watts_at(ns))
        return self._sums([*watts, *undone, *(ns for ns, _ in self.idle.segments_after(from_ns))])

    def _warm(self, to_ns: int) -> list[tuple[int, float]]:
        """Idle power up to `to_ns`: by the cores' work so far."""
        shape, changed = self._shape, []
        while shape.warms and self._warm_ns + GRID_NS <= to_ns:
            self._warm_ns += GRID_NS
            ns = self._warm_ns
            middle_ns = ns - GRID_NS // 2
            busy = min(self._states[max(self._place(middle_ns), 0)][1].activity.busy_cores, CORES)
            self._cores += (busy - self._cores) * (1.0 - math.exp(-GRID_NS * 1e-9 / shape.heat_s))
            risen = 1.0 - math.exp(-(ns - self._start_ns) * 1e-9 / shape.warm_s)
            watts = round(self._power.idle_w + shape.warm_w * risen + shape.heat_w * self._cores, 9)
            self.idle.change(ns, watts)
            self._idle_changes.append((ns, watts))
            changed.append(ns)
        if not changed:
            return []
        return self._sums([*changed, *(ns for ns, _ in self.load.segments_after(changed[0]))])

    def _sums(self, stamps: Iterable[int]) -> list[tuple[int, float]]:
        sums = {ns: round(self.idle.watts_at(ns) + self.load.watts_at(ns), 9) for ns in stamps}
        return sorted(sums.items())
