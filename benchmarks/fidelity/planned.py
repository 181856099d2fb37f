"""What a plan would say of a world's widths, beside what the estimator prints there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fidelity.catalogue import WORLDS
from fidelity.generator import DEFAULT
from fidelity.judged import Run
from fidelity.world import LOADS
from roambench.meters.traits import TRAITS
from roambench.plan.widths import ExpectedPhases

#: Worlds of which a planner can know what matters: a power that is steady but for ramps, mild bursts and
#: short tails, a meter that does what its data sheet says, a board at rest that scatters as Raspberry Pis do.
KNOWN: Final = (
    "clean_2s", "clean_2s_60", "clean_2s_200", "clean_1s", "clean_1s_60", "clean_5s", "clean_10s",
    "conv_jitter", "real_board", "real_board_60", "real_board_1s_60", "tails_exp", "tails_box",
    "train_governor", "train_warm_up", "late_100", "borders_late", "ppm_50", "sp3",
    "short_03_200", "long_30", "rounds_3", "two_rates", "train_60", "peers",
)  # fmt: skip
#: Predicted over printed width, or its inverse, in the median of the runs.
GOAL: Final = 1.3


def over_printed(name: str, runs: Sequence[Run]) -> dict[str, float]:
    """Predicted over printed width (share of the net energy) of each phase."""
    p = {**DEFAULT, **WORLDS[name]["set"]}
    meter = TRAITS.load("smartpower2" if p["meter"] == "sp2" else "smartpower3-100ms")
    found = {}
    for phase in LOADS:
        if phase not in runs[0].figures:
            continue
        short = {"download": "down", "upload": "up"}.get(phase, phase)
        expected = ExpectedPhases()
        # The middle of what is drawn, at even distances.
        spread = p["train_spread" if phase == "train" else "spread"]
        count = p["rounds"] * (2 if phase == "exchange" else 1)
        for share in np.linspace(1.0 - spread, 1.0 + spread, count):
            expected.add(p[short + "_w"], share * p[short + "_s"])
        predicted = expected.u_j(p["rest_s"], p["period"], meter.window_s, meter.latch_s)
        predicted /= expected.net_j
        figures = [run.figures[phase] for run in runs]
        found[phase] = predicted / float(np.median([figure.u_j / figure.measured_j for figure in figures]))
    return found
