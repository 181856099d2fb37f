"""De Heredia's Tables 1 to 8 with the runs of a sweep beside them; pure. All figures are percentage points.

1, 5  final accuracy less that of p = 0, plain averages; non-IID, IID
2, 6  high- minus low-mobility clients over the whole run, plain averages; non-IID, IID
3     the same by mixing, non-IID
4, 7  final accuracy of mobility-aware mixing less that of plain averages, non-IID (4: α = 1 alone); 8: IID
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from roambench.extras.papers.peer_runs import PeerRun, close, differences, known, signed_points, spread
from roambench.report import numbers
from roambench.report.table import ReportTable

P: Final = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)
PLAIN, AWARE = "d_psgd", "mobility_aware"

#: Non-IID (False) or IID (True) -> p -> figure.
GAIN: Final[Mapping[bool, Mapping[float, float]]] = {
    False: dict(zip(P[1:], (2.73, 4.64, 6.51, 6.71, 8.56, 8.97), strict=True)),
    True: dict(zip(P[1:], (0.07, 1.12, 1.08, 1.43, 1.90, 2.11), strict=True)),
}
GAP: Final[Mapping[bool, Mapping[float, float]]] = {
    False: dict(zip(P[1:6], (4.81, 4.13, 2.53, 2.04, 0.90), strict=True)),
    True: dict(zip(P[1:6], (1.57, 1.21, 0.94, 0.85, 0.60), strict=True)),
}
#: α -> p -> figure, non-IID (Table 3).
AWARE_GAP: Final[Mapping[float, Mapping[float, float]]] = {
    alpha: dict(zip(P[1:6], row, strict=True))
    for alpha, row in (
        (0.1, (4.66, 3.79, 2.84, 1.90, 1.27)),
        (0.2, (3.35, 3.70, 3.00, 2.35, 1.20)),
        (0.3, (4.26, 3.92, 2.81, 1.97, 1.24)),
        (0.4, (3.16, 3.17, 2.64, 2.28, 1.19)),
        (1.0, (3.76, 3.45, 3.47, 3.44, 2.89)),
    )
}
#: Non-IID (False, Table 7) or IID (True, Table 8) -> α -> p -> figure.
AWARE_GAIN: Final[Mapping[bool, Mapping[float, Mapping[float, float]]]] = {
    False: {
        0.1: dict(zip(P, (0.02, 0.85, -1.53, 0.42, 1.33, -0.05, -0.70), strict=True)),
        0.2: dict(zip(P, (0.29, -0.37, 0.16, -0.07, 0.91, 0.01, -0.13), strict=True)),
        0.3: dict(zip(P, (0.91, -1.30, 0.05, -0.63, 0.53, 0.13, -0.30), strict=True)),
        0.4: dict(zip(P, (0.98, -1.40, -0.43, -1.05, 0.13, -1.17, -0.30), strict=True)),
        1.0: dict(zip(P, (-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56), strict=True)),
    },
    True: {
        0.1: dict(zip(P, (-0.23, 0.39, -0.53, 0.18, 0.18, -0.09, -0.05), strict=True)),
        0.2: dict(zip(P, (0.17, 0.23, -0.42, -0.01, 0.06, 0.02, -0.09), strict=True)),
        0.3: dict(zip(P, (-0.34, -0.05, -1.03, 0.01, -0.03, -0.03, -0.03), strict=True)),
        0.4: dict(zip(P, (-0.90, 0.12, -1.02, -0.14, -0.13, -0.01, -0.05), strict=True)),
        1.0: dict(zip(P, (-1.73, -2.26, -4.37, -1.98, -1.98, -0.76, -0.24), strict=True)),
    },
}


def de_heredia_tables(runs: Sequence[PeerRun]) -> list[ReportTable]:
    """Those for which there are runs; [] where no device walked the paper's walk."""
    kept = [run for run in runs if run.mobility == "reflected_walk"]
    tables = []
    for iid in (False, True):
        of_data = [run for run in kept if run.iid is iid]
        tables += [table for table in (_plain(of_data, iid), _aware(of_data, iid)) if table is not None]
    return tables


def _plain(runs: Sequence[PeerRun], iid: bool) -> ReportTable | None:
    """Tables 1 and 2, or 5 and 6, in one."""
    plain = [run for run in runs if run.system == PLAIN]
    if not plain:
        return None
    still = _at(plain, 0.0)
    rows = []
    for share in sorted({run.fast_share for run in plain}):
        found = _at(plain, share)
        rows.append(
            (
                f"{100.0 * share:g} %",
                _accuracy(found),
                signed_points(differences(found, still)) if still and share else numbers.NONE,
                _paper(GAIN[iid].get(share)),
                signed_points(known(found, "mobility_gap")),
                _paper(GAP[iid].get(share)),
            )
        )
    one, two = (5, 6) if iid else (1, 2)
    return ReportTable(
        f"de-heredia-{one}",
        f"Plain averages, {_data(iid)} (Tables {one} and {two})",
        "Final accuracy, its difference from p = 0 with the same seed, and the mean difference over all "
        "scored iterations between high- and low-mobility clients; percentage points, "
        f"{_seeds(plain)}.",
        ("p", "final accuracy", "from p = 0", "paper", "high - low", "paper"),
        tuple(rows),
    )


def _aware(runs: Sequence[PeerRun], iid: bool) -> ReportTable | None:
    """Tables 3, 4 and 7, or 8."""
    aware = [run for run in runs if run.system == AWARE]
    if not aware:
        return None
    rows = []
    for alpha in sorted({run.mixing_alpha for run in aware}):
        for share in sorted({run.fast_share for run in aware}):
            found = [run for run in _at(aware, share) if close(run.mixing_alpha, alpha)]
            if found:
                plain = [run for run in _at(runs, share) if run.system == PLAIN]
                rows.append(
                    (
                        f"{alpha:g}",
                        f"{100.0 * share:g} %",
                        _accuracy(found),
                        signed_points(differences(found, plain)),
                        _paper(AWARE_GAIN[iid].get(alpha, {}).get(share)),
                        signed_points(known(found, "mobility_gap")),
                        _paper(None if iid else AWARE_GAP.get(alpha, {}).get(share)),
                    )
                )
    return ReportTable(
        f"de-heredia-{8 if iid else 3}",
        f"Mobility-aware mixing, {_data(iid)} ({'Table 8' if iid else 'Tables 3, 4 and 7'})",
        "Final accuracy, its difference from plain averages with the same p and seed, and the mean "
        f"difference between high- and low-mobility clients; percentage points, {_seeds(aware)}.",
        ("α", "p", "final accuracy", "from plain", "paper", "high - low", "paper"),
        tuple(rows),
        numeric_from=2,
    )


def _at(runs: Sequence[PeerRun], share: float) -> list[PeerRun]:
    return [run for run in runs if close(run.fast_share, share)]


def _seeds(runs: Sequence[PeerRun]) -> str:
    return numbers.over_seeds(Counter((run.fast_share, run.mixing_alpha) for run in runs).values())


def _accuracy(runs: Sequence[PeerRun]) -> str:
    return spread(known(runs, "final_accuracy"), scale=100.0, unit=" %")


def _paper(value: float | None) -> str:
    return numbers.NONE if value is None else f"{value:+.2f}"


def _data(iid: bool) -> str:
    return "IID" if iid else "non-IID"
