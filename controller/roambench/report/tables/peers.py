"""The report's tables of decentralised runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from roambench.contract.metric import ACCURACY, Metric
from roambench.report import numbers
from roambench.report.joule_names import LEARNING
from roambench.report.numbers import NONE
from roambench.report.summaries.finding import consumed_energy
from roambench.report.summaries.peers import PeerSummary
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable

#: Keys of the tables and figures in reading order, or what they begin with.
KEYS: Final = (
    "peer-learning", "peer-accuracy", "peer-metric-", "peer-gap", "peer-energy", "peer-network",
    "peer-neighbours", "peer-mixing",
)  # fmt: skip

_Line = tuple[str, Callable[[PeerSummary], str]]
_Found = Sequence[tuple[RunSummary, PeerSummary]]

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


def peer_tables(runs: Sequence[RunSummary]) -> list[ReportTable]:
    """[] where every run has a server."""
    found = [(run, run.peers) for run in runs if run.peers is not None]
    if not found:
        return []
    judged = {metric: _judged_by(metric, found) for metric in dict.fromkeys(p.metric for _, p in found)}
    tables = [_learning_table(metric, those) for metric, those in judged.items()]
    if ACCURACY in judged:
        tables.append(_energy_table(judged[ACCURACY]))
    return [*tables, _network_table(found)]


def _judged_by(metric: Metric, found: _Found) -> _Found:
    return [(run, peers) for run, peers in found if peers.metric == metric]


def _learning_table(metric: Metric, found: _Found) -> ReportTable:
    def row(name: str, of: str) -> tuple[str, ...]:
        return name, *(_final(peers, of) for _, peers in found)

    gap, way, key = "percentage points", "", "peer-learning"
    if metric != ACCURACY:
        gap, way, key = f"of {metric.name}", f" ({metric.better} is better)", f"peer-learning-{metric.key}"
    return ReportTable(
        key,
        "Decentralised learning",
        "Every device's model on the test set after the last scored iteration, and the mean of all "
        f"models. High - low mobility: {gap}, mean over all scored iterations.",
        ("", *(run.label for run, _ in found)),
        (
            row(f"final {metric.name}, mean of devices{way}", "mean"),
            row("  of the best device", "best"),
            row("  of the worst device", "worst"),
            row("  of high-mobility devices", "high"),
            row("  of low-mobility devices", "low"),
            row(f"final {metric.name} of the mean model", "average"),
            ("high - low mobility, whole run", *(_gap(peers) for _, peers in found)),
        ),
    )


def _network_table(found: _Found) -> ReportTable:
    lines = list(_NETWORK)
    reasons = dict.fromkeys(reason for _, peers in found for reason in peers.left_out)
    at = next(place for place, (name, _) in enumerate(lines) if name == "  left out") + 1
    lines[at:at] = [_reason(reason) for reason in reasons]
    return ReportTable(
        "peer-network",
        "How well the network carries models",
        "B: the links of that many iterations together connect everybody, all along the run. Spectral "
        "gap: 1 - λ2(WᵀW) per iteration. Left out: neighbours that failed or were late; their weight "
        "went to the device's own model.",
        ("", *(run.label for run, _ in found)),
        tuple((name, *(say(peers) for _, peers in found)) for name, say in lines),
    )


def _energy_table(found: _Found) -> ReportTable:
    def cells(run: RunSummary, peers: PeerSummary) -> tuple[str, ...]:
        consumed = consumed_energy(run)
        spent = None if consumed is None else consumed.joules
        bought = peers.joules_per_point(spent)
        return (
            run.label,
            run.basis or NONE,
            numbers.joules(spent),
            _final(peers, "mean"),
            NONE if bought is None else f"{bought:,.2f} J",
        )

    return ReportTable(
        "peer-energy",
        "Joules per point of accuracy",
        "What devices drew in half steps and exchanges, idle draw included, and that by percentage points of "
        "the final accuracy (mean over the devices). Moving costs nothing here.",
        ("run", "energy", LEARNING, "final accuracy", "per point"),
        tuple(cells(run, peers) for run, peers in found),
        numeric_from=2,
    )


def _reason(reason: str) -> _Line:
    return f"    left out: {reason}", lambda peers: f"{peers.left_out.get(reason, 0):,}"


def _final(peers: PeerSummary, of: str) -> str:
    value = None if peers.final is None else getattr(peers.final, of)
    return NONE if value is None else peers.metric.text(value)


def _gap(peers: PeerSummary) -> str:
    gap = peers.mean_gap
    if gap is None:
        return NONE
    return f"{100.0 * gap:+.2f}" if peers.metric == ACCURACY else f"{gap:+.4g}"


def _last(peers: PeerSummary, column: int) -> str:
    """Cumulative neighbours after the last iteration; none of a class without devices."""
    return numbers.number(float(peers.neighbours[-1, column]), 1)
