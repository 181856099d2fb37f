"""Damage to a meter's bytes, for proofs: what bad cables, lost buffers and second talkers make of them.

Pure and seeded: the same seed damages the same bytes in the same way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from roambench.contract.draws import generator
from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.frames.parser import FrameParser

#: Chunks of a transcript that are damaged together, unless said otherwise.
WINDOW: Final = 3
LONGEST_SPAN: Final = 40


class Damage(StrEnum):
    """The ways in which a stream of bytes can be damaged."""

    LOST_BYTE = "one byte lost"
    LOST_SPAN = "span lost"
    FLIPPED = "byte changed"
    DIGIT = "digit changed"
    NOISE = "noise inserted"
    TRUNCATED = "cut off"
    SPLICED = "spliced with another place"
    REPEATED = "span repeated"


KINDS: Final = tuple(Damage)


@dataclass(frozen=True, slots=True)
class Damaged:
    """`pieces` are what arrives, damaged by `kind`; `sources` tells where the windows began."""

    kind: Damage
    pieces: tuple[bytes, ...]
    sources: tuple[int, ...]


def damaged(
    chunks: Sequence[bytes], count: int, seed: int, *, whole: bool = False, window: int = WINDOW
) -> Iterator[Damaged]:
    """`count` windows of `chunks`, each damaged in one way, all kinds in turn.

    As a stream (`whole` False) a window is one run of bytes that arrives in two pieces; of whole messages one
    is damaged and the others arrive as they were.
    """
    draws = generator(seed, "damage")
    windows = max(1, len(chunks) - window + 1)
    starts = draws.integers(windows, size=(count, 2)).tolist()
    places = draws.random((count, 3)).tolist()
    spans = draws.integers(2, LONGEST_SPAN, size=count).tolist()
    noise = draws.bytes(count * 12)
    texts = _TEXTS
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        start, other = starts[i]
        chosen = chunks[start : start + window]
        at, piece, which = places[i]
        if whole:
            index = int(which * len(chosen))
            head, data, tail = tuple(chosen[:index]), chosen[index], tuple(chosen[index + 1 :])
            partner = chunks[other]
        else:
            head, tail = (), ()
            data = b"".join(chosen)
            partner = b"".join(chunks[other : other + window])
        position = int(at * len(data))
        span = spans[i] if not whole else 1 + spans[i] % max(1, len(data))
        match kind:
            case Damage.LOST_BYTE:
                data = data[:position] + data[position + 1 :]
            case Damage.LOST_SPAN:
                data = data[:position] + data[position + span :]
            case Damage.FLIPPED:
                data = data[:position] + noise[i : i + 1] + data[position + 1 :]
            case Damage.DIGIT:
                data = _with_digit(data, position, noise[i])
            case Damage.NOISE:
                inserted = (
                    texts[i % len(texts)] if noise[i] & 1 else noise[i * 12 : i * 12 + 1 + noise[i] % 12]
                )
                data = data[:position] + inserted + data[position:]
            case Damage.TRUNCATED:
                data = data[:position]
            case Damage.SPLICED:
                data = data[:position] + partner[int(piece * len(partner)) :]
            case Damage.REPEATED:
                data = data[: position + span] + data[position:]
        if whole:
            pieces = (*head, data, *tail)
        else:
            border = int(piece * len(data))
            pieces = (data[:border], data[border:])
        yield Damaged(kind, pieces, (start, other) if kind is Damage.SPLICED else (start,))


def _with_digit(data: bytes, position: int, value: int) -> bytes:
    """The first digit from `position` on becomes another one."""
    for at in range(position, len(data)):
        if 0x30 <= data[at] <= 0x39:
            return data[:at] + bytes([0x30 + (data[at] - 0x30 + 1 + value % 9) % 10]) + data[at + 1 :]
    return data[:-1]


#: What firmware says between its readings, and digits that look like readings' own.
_TEXTS: Final = (
    b"handleFileRead: /\r\n",
    b"[0] Disconnected!\n\r",
    b"1",
    b"00",
    b",",
    b".",
    b"\n",
    b"\r\n",
    b"5.1",
    b"0.000,",
)


#: A reading as its line has it: volts, amperes, watts, the meter's clock.
LineValues = tuple[float, float, float, int]


@dataclass(slots=True)
class Trial:
    """A parser's results for damaged bytes.

    `false` counts the lines, by damage, that were taken without a flag though the meter had not sent them;
    `flagged` those that came with the flag INCONSISTENT. `worst_w` is the largest distance of a false line's
    watts from the nearest true ones beyond R10's tolerance (negative: within it).
    """

    sequences: Counter[Damage] = field(default_factory=Counter)
    accepted: int = 0
    false: Counter[Damage] = field(default_factory=Counter)
    flagged: Counter[Damage] = field(default_factory=Counter)
    worst_w: float = -math.inf

    def add(self, other: Trial) -> None:
        """Add the counts of another trial."""
        self.sequences += other.sequences
        self.accepted += other.accepted
        self.false += other.false
        self.flagged += other.flagged
        self.worst_w = max(self.worst_w, other.worst_w)


def try_parser(
    parser: Callable[[], FrameParser],
    chunks: Sequence[bytes],
    count: int,
    seed: int,
    *,
    whole: bool = False,
    window: int = WINDOW,
) -> Trial:
    """Feed `count` damaged windows of a transcript's chunks, each to a new parser; what it raises escapes.

    True is what the undamaged window says, or one of its chunks alone. Where lines carry the meter's clock,
    what any line of the transcript says is true: the clock distinguishes them.
    """
    alone = [_values_of(parser(), [chunk]) for chunk in chunks]
    windows = [
        _values_of(parser(), chunks[i : i + window]).union(*alone[i : i + window]) for i in range(len(chunks))
    ]
    everywhere = set().union(_values_of(parser(), chunks), *windows)
    clocked = any(values[3] >= 0 for values in everywhere)
    trial = Trial()
    for item in damaged(chunks, count, seed, whole=whole, window=window):
        frames = parser()
        trial.sequences[item.kind] += 1
        true = everywhere if clocked else set().union(*(windows[i] for i in item.sources))
        for at, piece in enumerate(item.pieces):
            for reading in frames.feed(piece, at):
                trial.accepted += 1
                if _key(reading) not in true:
                    _score(trial, item.kind, reading, true)
    return trial


def _score(trial: Trial, kind: Damage, reading: Reading, true: set[LineValues]) -> None:
    if reading.flags & ReadingFlag.INCONSISTENT:
        trial.flagged[kind] += 1
        return
    trial.false[kind] += 1
    nearest_w = min((abs(reading.watts - values[2]) for values in true), default=0.0)
    trial.worst_w = max(trial.worst_w, nearest_w - 0.02 - 0.02 * reading.watts)


def _values_of(frames: FrameParser, chunks: Sequence[bytes]) -> set[LineValues]:
    return {_key(reading) for chunk in chunks for reading in frames.feed(chunk, 0)}


def _key(reading: Reading) -> LineValues:
    return reading.volts, reading.amps, reading.watts, reading.meter_ms
