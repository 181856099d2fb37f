"""The energy of a run for machines, measured and modelled under separate keys; `u_` is k = 1."""

from __future__ import annotations

from typing import Any

from roambench.energy.comparison.transfer import ModelBasis
from roambench.energy.energy_value import Energy
from roambench.energy.idle.baseline import IdleBaselines, IdleLevel, NoBaselines
from roambench.report.documents.comparison import classes, compared, value
from roambench.report.summaries.energy import BoardEnergy, EnergySummary
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.truth_checks import TruthByKind, TruthCheck
from roambench.report.table10 import MeanSd, Table10
from roambench.runs.modelled.summary import to_threshold_keys


def energy_document(energy: EnergySummary | None) -> dict[str, Any] | None:
    """None for a run that no meter saw."""
    if energy is None:
        return None
    return {
        "duration_s": energy.duration_s,
        "without": dict(energy.without),
        **({"sites": energy.sites} if energy.scope else {}),
        **({"reading_w": energy.reading_w} if energy.reading_w else {}),
        "whole_run": value(energy.whole_run),
        "whole_run_net": value(energy.whole_run_net),
        "truth": _truth(energy.truth),
        "table10": {"gross": _table10(energy.gross), "net": _table10(energy.net)},
        "phases": {
            item.phase.value: {
                "spans": item.count,
                "duration_s": item.duration_s,
                "gross": value(item.gross),
                "idle_j": item.idle_j,
                "net": value(item.net),
                "naive_j": item.naive_j,
                "truth": _split_truth(item.truth),
            }
            for item in energy.phases
        },
        "communication": {
            "download": compared(energy.comparison.download),
            "upload": compared(energy.comparison.upload),
            "total": compared(energy.comparison.total),
            "modelled_at_measured_throughput_j": {
                "download": energy.comparison.download.modelled_j(ModelBasis.ACTUAL),
                "upload": energy.comparison.upload.modelled_j(ModelBasis.ACTUAL),
            },
            "classes": classes(energy.comparison),
        },
        "boards": [
            {
                "device": board.device,
                "whole_run": value(board.whole_run),
                "net": value(board.net),
                "idle_w": board.idle_w,
                "baselines": _baselines(board.baselines),
                "consumed_j": board.consumed.joules,
                "wasted_j": board.wasted.joules,
                "failed_j": board.failed.joules,
                "lost_s": board.lost_s,
                "readings": board.readings,
                "inconsistent": board.inconsistent,
                "undervoltage": board.undervoltage,
                **({"saturated": board.saturated} if board.saturated else {}),
                **({"site": board.site} if board.site else {}),
                "frozen": [
                    {"duration_s": stretch.duration_s, "watts": stretch.watts} for stretch in board.frozen
                ],
                "split": _split(board),
                "truth": _truth(board.truth),
                "truth_by_phase": {
                    phase.value: _split_truth(found) for phase, found in board.truth_by_phase.items()
                },
            }
            for board in energy.boards
        ],
    }


def _baselines(found: IdleBaselines | NoBaselines) -> dict[str, Any] | None:
    def level(idle: IdleLevel) -> dict[str, Any]:
        return {"watts": idle.watts, "u_watts": idle.u_watts, "readings": idle.readings}

    if isinstance(found, NoBaselines):
        return None
    return {"before": level(found.before), "after": level(found.after), "drifted": found.drifted}


def _truth(truth: TruthCheck | None) -> dict[str, Any] | None:
    if truth is None:
        return None
    return {
        "boards": truth.boards,
        "boards_within_2u": truth.within,
        "measured_j": truth.measured_j,
        "true_j": truth.true_j,
        "relative_error": truth.error,
    }


def _split(board: BoardEnergy) -> dict[str, Any]:
    """The method that separated the board's phases, and the evidence against it."""
    split = board.split
    return {
        "method": split.method.value,
        "rest_s": split.rest_s,
        "guard_s": split.guard_s,
        "tails": {
            phase.value: {"watts": tail.watts, "z": tail.z, "rest_s": tail.rest_s}
            for phase, tail in split.checks.tails.items()
        },
        "locked": [phase.value for phase in split.checks.locked],
        "early_w": {phase.value: watts for phase, watts in split.checks.early_w.items()},
        "early_cause": split.checks.early_cause,
        "lost_share": split.checks.lost_share,
    }


def _split_truth(found: TruthByKind | None) -> dict[str, Any] | None:
    return None if found is None else {"gross": _truth(found.gross), "net": _truth(found.net)}


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
                "gross": _modelled(item.gross),
                "idle_j": item.idle_j,
                "net": _modelled(item.net),
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
    measured = table.basis == "measured"
    board, joules, energy = ("board", "j", value) if measured else ("device", "modelled_j", _modelled)

    def spread(found: MeanSd) -> dict[str, Any]:
        return {f"mean_{joules}": found.mean, f"sd_{joules}": found.sd, "count": found.count}

    document = {
        name.replace("board", board): energy(row) if isinstance(row, Energy) else spread(row)
        for name, row in table.rows().items()
    }
    return {**document, "empty_rounds": table.empty_rounds} if measured else document


def _modelled(energy: Energy) -> dict[str, Any]:
    return {"modelled_j": energy.joules, "u_link_model_j": energy.u_joules}
