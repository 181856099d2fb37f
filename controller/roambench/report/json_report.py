"""The report for machines: one JSON document with stable keys. Joules are floats, what is unknown is null."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roambench.contract.json_values import without_nan
from roambench.energy.baseline import IdleBaselines, IdleLevel
from roambench.energy.compared_transfer import Basis
from roambench.energy.table10 import MeanSd, Table10
from roambench.report.board_state import BoardState
from roambench.report.comparison_document import classes, compared, value, without_model
from roambench.report.energy_summary import BoardEnergy, EnergySummary
from roambench.report.modelled_document import modelled_document
from roambench.report.peer_document import peer_document
from roambench.report.summary import (
    RunSummary,
    comparison_flags,
    finite,
    improvements,
    reference_of,
)
from roambench.report.truth_checks import TruthByKind, TruthCheck

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.report/2"


def json_text(runs: Sequence[RunSummary]) -> str:
    """The report as a JSON document."""
    return json.dumps(without_nan(document(runs)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """The document: `runs` in the order given, and how many times more each spends than `reference`.

    A factor is null where it is no number (both spend nothing) or without bound (only the run does).
    """
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in runs],
        "improvement": {
            "reference": reference_of(runs).label,
            "factors": {
                label: {kind: _finite(rows) for kind, rows in kinds.items()}
                for label, kinds in improvements(runs).items()
            },
        },
        "flags": list(comparison_flags(runs)),
    }


def _run(run: RunSummary) -> dict[str, Any]:
    info = run.info
    measured = run.measured
    return {
        "name": run.label,
        "run_id": info.run_id,
        "system": info.system,
        "seed": info.seed,
        "fleet": info.fleet,
        "state": info.state.value,
        "reason": info.reason,
        "trace_hash": info.trace_hash,
        "association": info.association,
        "assignment_hash": info.assignment_hash,
        "time_scale": info.time_scale,
        "lookahead": info.lookahead,
        "devices": list(info.device_names),
        "versions": dict(info.versions),
        "flags": list(run.flags),
        "wasted_j": measured.gross.cumulative_wasted.joules if measured else None,
        "consumed_j": measured.gross.cumulative_consumed.joules if measured else None,
        "wasted_net_j": measured.net.cumulative_wasted.joules if measured else None,
        "consumed_net_j": measured.net.cumulative_consumed.joules if measured else None,
        "learning": {
            "final_accuracy": finite(run.learning.final_accuracy),
            "final_loss": finite(run.learning.final_loss),
            "best_accuracy": finite(run.learning.best_accuracy),
            "threshold": run.learning.threshold,
            "threshold_step": run.learning.threshold_step,
            "cloud_aggregations": run.learning.cloud_aggregations,
            "aggregated_per_step": run.learning.aggregated_per_step,
            "steps": [
                {
                    "step": point.step,
                    "present": point.present,
                    "trainings": point.trainings,
                    "aggregated": point.aggregated,
                    "outstanding": point.outstanding,
                    "cloud": point.cloud,
                    "accuracy": finite(point.accuracy),
                    "loss": finite(point.loss),
                }
                for point in run.learning.points
            ],
        },
        "trainings": {
            "ordered": run.trainings.ordered,
            "aggregated": run.trainings.aggregated,
            "wasted": run.trainings.wasted,
            "outstanding": run.trainings.pending,
            "wasted_share": run.trainings.wasted_share,
            "wasted_reasons": dict(run.trainings.reasons),
            "wasted_reappeared": run.trainings.wasted_reappeared,
            "reached_cloud": run.trainings.reached_cloud,
        },
        "orders": {
            "answers": [
                {"kind": kind, "status": status, "count": count}
                for (kind, status), count in run.orders.answers.items()
            ],
            "unanswered": run.orders.unanswered,
            "troubles": [
                {
                    "step": item.step,
                    "device": item.device,
                    "kind": item.kind,
                    "status": item.status,
                    "reason": item.reason,
                }
                for item in run.orders.troubles
            ],
            "lateness_p99_s": run.orders.lateness_p99_s,
            "late_share": run.orders.late_share,
        },
        "incidents": [
            {"step": item.step, "device": item.device, "kind": item.kind, "detail": item.detail}
            for item in run.incidents
        ],
        "distance_m": None
        if run.distance is None
        else {"mean": run.distance.mean_m, "sd": run.distance.sd_m, "pairs": run.distance.pairs},
        "modelled_j": {
            "download": run.modelled_from_log_j["down"],
            "upload": run.modelled_from_log_j["up"],
        },
        "energy": _energy(measured) if measured else None,
        "energy_modelled": modelled_document(run.modelled),
        "decentralised": peer_document(run.peers),
        "instrument": None if run.instrument is None else run.instrument.sentence,
        "board_states": [_state(state) for state in run.boards],
    }


def _state(state: BoardState) -> dict[str, Any]:
    """`clock.case`: local (one clock), remote, unknown; `throttled_phases` counts them by type."""
    clock, host, meter = state.clock, state.host, state.meter
    return {
        "device": state.device,
        "meter": None
        if meter is None
        else {"driver": meter.driver, "traits": meter.traits, "port": meter.port, "serial": meter.serial},
        "clock": {
            "case": clock.case.value,
            "reader": clock.reader,
            "offset_ms": finite(clock.offset_ms),
            "bound_ms": finite(clock.bound_ns * 1e-6),
            "drift_ppm": finite(clock.drift_ppm),
            "bursts": clock.bursts,
            "verdict": clock.verdict.value,
        },
        "spool": {
            spool.store: {"depth": spool.depth, "dropped": spool.dropped, "dead": spool.dead}
            for spool in state.spools
        },
        "host": None
        if host is None
        else {
            "samples": host.samples,
            "cpu_share": finite(host.cpu_share),
            "agent_share": finite(host.agent_share),
            "mean_c": finite(host.mean_c),
            "highest_c": finite(host.highest_c),
            "lowest_mhz": finite(host.lowest_mhz),
            "highest_mhz": finite(host.highest_mhz),
            "knows_throttling": host.knows_throttling,
        },
        "throttled_phases": {phase.value: count for phase, count in state.throttled_phases().items()},
        "throttle_bits": list(state.throttle_names()),
    }


def _energy(energy: EnergySummary) -> dict[str, Any]:
    return {
        "duration_s": energy.duration_s,
        "without": dict(energy.without),
        "whole_run": value(energy.whole_run),
        "whole_run_net": value(energy.whole_run_net),
        "truth": _truth(energy.truth),
        "table10": {"gross": _table10(energy.gross), "net": _table10(energy.net)},
        "phases": {
            item.phase.value: {
                "spans": item.spans,
                "duration_s": item.duration_s,
                "gross": value(item.gross),
                "idle_j": item.idle_j,
                "net": value(item.net),
                "naive_j": item.naive_j,
                "unresolved_spans": item.unresolved,
                "design_based": without_model(item.without_model),
                "design_based_boards": list(item.by_design),
                "truth": _split_truth(item.truth),
            }
            for item in energy.phases
        },
        "communication": {
            "download": compared(energy.comparison.download),
            "upload": compared(energy.comparison.upload),
            "total": compared(energy.comparison.total),
            "modelled_at_measured_throughput_j": {
                "download": finite(energy.comparison.download.modelled_j(Basis.ACTUAL)),
                "upload": finite(energy.comparison.upload.modelled_j(Basis.ACTUAL)),
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
                "lost_s": board.lost_s,
                "readings": board.readings,
                "inconsistent": board.inconsistent,
                "undervoltage": board.undervoltage,
                "split": _split(board),
                "truth": _truth(board.truth),
                "truth_by_phase": {
                    phase.value: _split_truth(found) for phase, found in board.truth_by_phase.items()
                },
            }
            for board in energy.boards
        ],
    }


def _baselines(found: IdleBaselines | None) -> dict[str, Any] | None:
    def level(idle: IdleLevel) -> dict[str, Any]:
        return {"watts": idle.watts, "u_watts": finite(idle.u_watts), "readings": idle.readings}

    if found is None:
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
        "relative_error": finite(truth.error),
    }


def _split(board: BoardEnergy) -> dict[str, Any]:
    """How well the split's assumptions are borne out: `misfit_z` above 4 contradicts them."""
    misfit = board.misfit
    return {
        "misfit": None if misfit is None else misfit.sentence,
        "misfit_z": None if misfit is None else finite(misfit.z),
        "unsteady_transfers": board.unsteady,
        "restless": list(board.restless),
        "locked": list(board.locked),
        "sampling_offsets_of_10": board.offsets,
        "lateness_s": finite(board.lateness_s),
        "u_lateness_s": finite(board.u_lateness_s),
    }


def _split_truth(found: TruthByKind | None) -> dict[str, Any] | None:
    return None if found is None else {"gross": _truth(found.gross), "net": _truth(found.net)}


def _table10(table: Table10) -> dict[str, Any]:
    def spread(value: MeanSd) -> dict[str, Any]:
        return {"mean_j": finite(value.mean), "sd_j": finite(value.sd), "count": value.count}

    return {
        "cumulative_wasted": value(table.cumulative_wasted),
        "cumulative_consumed": value(table.cumulative_consumed),
        "per_training_wasted": spread(table.per_training_wasted),
        "per_training_consumed": spread(table.per_training_consumed),
        "per_board_wasted": spread(table.per_board_wasted),
        "per_board_consumed": spread(table.per_board_consumed),
        "per_round_wasted": spread(table.per_round_wasted),
        "per_round_consumed": spread(table.per_round_consumed),
        "empty_rounds": table.empty_rounds,
    }


def _finite(rows: Mapping[str, float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in rows.items()}
