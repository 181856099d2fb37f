"""The phases that partition a device's time, and what became of a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, pairwise
from typing import Final


class Phase(StrEnum):
    """An activity of a device. Phases partition its time: they add up to the run."""

    IDLE = "idle"  # present, nothing ordered in this step
    ABSENT = "absent"  # the trace says it is away (a bench board is still powered)
    DOWNLOAD = "download"
    DECODE = "decode"  # what was downloaded becomes a model (docs/codecs.md)
    TRAIN = "train"
    EVALUATE = "evaluate"  # a device scores a model on its own data: no training, and never wasted
    ENCODE = "encode"  # a model becomes what will be uploaded
    UPLOAD = "upload"
    EXCHANGE = "exchange"  # device-to-device
    REST = "rest"  # around a measured phase: nothing is ordered, nothing transferred
    WAIT = "wait"  # present, order done, the step is not closed yet
    LOST = "lost"  # the agent was down: time passes without a stamp
    OFF = "off"  # the board had no power: its battery was empty


#: Active phases in which its processor works; the radio works in the others.
COMPUTING_PHASES = frozenset({Phase.DECODE, Phase.TRAIN, Phase.EVALUATE, Phase.ENCODE})
#: Phases in which a device works for the learning system; the others are background.
ACTIVE_PHASES = COMPUTING_PHASES | {Phase.DOWNLOAD, Phase.UPLOAD, Phase.EXCHANGE}
#: Phases that no agent stamps: nothing of them says what the board did.
UNSTAMPED_PHASES = frozenset({Phase.LOST, Phase.OFF})
#: Active phases, and the rests around them.
MEASURED_PHASES = ACTIVE_PHASES | {Phase.REST}


class Outcome(StrEnum):
    """The use of a trained model, and so of the joules it cost: aggregated, wasted, failed or pending.

    A training is wasted where the system has no use for what it made: its device has gone away, the system's
    own rule drops it, another one takes its place. It failed where something broke: it did not end in time
    or its board was lost, or an access point asked for its model and got none. Nothing else tells the two
    apart: a model that was spoiled, but that no access point asked for, is wasted.
    """

    PENDING = "pending"  # outstanding: not aggregated, not yet given up
    AGGREGATED = "aggregated"  # an edge aggregation used it
    WASTED = "wasted"  # no edge aggregation used it, and nothing had broken
    FAILED = "failed"  # no edge aggregation could use it: something had broken


#: The record of a transfer has so many of its stalls, the longest ones.
MOST_STALLS: Final = 8


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that a phase moved over the data link, with the stamps of its first and last byte (0: not
    stamped), and from when to when it stalled between them (see `PhaseSpan`)."""

    transferred_bytes: int = 0
    first_byte_ns: int = 0
    last_byte_ns: int = 0
    stalls_ns: tuple[tuple[int, int], ...] = ()


NOTHING_MOVED = Moved()


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One uninterrupted phase of one device, [start_ns, end_ns) in its own device time.

    `order_id` is the train or upload order served, empty for background phases. `train_order_id` names
    the training whose outcome decides whether the span's joules were wasted (an upload serves an earlier
    training); empty for background phases. A transfer's bytes move from `first_byte_ns` to `last_byte_ns`,
    both 0 where they are not stamped: before and after that the device waits for the other side. So it does
    in the stalls between (`stalls_ns`: begin and end of each, at most MOST_STALLS, in order of time), in
    which no byte moved.
    """

    device: str
    boot_id: str
    phase: Phase
    step: int
    start_ns: int
    end_ns: int
    order_id: str = ""
    train_order_id: str = ""
    transferred_bytes: int = 0
    first_byte_ns: int = 0
    last_byte_ns: int = 0
    stalls_ns: tuple[tuple[int, int], ...] = ()

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return (self.end_ns - self.start_ns) * 1e-9

    @property
    def doubt(self) -> str | None:
        """Return why no agent can have stamped it so, or None."""
        if self.end_ns < self.start_ns:
            return "a phase ends before it starts"
        if not self.stalls_ns:
            return None
        if len(self.stalls_ns) > MOST_STALLS:
            return f"a transfer has {len(self.stalls_ns)} stalls, the most is {MOST_STALLS}"
        stamps = (self.first_byte_ns, *chain.from_iterable(self.stalls_ns), self.last_byte_ns)
        if any(later < earlier for earlier, later in pairwise(stamps)):
            return "a transfer's stalls are not one after the other between its first and last byte"
        return None
