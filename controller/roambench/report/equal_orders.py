"""Whether runs of one experiment, on whatever fleets, were given the same orders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from roambench.rounds.records import OrderGiven

if TYPE_CHECKING:  # it imports this module
    from roambench.report.evidence import RunEvidence

#: What decides who is to train, besides system and seed; the rest is how and where that is measured.
_SECTIONS: Final = ("trace", "fleet", "learning", "synthetic", "algorithm", "rounds")
_INDIFFERENT: Final = ("orders", "step_close", "dither_s")


def with_divergence(runs: Sequence[RunEvidence]) -> list[RunEvidence]:
    """The runs, with a note on each whose trainings are not those of the first run of its experiment."""
    first: dict[str, RunEvidence] = {}
    told = []
    for run in runs:
        before = first.setdefault(_experiment(run), run)
        step = None if before is run else first_difference(trainings(before), trainings(run))
        if step is not None:
            note = (
                f"it was given other orders than {before.label} from step {step} on, though the experiment "
                f"is the same: its selection reads models; to force equal ones: "
                f'rounds.orders = "replay:{before.path}"'
            )
            run = replace(run, notes=(*run.notes, note))
        told.append(run)
    return told


def trainings(run: RunEvidence) -> npt.NDArray[np.int64]:
    """(step, device) of every training that was ordered; shape (trainings, 2)."""
    ordered = run.records.codes(OrderGiven, "kind", ["train"]) == 0
    columns = [run.records.array(OrderGiven, name)[ordered] for name in ("step", "device")]
    return np.stack(columns, axis=1).astype(np.int64)


def first_difference(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> int | None:
    """The first step at which others were told to train; None where all are the same."""
    width = 1 + max((int(side[:, 1].max()) for side in (left, right) if len(side)), default=0)
    only = np.setxor1d(left[:, 0] * width + left[:, 1], right[:, 0] * width + right[:, 1])
    return int(only[0]) // width if len(only) else None


def _experiment(run: RunEvidence) -> str:
    sections = {name: run.config.get(name) for name in _SECTIONS}
    if isinstance(rounds := sections["rounds"], dict):
        sections["rounds"] = {key: value for key, value in rounds.items() if key not in _INDIFFERENT}
    info = run.info
    values = [info.system, info.seed, info.trace_hash, len(info.device_names), sections]
    return json.dumps(values, sort_keys=True, default=str)
