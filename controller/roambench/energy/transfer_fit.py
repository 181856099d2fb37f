"""Power of transfers by link and throughput: what a comparison with a link model must not mix; pure.

The ledger fits one mean power per phase type and lets single spans deviate from it. That is right for sums
over a phase, and wrong for parts of it that differ on purpose: a Wi-Fi download is short and draws much, an
LTE download is long and draws little, and the short ones would be believed to draw what the long ones do
(40 to 60 % too little for Wi-Fi transfers of 0.35 s beside LTE ones of 1 to 3 s, at 1 Hz). Here transfers
have a mean of their own for each link class and each half octave of throughput.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribute import Attribution
from roambench.energy.integrate import PowerCurve, span_stamps
from roambench.energy.lateness import LATENESS_BLUR_S
from roambench.energy.least_squares import SP2_STEP_W, Design, Fit, fit_levels
from roambench.energy.ledger import LedgerRow
from roambench.energy.link_model import megabits
from roambench.energy.occupancy import Columns
from roambench.energy.samples import PowerSamples, without_bursts, without_repeats
from roambench.energy.span_powers import span_powers

TRANSFERS = frozenset({Phase.DOWNLOAD, Phase.UPLOAD})


def kind_of(span: PhaseSpan, link: str) -> str:
    """Which transfers its power may be pooled with: direction, link, half an octave of the throughput.

    Within a whole octave of LTE rates the sum over downloads still came out 2 % low, within half of one not.
    """
    rate = float(megabits(span.transferred_bytes)) / span.duration_s if span.duration_s > 0.0 else 0.0
    band = math.floor(2.0 * math.log2(rate)) if rate > 0.0 else "none"
    return f"{span.phase.value} {link} 2^({band}/2) Mbit/s"


def rows_by_kind(
    rows: Sequence[LedgerRow],
    fit: Attribution,
    curve: PowerCurve,
    samples: PowerSamples,
    link_of_order: Mapping[str, str],
    step_w: float = SP2_STEP_W,
) -> list[LedgerRow]:
    """The ledger's `rows` of one board with its transfers fitted by kind; the other rows as they are.

    `rows` are parallel to `fit.spans`; `samples` are the raw arrivals behind `fit`, calibrated, of a meter
    with steps of `step_w`. Where all transfers of a direction are of one kind the ledger has nothing mixed
    and its rows are given back.
    """
    kinds = [
        kind_of(span, link_of_order.get(span.order_id, "")) if span.phase in TRANSFERS else ""
        for span in fit.spans
    ]
    if len(set(filter(None, kinds))) <= len({span.phase for span in fit.spans} & TRANSFERS):
        return list(rows)
    finer = _refit(fit, samples, kinds, step_w)
    found = []
    for row, kind, part in zip(rows, kinds, finer.span_energies(curve), strict=True):
        if not kind:
            found.append(row)
            continue
        idle_j = row.gross_j - row.net_j  # of the ledger, which knows the baselines
        net_j = part.gross_j - idle_j
        u_net_j2 = part.u_net_j**2 + (row.u_idle_w**2 - part.u_idle_w**2) * part.covered_s**2
        offset_j = row.u_offset_w * part.covered_s
        found.append(
            replace(
                row,
                gross_j=part.gross_j,
                net_j=net_j,
                u_gross_j=math.hypot(part.u_gross_j, row.u_gain * part.gross_j, offset_j),
                u_net_j=math.hypot(math.sqrt(max(0.0, u_net_j2)), row.u_gain * net_j),
                resolved=part.resolved,
                u_level_w=part.u_level_w,
                u_net_level_w=part.u_net_level_w,
                edge_w=part.edge_w,
                net_edge_w=part.net_edge_w,
            )
        )
    return found


def _refit(fit: Attribution, samples: PowerSamples, kinds: Sequence[str], step_w: float) -> Attribution:
    """The fit once more with a level for every kind, the lines as late as it found them."""
    index = {fit.levels[0]: 0}
    levels = np.array(
        [
            -1 if level < 0 else index.setdefault(kind or fit.levels[level], len(index))
            for kind, level in zip(kinds, fit.level_of_span.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    count = len(index)
    starts, ends = span_stamps(fit.spans)
    origin = int(starts[0])
    seconds = np.zeros(count)
    np.add.at(seconds, levels[levels >= 0], ((ends - starts) * 1e-9)[levels >= 0])
    repaired = without_bursts(samples, fit.nominal_s).samples
    arrivals = without_repeats(repaired, fit.nominal_s, fit.window.window_s).samples
    at_s, starts_s, ends_s = (np.multiply(ns - origin, 1e-9) for ns in (arrivals.ns, starts, ends))

    def fitted(late_s: float, jitter_s: float) -> tuple[Design, Columns, Fit]:
        design = Design(at_s - late_s, starts_s, ends_s, levels, count, fit.window, jitter_s)
        used = np.flatnonzero(design.used)
        return design, used, fit_levels(design, arrivals.watts[used], step_w)

    design, used, found = fitted(fit.lateness_s, fit.u_lateness_s)
    powers = span_powers(design, found, arrivals.watts[used]) if found.used_readings else None
    slope_w = np.zeros(count)
    if fit.u_lateness_s and powers is not None:
        later, earlier = (
            fitted(fit.lateness_s + move_s, LATENESS_BLUR_S)[2].watts for move_s in (0.025, -0.025)
        )
        slope_w = (later - earlier) / 0.05 * fit.u_lateness_s
    return replace(
        fit,
        levels=tuple(index),
        watts=powers.level_watts if powers else found.watts,
        covariance_w2=(powers.level_covariance if powers else found.covariance) + np.outer(slope_w, slope_w),
        noise_sd_w=np.sqrt(found.noise_w2),
        between_sd_w=powers.tau_w if powers else np.full(count, np.nan),
        seconds=seconds,
        readings=found.readings,
        residual_sd_w=found.residual_sd,
        used_readings=found.used_readings,
        prior_sd_w=found.prior_sd,
        late_slope_w=slope_w,
        level_of_span=levels,
        spans_fit=powers,
    )
