"""A device's complete timeline: recorded phases cut and filled so that they partition the run exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from roambench.contract.phases import Phase, PhaseSpan

#: A hole this short between two recorded phases is two stamps of one border, not an outage; the border of a
#: phase is known to 0.13 s at best anyway (the age of the meter's window).
SEAM_S: Final = 0.05
#: From and to, ns of device time.
Interval = tuple[int, int]


def complete_timeline(
    spans: Iterable[PhaseSpan],
    start_ns: int,
    end_ns: int,
    *,
    device: str = "",
    alive_ns: Sequence[int] = (),
    restarts_ns: Sequence[int] = (),
    begun: Iterable[PhaseSpan] = (),
) -> list[PhaseSpan]:
    """Spans of one device that partition [start_ns, end_ns): sorted, no overlap, no hole, durations add up.

    `alive_ns` are stamps at which the agent certainly lived (its readings, its events); `restarts_ns` are
    starts of an agent process. A span that a restart falls into was cut short by the death before it: it
    ends at the last evidence of life before the restart. `begun` are phases that started (`start_ns`) and
    were never recorded as finished (their `end_ns` is ignored): each lasts until the next recorded phase
    or restart, but no longer than the last evidence of life. Where spans overlap the one that started later
    is right. What is left is LOST: time that was not stamped.
    """
    if end_ns < start_ns:
        raise ValueError(f"a run cannot end ({end_ns} ns) before it starts ({start_ns} ns)")
    recorded = list(spans)
    device = device or next((span.device for span in recorded), "")
    alive = sorted({*alive_ns, *(stamp for span in recorded for stamp in (span.start_ns, span.end_ns))})
    observed = sorted(alive_ns)
    restarts = sorted(restarts_ns)
    starts = sorted(span.start_ns for span in recorded)
    whole = [_cut_by_restart(span, observed, restarts) for span in recorded]
    for span in begun:
        limits = [end_ns, *starts[bisect_left(starts, span.start_ns + 1) :][:1]]
        limits += restarts[bisect_left(restarts, span.start_ns + 1) :][:1]
        limit = min(limits)
        last = alive[bisect_left(alive, limit + (limit == end_ns)) - 1] if alive else span.start_ns
        whole.append(replace(span, end_ns=max(span.start_ns, min(limit, last))))
    pieces = _flatten(
        replace(span, start_ns=max(span.start_ns, start_ns), end_ns=min(span.end_ns, end_ns))
        for span in whole
        if span.end_ns > start_ns and span.start_ns < end_ns
    )
    return _fill(pieces, start_ns, end_ns, device, round(SEAM_S * 1e9), restarts)


def without_outages(spans: Sequence[PhaseSpan], outages: Iterable[Interval]) -> list[PhaseSpan]:
    """The timeline with each of `outages` (in which the device had no command: what it did then is void,
    and done again) as one LOST span. It partitions the same time."""
    whole = list(spans)
    for start_ns, end_ns in outages:
        cut: list[PhaseSpan] = []
        for span in whole:
            if start_ns < span.end_ns and span.start_ns < end_ns:
                before = replace(span, end_ns=min(span.end_ns, max(span.start_ns, start_ns)))
                after = replace(
                    span, start_ns=max(span.start_ns, min(span.end_ns, end_ns)), transferred_bytes=0
                )
                pieces = [before, after] if span.start_ns < start_ns else [after]
                cut += [piece for piece in pieces if piece.duration_s > 0.0]
            else:
                cut.append(span)
        if whole and (lost := _lost_in(whole, start_ns, end_ns)) is not None:
            cut.append(lost)
        whole = sorted(cut, key=lambda span: span.start_ns)
    return whole


def without_power(spans: Sequence[PhaseSpan], cuts: Sequence[Interval]) -> list[PhaseSpan]:
    """The timeline with what is LOST within `cuts`, in which its board had no power, as OFF. It partitions
    the same time."""
    pieces: list[PhaseSpan] = []
    for span in spans:
        if span.phase is Phase.LOST:
            for off_ns, on_ns in cuts:
                from_ns, until_ns = max(span.start_ns, off_ns), min(span.end_ns, on_ns)
                if from_ns < until_ns:
                    if span.start_ns < from_ns:
                        pieces.append(replace(span, end_ns=from_ns))
                    pieces.append(replace(span, phase=Phase.OFF, start_ns=from_ns, end_ns=until_ns))
                    span = replace(span, start_ns=until_ns)
        if span.start_ns < span.end_ns or span.phase is not Phase.LOST:
            pieces.append(span)
    return pieces


def _lost_in(spans: Sequence[PhaseSpan], start_ns: int, end_ns: int) -> PhaseSpan | None:
    """The outage as far as it lies within the timeline, with the names of what it follows."""
    start_ns, end_ns = max(start_ns, spans[0].start_ns), min(end_ns, spans[-1].end_ns)
    last = next((span for span in reversed(spans) if span.start_ns <= start_ns), spans[0])
    if end_ns <= start_ns:
        return None
    return PhaseSpan(last.device, last.boot_id, Phase.LOST, last.step, start_ns, end_ns)


def partition_check(spans: Sequence[PhaseSpan], start_ns: int, end_ns: int) -> list[str]:
    """Mistakes in a timeline as a partition of [start_ns, end_ns); empty when it is one."""
    problems = []
    at = start_ns
    for span in spans:
        where = f"{span.device} {span.phase.value} of step {span.step}"
        if span.start_ns > at:
            problems.append(f"{where}: {(span.start_ns - at) * 1e-9:.6f} s before it are in no phase")
        elif span.start_ns < at:
            problems.append(f"{where}: overlaps the phase before by {(at - span.start_ns) * 1e-9:.6f} s")
        if span.end_ns < span.start_ns:
            problems.append(f"{where}: ends before it starts")
        at = span.end_ns
    if at != end_ns:
        problems.append(f"the phases end {(end_ns - at) * 1e-9:.6f} s before the run does")
    return problems


def _cut_by_restart(span: PhaseSpan, observed: Sequence[int], restarts: Sequence[int]) -> PhaseSpan:
    """The span up to the last evidence of life before the first restart inside it."""
    inside = bisect_left(restarts, span.start_ns + 1)
    if inside == len(restarts) or restarts[inside] >= span.end_ns:
        return span
    before = bisect_left(observed, restarts[inside])
    last = observed[before - 1] if before else span.start_ns
    return replace(span, end_ns=max(span.start_ns, last))


def _flatten(spans: Iterable[PhaseSpan]) -> list[PhaseSpan]:
    """Spans without overlap: at any moment the one that started last. Bytes stay with the first piece."""
    result: list[PhaseSpan] = []
    open_spans: list[PhaseSpan] = []
    charged: set[int] = set()
    at = 0

    def emit(span: PhaseSpan, until_ns: int) -> None:
        nonlocal at
        if until_ns > at:
            moved = span.transferred_bytes if id(span) not in charged else 0
            charged.add(id(span))
            result.append(replace(span, start_ns=at, end_ns=until_ns, transferred_bytes=moved))
            at = until_ns

    # dict.fromkeys: a span that was delivered twice counts once.
    for span in sorted(dict.fromkeys(spans), key=lambda s: (s.start_ns, -s.end_ns)):
        while open_spans and open_spans[-1].end_ns <= span.start_ns:
            top = open_spans.pop()
            emit(top, top.end_ns)
        if open_spans:
            emit(open_spans[-1], span.start_ns)
        at = max(at, span.start_ns) if result or open_spans else span.start_ns
        open_spans.append(span)
    while open_spans:
        top = open_spans.pop()
        emit(top, top.end_ns)
    return result


def _fill(
    pieces: Sequence[PhaseSpan],
    start_ns: int,
    end_ns: int,
    device: str,
    seam_ns: int,
    restarts: Sequence[int],
) -> list[PhaseSpan]:
    """Close seams, name every other hole LOST."""
    filled: list[PhaseSpan] = []
    at = start_ns
    boot_id = pieces[0].boot_id if pieces else ""

    def lost(until_ns: int, next_step: int) -> PhaseSpan:
        step = filled[-1].step if filled else next_step
        return PhaseSpan(device, filled[-1].boot_id if filled else boot_id, Phase.LOST, step, at, until_ns)

    for piece in pieces:
        hole_ns = piece.start_ns - at
        if hole_ns > 0:
            died = bisect_left(restarts, piece.start_ns + 1) - bisect_left(restarts, at)
            if filled and hole_ns <= seam_ns and not died and filled[-1].phase is not Phase.LOST:
                filled[-1] = replace(filled[-1], end_ns=piece.start_ns)
            elif not filled and hole_ns <= seam_ns:
                piece = replace(piece, start_ns=at)
            else:
                filled.append(lost(piece.start_ns, piece.step))
        filled.append(piece)
        at = piece.end_ns
    if at < end_ns:
        if filled and end_ns - at <= seam_ns and filled[-1].phase is not Phase.LOST:
            filled[-1] = replace(filled[-1], end_ns=end_ns)
        else:
            filled.append(lost(end_ns, 0))
    return filled
