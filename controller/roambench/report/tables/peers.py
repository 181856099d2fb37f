"""The report's tables of decentralised runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from roambench.contract.metric import ACCURACY
from roambench.report import numbers
from roambench.report.numbers import NONE
from roambench.report.summaries.peers import PeerSummary
from roambench.report.summaries.run import RunSummary
from roambench.report.table import Table

#: Keys of the tables and figures in reading order.
KEYS: Final = (
    "peer-learning", "peer-accuracy", "peer-gap", "peer-energy", "peer-network", "peer-neighbours",
    "peer-mixing",
)  # fmt: skip

_Line = tuple[str, Callable[[PeerSummary], str]]

_LEARNING: Final[tuple[_Line, ...]] = (
    ("final accuracy, mean of devices", lambda peers: _final(peers, "mean")),
    ("  of the best device", lambda peers: _final(peers, "most")),
    ("  of the worst device", lambda peers: _final(peers, "least")),
    ("  of high-mobility devices", lambda peers: _final(peers, "high")),
    ("  of low-mobility devices", lambda peers: _final(peers, "low")),
    ("final accuracy of the mean model", lambda peers: _final(peers, "average")),
    ("high - low mobility, whole run", lambda peers: _points(peers.mean_gap)),
)
_NETWORK: Final[tuple[_Line, ...]] = (
    ("iterations", lambda peers: f"{peers.steps:,}"),
    ("high-mobility devices", lambda peers: str(peers.high_mobility)),
    ("neighbours per device and iteration", lambda peers: numbers.number(peers.mean_neighbours)),
    ("neighbours so far, high mobility", lambda peers: _last(peers, 0)),
    ("neighbours so far, low mobility", lambda peers: _last(peers, 1)),
    (
        "iterations that connect everybody, B",
        lambda peers: NONE if peers.connected_within is None else str(peers.connected_within),
    ),
    ("spectral gap, mean", lambda peers: numbers.number(peers.mean_spectral_gap, 4)),
    (
        "distance of a neighbourhood's classes, mean",
        lambda peers: numbers.number(peers.mean_distribution_distance, 3),
    ),
    ("models exchanged", lambda peers: f"{peers.exchanges:,}"),
    ("  left out", lambda peers: f"{peers.left_out_models:,}"),
    ("sent, MB", lambda peers: numbers.number(1e-6 * peers.sent_bytes)),
    ("received, MB", lambda peers: numbers.number(1e-6 * peers.received_bytes)),
)


def peer_tables(runs: Sequence[RunSummary]) -> list[Table]:
    """[] where every run has a server."""
    found = [(run, run.peers) for run in runs if run.peers is not None]
    if not found:
        return []
    head = ("", *(run.label for run, _ in found))
    network = list(_NETWORK)
    reasons = dict.fromkeys(reason for _, peers in found for reason in peers.left_out)
    at = next(place for place, (name, _) in enumerate(network) if name == "  left out") + 1
    network[at:at] = [_reason(reason) for reason in reasons]
    if all(run.learning.metric != ACCURACY for run, _ in found):
        return [_network_table(head, found, network)]
    return [
        Table(
            "peer-learning",
            "Decentralised learning",
            "Every device's model on the test set after the last scored iteration, and the mean of all "
            "models. High - low mobility: percentage points, mean over all scored iterations.",
            head,
            tuple((name, *(say(peers) for _, peers in found)) for name, say in _LEARNING),
        ),
        _energy_table(found),
        _network_table(head, found, network),
    ]


def _network_table(
    head: tuple[str, ...], found: Sequence[tuple[RunSummary, PeerSummary]], lines: Sequence[_Line]
) -> Table:
    return Table(
        "peer-network",
        "How well the network carries models",
        "B: the links of that many iterations together connect everybody, all along the run. Spectral "
        "gap: 1 - λ2(WᵀW) per iteration. Left out: neighbours that failed or were late; their weight "
        "went to the device's own model.",
        head,
        tuple((name, *(say(peers) for _, peers in found)) for name, say in lines),
    )


def _energy_table(found: Sequence[tuple[RunSummary, PeerSummary]]) -> Table:
    def cells(run: RunSummary, peers: PeerSummary) -> tuple[str, ...]:
        spent = consumed_j(run)
        bought = peers.joules_per_point(spent)
        how = "measured" if run.measured is not None else "modelled" if run.modelled is not None else NONE
        return (
            run.label,
            how,
            numbers.joules(spent),
            NONE if peers.final is None else numbers.percent(peers.final.mean),
            NONE if bought is None else f"{bought:,.2f} J",
        )

    return Table(
        "peer-energy",
        "Joules per point of accuracy",
        "What devices drew in half steps and exchanges, idle draw included, and that by percentage points of "
        "the final accuracy (mean over the devices). Moving costs nothing here.",
        ("run", "energy", "consumed", "final accuracy", "per point"),
        tuple(cells(run, peers) for run, peers in found),
        numeric_from=2,
    )


def consumed_j(run: RunSummary) -> float | None:
    """Of all orders, gross: measured where a meter saw it, else modelled."""
    if run.measured is not None:
        return run.measured.gross.cumulative_consumed.joules
    return None if run.modelled is None else run.modelled.gross.cumulative_consumed.joules


def _reason(reason: str) -> _Line:
    return f"    left out: {reason}", lambda peers: f"{peers.left_out.get(reason, 0):,}"


def _final(peers: PeerSummary, what: str) -> str:
    return NONE if peers.final is None else numbers.percent(getattr(peers.final, what))


def _points(difference: float | None) -> str:
    return NONE if difference is None else f"{100.0 * difference:+.2f}"


def _last(peers: PeerSummary, column: int) -> str:
    """Cumulative neighbours after the last iteration; none of a class without devices."""
    return numbers.number(float(peers.neighbours[-1, column]), 1)
