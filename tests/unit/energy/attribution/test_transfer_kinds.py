"""Which transfers share a fitted power, and what a fit does with kinds that it hardly saw."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.attribution.attribution import Resolution
from roambench.energy.attribution.pieces import pieces_of
from roambench.energy.attribution.transfer_kinds import kinds_of
from roambench.energy.integrate import power_curve
from roambench.energy.readings.samples import PowerSamples

S = 10**9


def transfer(phase: Phase, mbit_s: float, start_s: float = 0.0, length_s: float = 2.0) -> PhaseSpan:
    moved = round(mbit_s * length_s * 1e6 / 8.0)
    ends = (round(start_s * S), round((start_s + length_s) * S))
    return PhaseSpan("pi", "b", phase, 0, *ends, "o", "o", moved)


def downloads(*rates: float) -> list[str]:
    return kinds_of(pieces_of([transfer(Phase.DOWNLOAD, rate) for rate in rates]))


@pytest.mark.parametrize("rate", [0.04, 1.0, 5.65, 5.66, 11.3, 45.25, 300.0])
def test_transfers_of_about_one_rate_are_one_kind_wherever_it_lies(rate: float) -> None:
    assert downloads(rate, 1.02 * rate, 0.97 * rate, 1.3 * rate) == ["download"] * 4


def test_bands_of_half_an_octave_begin_at_the_slowest_transfer() -> None:
    """10 to 14.1 Mbit/s, then from the next one on."""
    low, next_band, wifi = (
        "download 10 to 14.1 Mbit/s",
        "download 14.2 to 20 Mbit/s",
        "download 60 to 60 Mbit/s",
    )
    assert downloads(60.0, 10.0, 14.1, 14.2, 20.0) == [wifi, low, low, next_band, next_band]


def test_directions_are_apart_and_other_phases_have_no_kind() -> None:
    """The training's first second, in which the download's tail lies, is a piece of its own."""
    spans = [
        transfer(Phase.UPLOAD, 8.0),
        transfer(Phase.DOWNLOAD, 30.0),
        transfer(Phase.TRAIN, 0.0),
        transfer(Phase.IDLE, 0.0),
    ]
    assert kinds_of(pieces_of(spans)) == ["upload", "download", "", "", ""]


def test_transfers_without_bytes_are_one_kind_alone_and_their_own_beside_others() -> None:
    assert downloads(0.0, 0.0) == ["download", "download"]
    assert downloads(0.0, 20.0) == ["download of unknown rate", "download 20 to 20 Mbit/s"]
    nothing = transfer(Phase.UPLOAD, 5.0, length_s=0.0)
    assert kinds_of(pieces_of([nothing, transfer(Phase.UPLOAD, 5.0)]))[0] == "upload of unknown rate"


def run_of(*transfers: tuple[float, float, float]) -> tuple[list[PhaseSpan], PowerSamples]:
    """Idle 2 W for 10 s before each upload of (Mbit/s, whole seconds, watts) and at the end; a line a second.

    A window is shorter than a second, so that each line sees one phase alone.
    """
    spans: list[PhaseSpan] = []
    watts: list[float] = []

    def add(span: PhaseSpan, drawn_w: float) -> None:
        spans.append(span)
        watts.extend([drawn_w] * round(span.duration_s))

    for rate, length_s, drawn_w in transfers:
        start_s = len(watts)
        add(PhaseSpan("pi", "b", Phase.IDLE, 0, start_s * S, (start_s + 10) * S), 2.0)
        add(transfer(Phase.UPLOAD, rate, start_s + 10.0, length_s), drawn_w)
    add(PhaseSpan("pi", "b", Phase.IDLE, 0, len(watts) * S, (len(watts) + 10) * S), 2.0)
    return spans, PowerSamples.of((np.arange(len(watts)) + 1) * S, watts)


def test_each_kind_keeps_its_own_power_in_the_ledger_of_a_mixed_run() -> None:
    """Uploads of 3 W at 60 Mbit/s and 2.4 W at 10: not 2.5 W both."""
    spans, samples = run_of(*((60.0, 6.0, 3.0), (10.0, 20.0, 2.4)) * 5)
    fit = attribute(samples, spans)
    parts = fit.span_energies(power_curve(samples, 0, spans[-1].end_ns))
    fast = [p for p, s in zip(parts, spans, strict=True) if s.phase is Phase.UPLOAD and s.duration_s == 6.0]
    slow = [p for p, s in zip(parts, spans, strict=True) if s.phase is Phase.UPLOAD and s.duration_s == 20.0]
    assert sum(p.net_j for p in fast) == pytest.approx(5 * 6.0 * 1.0, rel=0.01)
    assert sum(p.net_j for p in slow) == pytest.approx(5 * 20.0 * 0.4, rel=0.01)
    # By time: (30 s of 3 W and 100 s of 2.4 W) / 130 s.
    watts, u_watts = fit.watts_of(Phase.UPLOAD)
    assert watts == pytest.approx((30 * 3.0 + 100 * 2.4) / 130, rel=0.005)
    assert 0.0 < u_watts < 0.02
    assert fit.net_watts_of(Phase.UPLOAD)[0] == pytest.approx(watts - fit.idle_w)
    assert fit.resolution_of(Phase.UPLOAD) is Resolution.RESOLVED


def test_transfers_of_one_rate_are_fitted_as_if_no_rate_were_known() -> None:
    spans, samples = run_of(*((20.0, 3.0, 2.7),) * 6)
    blind = [replace(span, transferred_bytes=0) for span in spans]
    known, unknown = attribute(samples, spans), attribute(samples, blind)
    assert known.levels == unknown.levels == ("idle", "upload", "tail")
    np.testing.assert_array_equal(known.watts, unknown.watts)
    np.testing.assert_array_equal(known.covariance_w2, unknown.covariance_w2)
    assert known.spans_fit is not None
    assert unknown.spans_fit is not None
    np.testing.assert_array_equal(known.spans_fit.watts, unknown.spans_fit.watts)


def test_a_kind_that_no_reading_saw_is_taken_for_a_transfer_and_widely() -> None:
    """Known: uploads draw 2.5 W. Readings reach from 2 to 2.5 W: any family lies at 2.25 +- 0.5 W, a kind
    within 0.5 W (as much as all readings span) of its family. So the unseen one is at 2.25 + 0.25 / 2 W,
    and its variance is 0.5 - 0.25 ** 2 / 0.5 W^2.
    """
    spans, samples = run_of(*((20.0, 10.0, 2.5),) * 5, (90.0, 2.0, 2.5))
    gone = next(span for span in spans if span.duration_s == 2.0)
    kept = (samples.ns <= gone.start_ns) | (samples.ns > gone.end_ns + S)
    fit = attribute(PowerSamples(samples.ns[kept], samples.watts[kept]), spans)
    level = fit.levels.index("upload 90 to 90 Mbit/s")
    assert [fit.level_of_span[i] for i, piece in enumerate(fit.spans) if piece == gone] == [level]
    assert fit.watts[level] == pytest.approx(2.375, abs=1e-3)
    assert np.sqrt(fit.covariance_w2[level, level]) == pytest.approx(math.sqrt(0.375), rel=1e-3)
    parts = fit.span_energies(power_curve(samples, 0, spans[-1].end_ns))
    uploads = [part for part, span in zip(parts, spans, strict=True) if span.phase is Phase.UPLOAD]
    assert [part.resolved for part in uploads] == [True] * 5 + [False]
    assert fit.resolution_of(Phase.UPLOAD) is Resolution.RESOLVED  # 50 s of its 52 are


def test_a_phase_whose_time_is_mostly_in_kinds_too_short_is_undersampled() -> None:
    """At one line a second: 20 s of 60 Mbit/s, and 8 s each of three other rates in pieces of 4 s."""
    short = [(rate, 4.0, 2.5) for rate in (5.0, 10.0, 20.0) for _ in range(2)]
    spans, samples = run_of((60.0, 20.0, 3.0), *short)
    assert attribute(samples, spans).resolution_of(Phase.UPLOAD) is Resolution.UNDERSAMPLED
