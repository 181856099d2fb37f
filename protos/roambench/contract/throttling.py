"""Phases in which a board may have run slower than it claims: throttle bits laid over the phases. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from roambench.contract.phases import PhaseSpan
from roambench.contract.records import HostSample

#: Bits of `vcgencmd get_throttled` that hold now; bit n + 16 says that bit n was set since the boot.
_NAMES: Final = {
    0: "under-voltage",
    1: "frequency capped",
    2: "throttled",
    3: "soft temperature limit",
}
_NOW: Final = 0xF
_SINCE_BOOT: Final = 16


def throttle_names(bits: int) -> tuple[str, ...]:
    """Return what bits 0 to 3 say, in words, in order of their number."""
    return tuple(name for bit, name in _NAMES.items() if bits >> bit & 1)


def throttle_names_since_boot(bits: int) -> tuple[str, ...]:
    """The same of bits 16 to 19."""
    return throttle_names(bits >> _SINCE_BOOT)


@dataclass(frozen=True, slots=True)
class ThrottledSpan:
    """A phase in which some of `bits` (0-3) may have been set."""

    span: PhaseSpan
    bits: int

    @property
    def names(self) -> tuple[str, ...]:
        """The bits in words, in order of their number."""
        return throttle_names(self.bits)


def throttled_spans(spans: Sequence[PhaseSpan], samples: Sequence[HostSample]) -> list[ThrottledSpan]:
    """The spans of one board that a throttle bit touches, in the order given.

    Samples are moments, phases are not: between two samples a bit counts as set if either shows it, or if
    its since-boot bit appeared in between. So a phase is never let off for want of a look; one that is
    named may be clean by up to a sample's period. Samples that do not know their bits (-1) are left out.
    """
    known = sorted(
        (sample for sample in samples if sample.throttle_bits >= 0), key=lambda sample: sample.monotonic_ns
    )
    if not known:
        return []
    stamps = [sample.monotonic_ns for sample in known]
    bits = [sample.throttle_bits for sample in known]
    # between[k]: what may have been set from sample k - 1 to sample k; the ends reach beyond the samples.
    inner = [(before | now | ((now & ~before) >> _SINCE_BOOT)) & _NOW for before, now in pairwise(bits)]
    between = [bits[0] & _NOW, *inner, bits[-1] & _NOW]
    found = []
    for span in spans:
        first = bisect_right(stamps, span.start_ns)
        last = max(first, bisect_left(stamps, span.end_ns))
        touched = 0
        for interval in between[first : last + 1]:
            touched |= interval
        if touched:
            found.append(ThrottledSpan(span, touched))
    return found
