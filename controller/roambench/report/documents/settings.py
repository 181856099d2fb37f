"""The settings of repeated runs for machines: means with intervals, the best by each figure, and pairs."""

from __future__ import annotations

from typing import Any

from roambench.report.quantities import Quantity
from roambench.report.settings import Best, RepeatedSetting, Settings
from roambench.report.spread import Interval


def settings_document(found: Settings) -> dict[str, Any]:
    """Return all that the page of settings says. `interval`: 95 % of the mean (Student's t); `u`: of meters
    or models in the mean (k = 1). Of `beside`, `better_by` is a factor, its interval holds for all pairs
    together; null where there is none. `difference`: the other less the best."""
    return {
        "settings": [_setting(row, found.quantities) for row in found.rows],
        "best": [_best(best) for best in found.best],
        "notes": list(found.notes),
    }


def _setting(row: RepeatedSetting, quantities: tuple[Quantity, ...]) -> dict[str, Any]:
    spreads = {quantity: row.spread(quantity) for quantity in quantities}
    return {
        "name": row.name,
        "values": dict(row.values),
        "runs": [run.label for run in row.runs],
        "runs_in_all": row.runs_in_all,
        "basis": row.basis,
        "figures": {
            quantity.name: {
                "mean": mean.mean,
                "interval": _ends(mean.interval),
                "sd": mean.sd,
                "n": mean.n,
                "u": mean.u,
            }
            for quantity, mean in spreads.items()
            if mean.mean is not None
        },
    }


def _best(best: Best) -> dict[str, Any]:
    return {
        "figure": best.quantity.name,
        "better": best.quantity.better,
        "setting": best.setting.name,
        "sentence": best.sentence,
        "beside": [
            {
                "setting": other.name,
                "pairs": made.pairs,
                "better_by": made.factor,
                "better_by_interval": _ends(made.factor_interval),
                "difference": made.difference,
                "difference_interval": _ends(made.difference_interval),
                "resolved": made.resolved,
                "doubt": made.doubt,
            }
            for other, made in best.beside
        ],
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
