"""Numbers as people read them: units, three significant places where more say nothing, a dash for none."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roambench.energy.energy_value import Energy, told_from_zero
from roambench.report.table10 import MeanSd

NONE = "–"


def joules(value: float | None) -> str:
    """18.3 J, 1,234 J, 56,789 J."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.0f} J" if abs(value) >= 1000.0 else f"{value:.{_places(value)}f} J"


def energy(value: Energy, *, zero: str = NONE) -> str:
    """Joules with their expanded uncertainty (k = 2) where that is known and not 0; `zero` where nothing was
    measured."""
    if not value.covered_s and not value.joules:
        return zero
    if not math.isfinite(value.u_joules) or not value.u_joules > 0.0:
        return joules(value.joules)
    return f"{with_u(value.joules, value.u_joules)} J"


def with_u(value: float, u: float) -> str:
    """A value with its expanded uncertainty (k = 2) from its standard one, where that is known and not 0."""
    if not math.isfinite(value):
        return NONE
    if not math.isfinite(u) or not u > 0.0:
        return f"{value:,.{_places(value)}f}"
    places = _two_digits(2.0 * u)
    return f"{value:,.{places}f} ± {2.0 * u:,.{places}f}"


def uncertainty(u: float) -> str:
    """An expanded uncertainty (k = 2) from a standard one above 0: 2.3, 0.0041, 120."""
    return f"{2.0 * u:,.{_two_digits(2.0 * u)}f}"


def _two_digits(expanded: float) -> int:
    """Places behind the point: more than two digits of an uncertainty would only look exact."""
    return min(3, max(0, 1 - math.floor(math.log10(expanded))))


def mean_sd(value: MeanSd) -> str:
    """Mean and standard deviation, 14.2 J (sd 21.4), of one value that alone; a dash without values."""
    if not value.count:
        return NONE
    if value.count == 1:
        return joules(value.mean)
    places = _places(max(abs(value.mean), value.sd))
    return f"{value.mean:,.{places}f} J (sd {value.sd:,.{places}f})"


def over_seeds(counts: Iterable[int]) -> str:
    """Statement of what a table's figures are, by the number of seeds behind each of them."""
    found = {count for count in counts if count}
    if found <= {1}:
        return "of one seed"
    return "mean ± sd over the seeds" + (" (those without ± of one seed)" if 1 in found else "")


def percent(share: float | None, places: int = 1) -> str:
    """A share (0..1) in percent; a dash if unknown."""
    return NONE if share is None or not math.isfinite(share) else f"{100.0 * share:.{places}f} %"


def signed_percent(share: float | None, places: int = 2) -> str:
    """A share in percent with its sign; a dash if unknown."""
    return NONE if share is None or not math.isfinite(share) else f"{100.0 * share:+.{places}f} %"


def against_truth(measured_j: float, u_j: float, true_j: float) -> str:
    """The distance of a measured energy from the truth: +4.9 % (+10.2 u). In joules, +0.03 J (+0.4 u), where
    the truth is negligible beside the uncertainty: a share of it would say nothing."""
    if not math.isfinite(measured_j - true_j) or measured_j == true_j == 0.0:
        return NONE
    if told_from_zero(true_j, u_j, measured_j):
        apart = f"{100.0 * (measured_j / true_j - 1.0):+.2f} %"
    else:
        apart = f"{measured_j - true_j:+.{_places(measured_j - true_j)}f} J"
    return f"{apart} ({(measured_j - true_j) / u_j:+.1f} u)" if u_j > 0.0 else apart


def number(value: float | None, places: int = 2) -> str:
    """A number with thousands' commas; a dash if unknown."""
    return NONE if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def factor(value: float | None) -> str:
    """A factor: 2.56 ×."""
    if value is None or math.isnan(value):
        return NONE
    return "∞ ×" if math.isinf(value) else f"{value:.2f} ×"


def seconds(value: float) -> str:
    """45.2 s, 12 min 5 s, 3 h 20 min."""
    if value < 120.0:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def kilometres(mean_m: float, sd_m: float) -> str:
    """Mean and standard deviation of metres: 1.66 km (sd 0.93)."""
    return f"{mean_m / 1000.0:.2f} km (sd {sd_m / 1000.0:.2f})"


def _places(value: float) -> int:
    magnitude = abs(value)
    if magnitude >= 100.0:
        return 0
    return 1 if magnitude >= 10.0 else 2
