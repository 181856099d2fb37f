"""The report for machines: one JSON document with stable keys. Joules are floats, what is unknown is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from roambench.contract.json_values import without_nan
from roambench.report.documents.energy import energy_document, modelled_document
from roambench.report.documents.peers import peer_document
from roambench.report.documents.settings import settings_document
from roambench.report.half_runs import HalfRun
from roambench.report.quantities import QUANTITIES, number_of, part_of
from roambench.report.settings import Settings
from roambench.report.summaries.board_state import BoardState
from roambench.report.summaries.orders import device_name
from roambench.report.summaries.report_flags import common_flags
from roambench.report.summaries.run import RunSummary, improvements, reference_of

#: Raised when a key changes its meaning or disappears; new keys do not raise it.
SCHEMA: Final = "roambench.report/3"
#: Measured joules at the top of a run: key and quantity.
_JOULES: Final = {
    "boards_in_all_j": "whole_run_j",
    "used_for_learning_j": "consumed_j",
    **{
        f"{name}{net}_j": f"{name}{net}_j"
        for net in ("", "_net")
        for name in ("wasted", "consumed", "failed")
    },
}


def json_text(
    runs: Sequence[RunSummary], halves: Sequence[HalfRun] = (), settings: Settings | None = None
) -> str:
    """The report as a JSON document; of runs that cannot be summed up why, and the figures that their ends
    wrote; of repeated runs their settings."""
    found: dict[str, Any] = document(runs) if runs else {"schema": SCHEMA, "runs": []}
    if settings is not None:
        found["settings"] = settings_document(settings)
    if halves:
        found["half_runs"] = [
            {"name": it.label, "problem": it.problem, **asdict(it.figures)} for it in halves
        ]
    return json.dumps(without_nan(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """The document: `runs` in the order given, and how many times more each spends than `reference`.

    A factor is null where it is no number (both spend nothing) or without bound (only the run does).
    """
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in runs],
        "improvement": {
            "reference": reference_of(runs).label,
            "factors": improvements(runs),
        },
        "flags": [flag.sentence for flag in common_flags(runs)],
        "routine": [flag.sentence for flag in common_flags(runs) if flag.routine],
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
        "routine": [flag.sentence for flag in run.doubts if flag.routine],
        **{
            key: number_of(QUANTITIES[name].figure(run)) if measured else None
            for key, name in _JOULES.items()
        },
        "learning": {
            **part_of(run, "learning"),
            "metric": run.learning.metric.name,
            "better": {metric.name: metric.better for metric in run.learning.own},
            "final_metrics": run.learning.final_metrics,
            "best_metrics": run.learning.best_metrics,
            "threshold": run.learning.threshold,
            "steps": [
                {
                    "step": point.step,
                    "present": point.present,
                    "trainings": point.trainings,
                    "aggregated": point.aggregated,
                    "outstanding": point.outstanding,
                    "cloud": point.cloud,
                    "accuracy": point.accuracy,
                    "loss": point.loss,
                    "metrics": {
                        name: values[point.step]
                        for name, values in run.learning.metrics.items()
                        if point.step in values
                    },
                }
                for point in run.learning.points
            ],
        },
        "trainings": {
            **part_of(run, "trainings"),
            "outstanding": run.trainings.pending,
            "wasted_reasons": dict(run.trainings.reasons),
            "failed_reasons": dict(run.trainings.failed_reasons),
            "never_trained": {
                device_name(info.device_names, device): why for device, why in run.trainings.never.items()
            },
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
        "energy": energy_document(measured),
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
            "offset_ms": clock.offset_ms,
            "bound_ms": clock.bound_ns * 1e-6,
            "drift_ppm": clock.drift_ppm,
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
            "cpu_share": host.cpu_share,
            "agent_share": host.agent_share,
            "mean_c": host.mean_c,
            "highest_c": host.highest_c,
            "lowest_mhz": host.lowest_mhz,
            "highest_mhz": host.highest_mhz,
            "knows_throttling": host.knows_throttling,
        },
        "throttled_phases": {phase.value: count for phase, count in state.throttled_phases().items()},
        "throttle_bits": list(state.throttle_names()),
        "noted": [
            {
                "kind": note.kind.value,
                "count": note.count,
                "first": note.first,
                "phases": note.phases,
                "joules": note.joules,
            }
            for note in state.notes
        ],
    }
