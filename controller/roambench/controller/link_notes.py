"""The rates that a run's links were held to, in one line for the person who started it."""

from __future__ import annotations

from collections.abc import Iterable

from roambench.rounds.records import OrderGiven, RoundRecord


def link_notes(records: Iterable[RoundRecord], port_mbit_s: float) -> list[str]:
    """How many transfers were paced, and how many of them clipped to the port; nothing for native links."""
    rates = [
        (record.paced_mbit_s, record.throughput_mbit_s)
        for record in records
        if isinstance(record, OrderGiven) and record.paced_mbit_s > 0.0
    ]
    if not rates:
        return []
    clipped = sum(paced < modelled for paced, modelled in rates)
    slowest, fastest = min(paced for paced, _ in rates), max(paced for paced, _ in rates)
    note = f"links: {len(rates)} transfers paced to {slowest:.1f} to {fastest:.1f} Mbit/s by distance"
    if clipped:
        note += f"; {clipped} modelled faster than the port's {port_mbit_s:g} Mbit/s were clipped to it"
    return [note]
