"""Modelled energy for machines: plain JSON types under keys of its own, unknown is null, `u_` is k = 1."""

from __future__ import annotations

from typing import Any

from roambench.energy.energy_value import Energy
from roambench.energy.table10 import MeanSd, Table10
from roambench.report.modelled_summary import ModelledSummary
from roambench.runs.modelled_summary import finite, to_threshold_keys


def modelled_document(modelled: ModelledSummary | None) -> dict[str, Any] | None:
    """None for a run whose energy was not modelled as a whole."""
    if modelled is None:
        return None
    power = modelled.power
    return {
        "link_model": modelled.link_model,
        "energy_rate": modelled.rate,
        "power": {"idle_w": power.idle_w, "train_w": power.train_w, "spread": power.spread},
        "table10": {"gross": _table10(modelled.gross), "net": _table10(modelled.net)},
        "phases": {
            item.phase.value: {
                "count": item.count,
                "duration_s": item.duration_s,
                "bytes": item.transferred_bytes,
                "gross": _energy(item.gross),
                "idle_j": item.idle_j,
                "net": _energy(item.net),
            }
            for item in modelled.phases
        },
        "steps": [
            {
                "step": step,
                "consumed_modelled_j": joules,
                "wasted_modelled_j": modelled.wasted_by_step.get(step, 0.0),
            }
            for step, joules in modelled.consumed_by_step.items()
        ],
        "to_threshold": to_threshold_keys(modelled.to_threshold),
    }


def _table10(table: Table10) -> dict[str, Any]:
    return {
        "cumulative_wasted": _energy(table.cumulative_wasted),
        "cumulative_consumed": _energy(table.cumulative_consumed),
        "per_training_wasted": _spread(table.per_training_wasted),
        "per_training_consumed": _spread(table.per_training_consumed),
        "per_device_wasted": _spread(table.per_board_wasted),
        "per_device_consumed": _spread(table.per_board_consumed),
        "per_round_wasted": _spread(table.per_round_wasted),
        "per_round_consumed": _spread(table.per_round_consumed),
    }


def _energy(value: Energy) -> dict[str, float]:
    return {"modelled_j": value.joules, "u_link_model_j": value.u_joules}


def _spread(value: MeanSd) -> dict[str, Any]:
    return {"mean_modelled_j": finite(value.mean), "sd_modelled_j": finite(value.sd), "count": value.count}
